"""Losses with a kink (absolute, quantile, hinge), as a quadratic or second-order cone programme.

All three are one loss up_i max(y_i - z, 0) + down_i max(z - y_i, 0), with the slopes [-up_i, down_i]:

    absolute  up = down = 1       quantile(q)  up = q, down = 1 - q
    hinge     up = 1, down = 0 where y = 1;  up = 0, down = 1 where y = -1   (1 - y z = y (y - z) as y^2 = 1)

With w_i = max(z_i - y_i, 0), n L(theta) = sum_i up_i (y_i - z_i) + (up_i + down_i) w_i + n r(theta), which is
minimised subject to w >= 0 and w >= X theta - y. The multiplier of the last constraint is lam + up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fdglm_fast.losses import ABSOLUTE, QUANTILE, Loss
from fdglm_fast.reference.answer import Candidate
from fdglm_fast.reference.certificate import column_scale
from fdglm_fast.reference.cone_program import penalty_rows, solve_cone_program
from fdglm_fast.reference.face import quadratic_weight
from fdglm_fast.reference.objective import Objective
from fdglm_fast.reference.polish import polish

Array = NDArray[np.float64]


def kink_slopes(loss: Loss, y: Array) -> tuple[Array, Array]:
    """(up, down) of every sample."""
    if loss.code == ABSOLUTE:
        return np.ones_like(y), np.ones_like(y)
    if loss.code == QUANTILE:
        return np.full_like(y, loss.parameter), np.full_like(y, 1.0 - loss.parameter)
    return np.where(y > 0.0, 1.0, 0.0), np.where(y > 0.0, 0.0, 1.0)


def solve_kinked(objective: Objective) -> Candidate:
    """A minimiser theta and dual variables lam, the slopes of the losses there."""
    up, down = kink_slopes(objective.loss, objective.y)
    theta, lam = _interior_point(objective, up, down)
    theta, lam, better = polish(objective, theta, lam, up, down)
    return Candidate(theta, "clarabel, polished" if better else "clarabel", lam)


def _interior_point(objective: Objective, up: Array, down: Array) -> tuple[Array, Array]:
    """The programme above in the variables D theta, t (of the penalty) and w; D brings the columns to one size."""
    design, n, d = objective.design, objective.design.n, objective.design.d
    part = penalty_rows(objective.penalty, objective.groups, d)
    D = column_scale(design)
    shrink = sparse.diags(np.concatenate((1.0 / D, np.ones(len(part.cost)))), format="csc")
    X = sparse.csc_matrix(np.asarray(design.X, dtype=np.float64))
    X.resize(n, d + len(part.cost))
    eye = sparse.identity(n, format="csc")
    quadratic = np.zeros(d + len(part.cost) + n)
    quadratic[:d] = n * quadratic_weight(objective.penalty) / D**2
    x, z = solve_cone_program(
        sparse.diags(quadratic, format="csc"),
        np.concatenate((-design.transpose_times(up) / D, n * part.cost, up + down)),
        sparse.bmat([[X @ shrink, -eye], [None, -eye], [part.rows @ shrink, None]], format="csc"),
        np.concatenate((objective.y, np.zeros(n), part.right)),
        [-2 * n, *part.cones],
    )
    return objective.project(x[:d] / D), np.clip(z[:n] - up, -up, down)
