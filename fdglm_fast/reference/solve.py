"""The centralised answer: the method for the loss, and the checks that its result must pass."""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fdglm_fast.errors import DataError, NumericalError
from fdglm_fast.losses import SQUARED, Loss
from fdglm_fast.penalties import GROUP_L2, L2, NONE, Penalty
from fdglm_fast.reference.answer import Candidate, Reference
from fdglm_fast.reference.certificate import duality_gap, residual, rounding
from fdglm_fast.reference.conic import solve_kinked
from fdglm_fast.reference.design import Design
from fdglm_fast.reference.direct import solve_direct
from fdglm_fast.reference.objective import Objective, plain
from fdglm_fast.reference.proximal_newton import solve_smooth

Array = NDArray[np.float64]

LARGEST_RESIDUAL = 1e-8
ONE_THREAD = 512


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
    # What overflows is found by the checks. Threads help large products only: on small ones they wait for one
    # another, for a very long time where another process has their core.
    threads = 1 if min(X.shape) <= ONE_THREAD else None
    with np.errstate(over="ignore", invalid="ignore"), threadpool_limits(threads, "blas"):
        if not loss.smooth:
            found = solve_kinked(objective)
        elif loss.code == SQUARED and objective.penalty.code in (NONE, L2):
            found = solve_direct(objective)
        else:
            found = solve_smooth(objective)
        return _checked(objective, found, start)


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


def _checked(objective: Objective, found: Candidate, start: float) -> Reference:
    """The answer with its objective, residual and accuracy; NumericalError where it is not good enough."""
    theta, z = found.theta, objective.design.times(found.theta)
    value = objective.value(theta, z)
    if objective.nearest[2] <= value:
        theta, z, value = objective.nearest
    slopes = objective.slopes(z)
    duals = [slopes] if found.lam is None else [slopes, found.lam]
    gap = min(duality_gap(objective, theta, z, lam) for lam in duals)
    if objective.penalty.code == NONE:
        gap = min(gap, found.gain)
    accuracy = max(gap, rounding(objective, theta, duals[-1])) / objective.size(value)
    remaining = accuracy if found.lam is not None else residual(objective, theta, objective.gradient(slopes))
    if not (math.isfinite(value) and remaining <= LARGEST_RESIDUAL and accuracy <= LARGEST_RESIDUAL):
        raise NumericalError(
            f"the reference for {objective.loss.spec} with penalty {objective.penalty.spec} stopped at the residual "
            f"{remaining:.1e} and the accuracy {accuracy:.1e}, not below {LARGEST_RESIDUAL:.0e}: columns of X are "
            "nearly dependent or of very different size, or the penalty is too close to 0."
        )
    at_zero = math.inf if objective.nearest[0].any() else objective.nearest[2]
    seconds = time.perf_counter() - start
    norm = float(np.linalg.norm(theta))
    return Reference(theta, value, at_zero, norm, found.method, remaining, accuracy, seconds)
