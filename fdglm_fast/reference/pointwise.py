"""The compiled losses over whole vectors, and the inner loops of the coordinate descent."""

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


@scalar
def values(code: int, k: float, z: Array, y: Array) -> Array:
    """loss(z_i, y_i)."""
    out = np.empty_like(z)
    for i in range(z.shape[0]):
        out[i] = _value(code, k, z[i], y[i])
    return out


@scalar
def slopes(code: int, k: float, z: Array, y: Array) -> Array:
    """loss'(z_i, y_i)."""
    out = np.empty_like(z)
    for i in range(z.shape[0]):
        out[i] = _slope(code, k, z[i], y[i])
    return out


@scalar
def conjugates(code: int, k: float, lam: Array, y: Array) -> Array:
    """loss*(lam_i, y_i)."""
    out = np.empty_like(lam)
    for i in range(lam.shape[0]):
        out[i] = _conjugate(code, k, lam[i], y[i])
    return out


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
def curvatures(code: int, k: float, z: Array, y: Array, mix: float) -> Array:
    """loss''(z_i, y_i), moved by `mix` in [0, 1] towards the curvature of a majorising parabola."""
    out = np.empty_like(z)
    for i in range(z.shape[0]):
        exact = _curvature(code, k, z[i], y[i])
        out[i] = exact + mix * (_majorant(code, k, z[i], y[i]) - exact)
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
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> float:
    """One pass of block descent for group-l2; group g holds the coordinates order[starts[g]:starts[g+1]].

    t_g <- prox_{r/L_g}(t_g - c_g/L_g), L_g = `curvature[g]` >= |H_gg|_2. Returns max_j |change of t_j| sqrt(L_g).
    """
    largest = 0.0
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        square = 0.0
        for j in members:
            square += (t[j] - c[j] / curvature[g]) ** 2
        limit = reg * math.sqrt(float(len(members))) / curvature[g]
        shrink = 1.0 - limit / math.sqrt(square) if square > limit * limit else 0.0
        steps = np.empty(len(members))
        for i in range(len(members)):
            steps[i] = shrink * (t[members[i]] - c[members[i]] / curvature[g]) - t[members[i]]
        for i in range(len(members)):
            if steps[i] != 0.0:
                t[members[i]] += steps[i]
                largest = max(largest, abs(steps[i]) * math.sqrt(curvature[g]))
                for l in range(t.shape[0]):  # noqa: E741
                    c[l] += steps[i] * H[members[i], l]
    return largest
