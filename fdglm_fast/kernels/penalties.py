"""The penalties, compiled: proximal maps and values, coordinate by coordinate and for whole vectors.

Every function takes the penalty's code, its weight reg, and its parameters a, b (ratio of the elastic net, or
the ends of the box). A NaN that enters a proximal map leaves it, so that a broken run shows.

    none 0        l1 reg |t|        l2 reg/2 t^2        elastic-net(a) reg (a |t| + (1-a)/2 t^2)
    group-l2 reg sum_g sqrt(|g|) |t_g|_2        nonneg t >= 0        box(a, b) a <= t <= b
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.kernels._jit import scalar
from fdglm_fast.penalties import BOX, ELASTIC_NET, GROUP_L2, L1, L2, NONE, NONNEG

# An iterate is feasible when it is stored, but float32 rounds the box's ends and an average rounds again:
# a constraint counts as kept within this part of the bound, and within a bare 1e-12 where the bound is 0.
RELATIVE_SLACK = 1e-6
ABSOLUTE_SLACK = 1e-12


@scalar
def soft_threshold(x: float, threshold: float) -> float:
    """sign(x) max(|x| - threshold, 0): three operations (subtract, compare, restore the sign)."""
    excess = abs(x) - threshold
    size = 0.0 if excess <= 0.0 else excess  # this way round a NaN is not lost
    return size if x > 0.0 else -size


@scalar
def prox(code: int, reg: float, a: float, b: float, x: float, tau: float) -> float:
    """prox_{tau r}(x) = argmin_t tau r(t) + (t - x)^2/2 of one coordinate; every penalty but group-l2."""
    if code == L1:
        return soft_threshold(x, tau * reg)
    if code == L2:
        return x / (1.0 + tau * reg)
    if code == ELASTIC_NET:
        return soft_threshold(x, tau * reg * a) / (1.0 + tau * reg * (1.0 - a))
    if code == NONNEG:
        return 0.0 if x < 0.0 else x
    if code == BOX:
        return a if x < a else b if x > b else x
    return x


@scalar
def prox_operations(code: int) -> int:
    """Operations of `prox` on one coordinate, at most; products of the weights are formed once and not counted."""
    if code == L1:
        return 3
    if code in (L2, NONNEG):
        return 1
    if code == ELASTIC_NET:
        return 4
    if code == BOX:
        return 2
    if code == GROUP_L2:
        return 3  # square, add, scale; a square root, a division and a subtraction for each group come on top
    return 0


@scalar
def value(code: int, reg: float, a: float, b: float, x: float) -> float:
    """r(x) of one coordinate; every penalty but group-l2."""
    size = x if x > 0.0 else -x
    if code == L1:
        return reg * size
    if code == L2:
        return 0.5 * reg * x * x
    if code == ELASTIC_NET:
        return reg * (a * size + 0.5 * (1.0 - a) * x * x)
    if code == NONNEG:
        return math.inf if x < -ABSOLUTE_SLACK else 0.0
    if code == BOX:
        below = ABSOLUTE_SLACK + RELATIVE_SLACK * abs(a)
        above = ABSOLUTE_SLACK + RELATIVE_SLACK * abs(b)
        return math.inf if x < a - below or x > b + above else 0.0
    return 0.0


@scalar
def _group_norms(groups: NDArray[np.int64], x: NDArray[np.float64], norms: NDArray[np.float64]) -> None:
    """norms[0, g] = |x_g|_2 and norms[1, g] = sqrt(|g|), in the order of the columns."""
    norms[:, :] = 0.0
    for i in range(x.shape[0]):
        g = groups[i]
        norms[0, g] += x[i] * x[i]
        norms[1, g] += 1.0
    for g in range(norms.shape[1]):
        norms[0, g] = math.sqrt(norms[0, g])
        norms[1, g] = math.sqrt(norms[1, g])


@scalar
def prox_all(
    code: int,
    reg: float,
    a: float,
    b: float,
    groups: NDArray[np.int64],
    tau: float,
    scale: NDArray[np.float64],
    x: NDArray[np.float64],
    out: NDArray[np.float64],
    norms: NDArray[np.float64],
) -> None:
    """out = prox_{tau S r}(x) with S = diag(scale), or S = 1 where `scale` is empty; x and out may be the same array.

    group-l2 multiplies x_g by max(0, 1 - tau s_g reg sqrt(|g|)/|x_g|_2); the columns of a group have the same scale.
    `groups` holds the group 0..G-1 of each column and is read for group-l2 only; `norms`, shape (3, G), is scratch (see
    `penalties.group_scratch`).
    """
    if code != GROUP_L2:
        for i in range(x.shape[0]):
            out[i] = prox(code, reg, a, b, x[i], tau * scale[i] if scale.size > 0 else tau)
        return
    _group_norms(groups, x, norms)
    norms[2, :] = 1.0
    for i in range(scale.size):
        norms[2, groups[i]] = scale[i]
    for g in range(norms.shape[1]):
        limit = tau * norms[2, g] * reg * norms[1, g]
        norms[0, g] = 0.0 if norms[0, g] <= limit else 1.0 - limit / norms[0, g]
    for i in range(x.shape[0]):
        out[i] = norms[0, groups[i]] * x[i]


@scalar
def value_all(
    code: int,
    reg: float,
    a: float,
    b: float,
    groups: NDArray[np.int64],
    x: NDArray[np.float64],
    norms: NDArray[np.float64],
) -> float:
    """r(x), summed in the order of the columns (of the groups for group-l2); arguments as in `prox_all`."""
    total = 0.0
    if code == NONE:
        return total
    if code != GROUP_L2:
        for i in range(x.shape[0]):
            total += value(code, reg, a, b, x[i])
        return total
    _group_norms(groups, x, norms)
    for g in range(norms.shape[1]):
        total += norms[1, g] * norms[0, g]
    return reg * total
