"""Losses with a kink (absolute, quantile, hinge), as a quadratic or second-order cone programme for Clarabel.

All three are one loss, loss_i(z) = up_i max(y_i - z, 0) + down_i max(z - y_i, 0), with the slopes [-up_i, down_i]:

    absolute  up = down = 1       quantile(q)  up = q, down = 1 - q
    hinge     up = 1, down = 0 where y = 1;  up = 0, down = 1 where y = -1   (1 - y z = y (y - z) as y^2 = 1)

With the excess w_i = max(z_i - y_i, 0), n L(theta) = sum_i up_i (y_i - z_i) + (up_i + down_i) w_i + n r(theta), to be
minimised subject to w >= 0 and w >= X theta - y. The multiplier of the last constraint is lam + up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fdglm_fast.errors import NumericalError
from fdglm_fast.losses import ABSOLUTE, QUANTILE, Loss
from fdglm_fast.penalties import BOX, ELASTIC_NET, GROUP_L2, L1, NONNEG, Penalty
from fdglm_fast.reference.face import quadratic_weight
from fdglm_fast.reference.objective import Objective
from fdglm_fast.reference.polish import polish

Array = NDArray[np.float64]
Cones = list[tuple[str, int]]

TOLERANCE = 1e-12


def kink_slopes(loss: Loss, y: Array) -> tuple[Array, Array]:
    """(up, down) of every sample."""
    if loss.code == ABSOLUTE:
        return np.ones_like(y), np.ones_like(y)
    if loss.code == QUANTILE:
        return np.full_like(y, loss.parameter), np.full_like(y, 1.0 - loss.parameter)
    return np.where(y > 0.0, 1.0, 0.0), np.where(y > 0.0, 0.0, 1.0)


def solve_kinked(objective: Objective) -> tuple[Array, Array, str]:
    """A minimiser theta and dual variables lam, the slopes of the losses there."""
    up, down = kink_slopes(objective.loss, objective.y)
    theta, lam = _clarabel(objective, up, down)
    polished_theta, polished_lam, better = polish(objective, theta, lam, up, down)
    return polished_theta, polished_lam, "clarabel, polished" if better else "clarabel"


def _clarabel(objective: Objective, up: Array, down: Array) -> tuple[Array, Array]:
    import clarabel

    design, n, d = objective.design, objective.design.n, objective.design.d
    X = sparse.csc_matrix(np.asarray(design.X, dtype=np.float64))
    rows, right, cones, extra, cost = _penalty_rows(objective.penalty, objective.groups, d, n)
    eye = sparse.identity(n, format="csc")
    empty = None if extra == 0 else sparse.csc_matrix((n, extra))
    pad = [] if extra == 0 else [empty]
    blocks = [[X, -eye, *pad], [None, -eye, *pad]]
    if rows is not None:
        blocks.append([rows[:, :d], None, *([] if extra == 0 else [rows[:, d:]])])
    quadratic = np.zeros(d + n + extra)
    quadratic[:d] = n * quadratic_weight(objective.penalty)
    linear = np.concatenate((-design.transpose_times(up), up + down, cost))
    kinds = [("nonnegative", 2 * n), *cones]
    solution = clarabel.DefaultSolver(
        sparse.diags(quadratic, format="csc"),
        linear,
        sparse.bmat(blocks, format="csc"),
        np.concatenate((objective.y, np.zeros(n), right)),
        [clarabel.NonnegativeConeT(k) if kind == "nonnegative" else clarabel.SecondOrderConeT(k) for kind, k in kinds],
        _settings(clarabel),
    ).solve()
    theta, multipliers = np.array(solution.x)[:d], np.array(solution.z)[:n]
    if not (np.isfinite(theta).all() and np.isfinite(multipliers).all()):
        raise NumericalError(f"the conic solver gave no answer for the reference ({solution.status}).")
    return objective.project(theta), np.clip(multipliers - up, -up, down)


def _settings(clarabel: Any) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # the same bits on every machine
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    return settings


def _penalty_rows(
    penalty: Penalty, groups: NDArray[np.int64], d: int, n: int
) -> tuple[sparse.csc_matrix | None, Array, Cones, int, Array]:
    """n r(theta) through e extra variables t: rows A [theta; t] + s = right with s in the cones, and the cost of t.

    l1: -t <= theta <= t.  group-l2: (t_g, theta_g) in the second-order cone.  nonneg, box: bounds on theta.
    """
    eye = sparse.identity(d, format="csc")
    if penalty.code == NONNEG:
        return (-eye).tocsc(), np.zeros(d), [("nonnegative", d)], 0, np.zeros(0)
    if penalty.code == BOX:
        right = np.concatenate((np.full(d, penalty.b), np.full(d, -penalty.a)))
        return sparse.vstack((eye, -eye), format="csc"), right, [("nonnegative", 2 * d)], 0, np.zeros(0)
    if penalty.code in (L1, ELASTIC_NET):
        weight = penalty.reg * (penalty.a if penalty.code == ELASTIC_NET else 1.0)
        rows = sparse.bmat([[eye, -eye], [-eye, -eye]], format="csc")
        return rows, np.zeros(2 * d), [("nonnegative", 2 * d)], d, np.full(d, n * weight)
    if penalty.code == GROUP_L2:
        return _cone_rows(penalty, groups, d, n)
    return None, np.zeros(0), [], 0, np.zeros(0)


def _cone_rows(
    penalty: Penalty, groups: NDArray[np.int64], d: int, n: int
) -> tuple[sparse.csc_matrix, Array, Cones, int, Array]:
    """s = (t_g, theta_g) for each group in turn."""
    names = np.unique(groups)
    chosen: list[int] = []
    cones: Cones = []
    for position, g in enumerate(names):
        members = np.flatnonzero(groups == g)
        chosen += [d + position, *members.tolist()]
        cones.append(("second-order", len(members) + 1))
    count = d + len(names)
    rows = sparse.csc_matrix((-np.ones(count), (np.arange(count), chosen)), shape=(count, count))
    cost = np.array([n * penalty.reg * math.sqrt(size - 1) for _, size in cones])
    return rows, np.zeros(count), cones, len(names), cost
