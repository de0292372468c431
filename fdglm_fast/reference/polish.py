"""From a point near a vertex to the vertex: the optimality conditions as equations on the active set.

Given which samples sit on their kink (the set I, x_i'theta = y_i) and which coordinates are on the face of the
penalty (A), theta_A and lam_I solve

    r'(theta)_A + (X'lam/n)_A = 0,      (X theta)_I = y_I,

all other lam at an end of their interval and all other theta at the kink of r. Linear but for group-l2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fdglm_fast.reference import face
from fdglm_fast.reference.certificate import duality_gap
from fdglm_fast.reference.objective import Objective

Array = NDArray[np.float64]

ROUNDS = 4
LARGEST = 4000  # unknowns of the dense system; beyond it the interior point's answer stands


def polish(objective: Objective, theta: Array, lam: Array, up: Array, down: Array) -> tuple[Array, Array, bool]:
    """The best of (theta, lam) and of a few Newton steps on its active set, by the duality gap."""
    best, improved = (theta, lam), False
    smallest = _gap(objective, theta, lam)
    enough = 1e-15 * abs(objective.value(theta, objective.design.times(theta)))
    for _ in range(ROUNDS):
        theta, lam = _snap(objective, theta, lam, up, down)
        moved = _newton(objective, theta, lam, up, down)
        if moved is None:
            break
        theta, lam = moved
        gap = _gap(objective, theta, lam)
        # For group-l2, whose equations are not linear, the first step need not help yet. Within rounding the
        # polished point is preferred: its zeros are zeros.
        if gap < smallest or gap <= enough:
            best, smallest, improved = (theta, lam), min(gap, smallest), True
        if gap <= enough:
            break
    return *best, improved


def _gap(objective: Objective, theta: Array, lam: Array) -> float:
    return duality_gap(objective, theta, objective.design.times(theta), lam)


def _snap(objective: Objective, theta: Array, lam: Array, up: Array, down: Array) -> tuple[Array, Array]:
    """Each complementary pair decided by which of its two members is the smaller, in units of typical size."""
    residual = objective.y - objective.design.times(theta)
    inside = np.minimum(lam + up, down - lam)
    unit = float(np.abs(objective.y).mean()) or 1.0
    ends = np.where(residual > 0.0, -up, down)
    lam = np.where(np.abs(residual) / unit < inside / (up + down), lam, ends)
    return face.snap(objective.penalty, objective.groups, theta, -objective.gradient(lam)), lam


def _newton(objective: Objective, theta: Array, lam: Array, up: Array, down: Array) -> tuple[Array, Array] | None:
    """One Newton step of least norm on the equations above; None where they are too many or have no answer."""
    design, penalty, groups = objective.design, objective.penalty, objective.groups
    on = np.flatnonzero(face.free(penalty, groups, theta))
    at = np.flatnonzero((lam > -up) & (lam < down))
    size = on.size + at.size
    if size > LARGEST:
        return None
    if size == 0:
        return theta, lam
    part = np.asarray(design.X[at][:, on], dtype=np.float64)
    matrix = np.zeros((size, size))
    face.add_hessian(penalty, groups, theta, on, matrix[: on.size, : on.size])
    matrix[: on.size, on.size :] = part.T / design.n
    matrix[on.size :, : on.size] = part
    wrong = np.empty(size)
    wrong[: on.size] = (face.gradient(penalty, groups, theta) + objective.gradient(lam))[on]
    wrong[on.size :] = (design.times(theta) - objective.y)[at]
    step, *_ = linalg.lstsq(matrix, -wrong, lapack_driver="gelsy")
    if not np.isfinite(step).all():
        return None
    theta, lam = theta.copy(), lam.copy()
    theta[on] += step[: on.size]
    lam[at] += step[on.size :]
    return objective.project(theta), np.clip(lam, -up, down)
