"""The centralised answer: the method for the loss, and the checks that its result must pass."""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import DataError, NumericalError
from fdglm_fast.losses import SQUARED, Loss
from fdglm_fast.penalties import GROUP_L2, L2, NONE, Penalty
from fdglm_fast.reference.answer import Reference
from fdglm_fast.reference.conic import solve_kinked
from fdglm_fast.reference.design import Design
from fdglm_fast.reference.direct import solve_direct
from fdglm_fast.reference.objective import Objective, plain
from fdglm_fast.reference.proximal_newton import solve_smooth

Array = NDArray[np.float64]

LARGEST_RESIDUAL = 1e-8


def solve(
    X: NDArray[np.floating],
    y: NDArray[np.floating],
    loss: Loss,
    penalty: Penalty,
    groups: NDArray[np.integer] | None = None,
) -> Reference:
    """See `fdglm_fast.reference.solve_reference`."""
    start = time.perf_counter()
    objective = _objective(X, y, loss, penalty, groups)
    if not loss.smooth:
        theta, lam, method = solve_kinked(objective)
    elif loss.code == SQUARED and objective.penalty.code in (NONE, L2):
        (theta, method), lam = solve_direct(objective), None
    else:
        (theta, method), lam = solve_smooth(objective), None
    return _checked(objective, theta, lam, method, start)


def _objective(
    X: NDArray[np.floating],
    y: NDArray[np.floating],
    loss: Loss,
    penalty: Penalty,
    groups: NDArray[np.integer] | None,
) -> Objective:
    if X.ndim != 2 or y.shape != X.shape[:1] or 0 in X.shape:
        raise DataError(f"X must be a matrix with a row for each response, but X is {X.shape} and y {y.shape}.")
    simple = plain(penalty)
    numbers = np.zeros(0, dtype=np.int64)
    if simple.code == GROUP_L2:
        if groups is None or groups.shape != X.shape[1:] or groups.min() < 0:
            raise DataError("penalty 'group-l2' needs a group number >= 0 for each column of X.")
        numbers = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    return Objective(Design(X), np.asarray(y, dtype=np.float64), loss, simple, numbers)


def _checked(objective: Objective, theta: Array, lam: Array | None, method: str, start: float) -> Reference:
    """The answer with its objective, residual and accuracy; NumericalError where it is not good enough."""
    zero, z = np.zeros_like(theta), objective.design.times(theta)
    at_zero = objective.value(zero, np.zeros(objective.design.n))
    value = objective.value(theta, z)
    if at_zero <= value:
        theta, z, value = zero, np.zeros(objective.design.n), at_zero
    slopes = objective.slopes(z) if lam is None else lam
    # Outside a box without 0 the losses alone say what size a difference of objectives has.
    drop = (at_zero if math.isfinite(at_zero) else objective.mean_loss(np.zeros(objective.design.n))) - value
    size = max(abs(value), drop, np.finfo(np.float64).tiny)
    accuracy = objective.gap(theta, z, slopes) / size
    residual = accuracy if lam is not None else objective.residual(theta, objective.gradient(slopes))
    if not (math.isfinite(value) and residual <= LARGEST_RESIDUAL):
        raise NumericalError(
            f"the reference for {objective.loss.spec} with penalty {objective.penalty.spec} reached the residual "
            f"{residual:.1e} and not {LARGEST_RESIDUAL:.0e}; the columns of X may be scaled very differently."
        )
    norm = float(np.linalg.norm(theta))
    return Reference(theta, value, at_zero, norm, method, residual, accuracy, time.perf_counter() - start)
