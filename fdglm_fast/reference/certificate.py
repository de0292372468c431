"""How far a point is from optimal: prox-gradient residuals and duality gaps."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.penalties import BOX, ELASTIC_NET, GROUP_L2, L1, NONE, NONNEG
from fdglm_fast.reference import face, pointwise
from fdglm_fast.reference.design import Design
from fdglm_fast.reference.objective import Objective

Array = NDArray[np.float64]

TINY, EPS = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).eps)
# Where X and the slopes at 0 are as good as orthogonal, this part of the most that the gradient could be is its scale.
ORTHOGONAL = 1e-6


def residual(objective: Objective, theta: Array, gradient: Array) -> float:
    """|theta - prox_{eta r}(theta - eta grad)|/eta relative to |grad f(0)|, eta = n/|X|^2."""
    design = objective.design
    if design.norm == 0.0:
        return 0.0
    return _relative_move(objective, theta, gradient, np.full(design.d, design.norm / math.sqrt(design.n)))


def scaled_residual(objective: Objective, theta: Array, gradient: Array) -> float:
    """The same with a step 1/D_j^2 for each column (or group), so that columns of different units count alike.

    |D (theta - prox(theta - D^-2 grad))| relative to |D^-1 grad f(0)|, D_j = |x_j|/sqrt(n).
    """
    D = column_scale(objective.design)
    if objective.penalty.code == GROUP_L2:
        largest = np.zeros(int(objective.groups.max()) + 1)
        np.maximum.at(largest, objective.groups, D)
        D = largest[objective.groups]
    return _relative_move(objective, theta, gradient, D)


def _relative_move(objective: Objective, theta: Array, gradient: Array, D: Array) -> float:
    """|D (theta - prox_{r/D^2}(theta - D^-2 grad))| relative to |D^-1 grad f(0)|."""
    move = face.prox_move(objective.penalty, objective.groups, theta, gradient, 1.0 / D**2) / D
    most, gradients = objective.first_gradients  # both of them at 0, but for a box without 0
    first = max(float(np.linalg.norm(g / D)) for g in gradients)
    return float(np.linalg.norm(move)) / max(first, ORTHOGONAL * most, TINY)


def duality_gap(objective: Objective, theta: Array, z: Array, lam: Array) -> float:
    """L(theta) minus a lower bound on the minimum that the dual point lam gives.

    -(1/n) sum loss*(lam_i) - r*(c), c = -X'lam/n, bounds L everywhere; lam is scaled into the domain where r is a
    norm. With r* of r restricted to a ball |D t| <= R it bounds L on that ball, which leaves room for rounding:
    R = 2 |D theta| + |y|/sqrt(n), at least twice what a minimiser near theta needs, D_j = |x_j|/sqrt(n).
    The smaller of the two gaps where there are both; none and nonneg have the second only.
    """
    penalty, c = objective.penalty, -objective.gradient(lam)
    gaps = []
    if penalty.code not in (NONE, NONNEG):
        alpha = penalty.dual_scale(c, objective.groups)
        if alpha is not None:
            conjugate = penalty.conjugate(alpha * c, objective.groups)
            gaps.append(_fenchel_young(objective, theta, z, (alpha * lam, alpha * c, conjugate)))
    if penalty.code not in (ELASTIC_NET, BOX) and face.quadratic_weight(penalty) == 0.0:
        D = column_scale(objective.design)
        radius = 2.0 * float(np.linalg.norm(D * theta))
        radius += float(np.linalg.norm(objective.y)) / math.sqrt(objective.design.n)
        conjugate = radius * float(np.linalg.norm(_excess(objective, c) / D))
        gaps.append(_fenchel_young(objective, theta, z, (lam, c, conjugate)))
    return min(gaps)


def _fenchel_young(objective: Objective, theta: Array, z: Array, dual: tuple[Array, Array, float]) -> float:
    """(1/n) sum [loss(z_i) + loss*(lam_i) - z_i lam_i] + r(theta) + r*(c) - c'theta: two sums that are not negative."""
    lam, c, conjugate = dual
    code, k, y = objective.loss.code, objective.loss.parameter, objective.y
    losses = pointwise.values(code, k, z, y) + pointwise.conjugates(code, k, lam, y) - z * lam
    return max(float(losses.mean()) + objective.penalty_value(theta) + conjugate - float(c @ theta), 0.0)


def _excess(objective: Objective, c: Array) -> Array:
    """c less its projection onto the domain of r*: c't - r(t) <= excess't for all t."""
    penalty, groups = objective.penalty, objective.groups
    if penalty.code == NONNEG:
        return np.maximum(c, 0.0)
    if penalty.code in (L1, GROUP_L2):
        return face.prox_move(penalty, groups, np.zeros_like(c), c, np.ones_like(c))  # prox_r(c), by Moreau
    return c


def rounding(objective: Objective, theta: Array, slopes: Array) -> float:
    """By how much L(theta) may be off as X theta and L are rounded: eps [(1/n) sum_i |lam_i| (|X| |theta|)_i + |L|]."""
    spread = float(np.mean(np.abs(slopes) * objective.design.absolute_times(theta)))
    return EPS * (spread + abs(objective.value(theta, objective.design.times(theta))))


def column_scale(design: Design) -> Array:
    """D_j = |x_j|/sqrt(n); 1 for a column of zeros, where the gradient is 0 too."""
    norms = design.column_norms / math.sqrt(design.n)
    return np.where(norms > 0.0, norms, 1.0)
