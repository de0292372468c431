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
def follow(new: Any, old: Any, anchor: Any, pull: Any) -> Any:
    """R + pull (anchor - R) with new = T(old) and its reflection R = 2 new - old."""
    there = extrapolate(new, old)
    return there + pull * (anchor - there)


@inlined
def overstep(new: Any, old: Any, relax: Any) -> Any:
    """new + relax (new - old), beyond new = T(old)."""
    return new + relax * (new - old)


@inlined
def laplacian(degree: Any, own: Any, neighbours: Any) -> Any:
    """(L z)_j = degree_j z_j - sum over the neighbours."""
    return degree * own - neighbours
