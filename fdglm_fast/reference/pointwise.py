"""The compiled losses over whole vectors, and the inner loops of the coordinate descent.

What is compiled does not allocate; the plain functions beside it do.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.kernels import losses as pointwise_loss
from fdglm_fast.kernels._jit import scalar
from fdglm_fast.kernels.penalties import prox
from fdglm_fast.losses import HUBER, LOGISTIC, SQUARED, SQUARED_HINGE

_value, _slope = pointwise_loss.value, pointwise_loss.slope
_curvature, _conjugate = pointwise_loss.curvature, pointwise_loss.conjugate

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


@scalar
def _fill_values(code: int, k: float, z: Array, y: Array, out: Array) -> None:
    """out_i = loss(z_i, y_i)."""
    for i in range(z.shape[0]):
        out[i] = _value(code, k, z[i], y[i])


@scalar
def _fill_slopes(code: int, k: float, z: Array, y: Array, out: Array) -> None:
    """out_i = loss'(z_i, y_i)."""
    for i in range(z.shape[0]):
        out[i] = _slope(code, k, z[i], y[i])


@scalar
def _fill_conjugates(code: int, k: float, lam: Array, y: Array, out: Array) -> None:
    """out_i = loss*(lam_i, y_i)."""
    for i in range(lam.shape[0]):
        out[i] = _conjugate(code, k, lam[i], y[i])


@scalar
def _majorant(code: int, k: float, z: float, y: float) -> float:
    """The curvature of a parabola that touches the loss at z and lies above it; for poisson there is none."""
    if code == SQUARED:
        return 1.0
    if code == HUBER:
        size = abs(z - y)
        return k / size if size > k else 1.0
    if code == LOGISTIC:
        return 0.25
    if code == SQUARED_HINGE:
        return 2.0
    return _curvature(code, k, z, y)


@scalar
def _fill_curvatures(code: int, k: float, z: Array, y: Array, mix: float, out: Array) -> None:
    """out_i = loss''(z_i, y_i), moved by `mix` in [0, 1] towards the curvature of a majorising parabola."""
    for i in range(z.shape[0]):
        exact = _curvature(code, k, z[i], y[i])
        out[i] = exact + mix * (_majorant(code, k, z[i], y[i]) - exact)


def values(code: int, k: float, z: Array, y: Array) -> Array:
    """loss(z_i, y_i)."""
    out = np.empty_like(z)
    _fill_values(code, k, z, y, out)
    return out


def slopes(code: int, k: float, z: Array, y: Array) -> Array:
    """loss'(z_i, y_i)."""
    out = np.empty_like(z)
    _fill_slopes(code, k, z, y, out)
    return out


def conjugates(code: int, k: float, lam: Array, y: Array) -> Array:
    """loss*(lam_i, y_i)."""
    out = np.empty_like(lam)
    _fill_conjugates(code, k, lam, y, out)
    return out


def curvatures(code: int, k: float, z: Array, y: Array, mix: float = 0.0) -> Array:
    """loss''(z_i, y_i), blended by `mix` with the curvature of a majorising parabola."""
    out = np.empty_like(z)
    _fill_curvatures(code, k, z, y, mix, out)
    return out


@scalar
def sweep(H: Array, diagonal: Array, c: Array, t: Array, code: int, reg: float, a: float, b: float) -> float:
    """One pass of coordinate descent on c't + t'Ht/2 + r(t), c kept the gradient of the smooth part at t.

    t_j <- prox_{r/H_jj}(t_j - c_j/H_jj). Returns max_j |change of t_j| sqrt(H_jj).
    """
    largest = 0.0
    for j in range(t.shape[0]):
        step = prox(code, reg, a, b, t[j] - c[j] / diagonal[j], 1.0 / diagonal[j]) - t[j]
        if step != 0.0:
            t[j] += step
            for i in range(t.shape[0]):
                c[i] += step * H[j, i]
            largest = max(largest, abs(step) * math.sqrt(diagonal[j]))
    return largest


@scalar
def sweep_groups(
    H: Array,
    curvature: Array,
    c: Array,
    t: Array,
    reg: float,
    order: Indices,
    starts: Indices,
    steps: Array,
) -> float:
    """One pass of block descent for group-l2; group g holds the coordinates order[starts[g]:starts[g+1]].

    t_g <- prox_{r/L_g}(t_g - c_g/L_g), with L_g = curvature[g] >= |H_gg|_2; `steps` (d) is scratch.
    Returns max_j |change of t_j| sqrt(L_g).
    """
    largest = 0.0
    for g in range(starts.shape[0] - 1):
        square = 0.0
        for m in range(starts[g], starts[g + 1]):
            j = order[m]
            steps[m] = t[j] - c[j] / curvature[g]
            square += steps[m] * steps[m]
        limit = reg * math.sqrt(float(starts[g + 1] - starts[g])) / curvature[g]
        shrink = 1.0 - limit / math.sqrt(square) if square > limit * limit else 0.0
        for m in range(starts[g], starts[g + 1]):
            steps[m] = shrink * steps[m] - t[order[m]]
        for m in range(starts[g], starts[g + 1]):
            if steps[m] != 0.0:
                j = order[m]
                t[j] += steps[m]
                largest = max(largest, abs(steps[m]) * math.sqrt(curvature[g]))
                for i in range(t.shape[0]):
                    c[i] += steps[m] * H[j, i]
    return largest
