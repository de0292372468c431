"""The few formulas that every update is made of, for numbers and for lines alike."""

from __future__ import annotations

from typing import Any

from fdglm_fast.kernels._jit import inlined


@inlined
def descend(old: Any, step: Any, slope: Any) -> Any:
    """old - step * slope: a gradient step down, for theta and v."""
    return old - step * slope


@inlined
def ascend(old: Any, step: Any, slope: Any) -> Any:
    """old + step * slope: a gradient step up, for lambda."""
    return old + step * slope


@inlined
def extrapolate(new: Any, old: Any) -> Any:
    """2 new - old; the doubling is exact."""
    return (new + new) - old


@inlined
def reflect(old: Any, move: Any) -> Any:
    """old + 2 move, which is 2 new - old for new = old + move."""
    return old + (move + move)


@inlined
def laplacian(degree: Any, own: Any, neighbours: Any) -> Any:
    """(L z)_j = degree_j z_j - sum over the neighbours."""
    return degree * own - neighbours
