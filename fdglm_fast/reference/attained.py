"""Whether the minimum exists: logistic and Poisson losses may fall for ever along a direction v.

    logistic  y_i x_i'v >= 0 for all i         poisson  x_i'v <= 0 where y_i = 0, x_i'v = 0 where y_i > 0

with some x_i'v not 0, and v >= 0 for nonneg. All other losses attain their minimum, and a box or a penalty that
grows rules such a direction out.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import DataError
from fdglm_fast.losses import LOGISTIC, POISSON
from fdglm_fast.penalties import NONE, NONNEG
from fdglm_fast.reference.objective import Objective

Array = NDArray[np.float64]

# Newton's method on a loss that falls like exp(-t) along a direction moves by about 1 for ever, while towards a
# minimiser its steps shrink: those that are still long at one of these iterations raise the question.
SUSPICIOUS = (15, 30, 60, 120)
LONG_STEP = 0.1
TOLERANCE = 1e-9
LP_SECONDS = 60.0


def check_attained(objective: Objective, iteration: int, step: Array, z_step: Array) -> None:
    """DataError where the Newton step, or after many long steps a linear programme, shows such a direction."""
    loss, penalty = objective.loss, objective.penalty
    if loss.code not in (LOGISTIC, POISSON) or penalty.code not in (NONE, NONNEG):
        return
    long = iteration in SUSPICIOUS and float(np.abs(z_step).max()) >= LONG_STEP
    if not (_is_recession(objective, step, z_step) or (long and _has_recession(objective))):
        return
    what = (
        "a hyperplane through the origin separates the classes, at least in part"
        if loss.code == LOGISTIC
        else "a direction lowers the predictions of samples with count 0 and changes no other"
    )
    raise DataError(
        f"the minimum of the {loss.name} loss with penalty '{penalty.spec}' is not attained on these data: {what}, "
        "so the coefficients would grow without end; add --penalty l2 with --reg above 0."
    )


def _is_recession(objective: Objective, v: Array, z: Array) -> bool:
    """Whether v, with z = X v, is such a direction."""
    typical = objective.design.norm / math.sqrt(objective.design.n) * float(np.linalg.norm(v))
    largest = float(np.abs(z).max())
    if not largest > 1e-6 * typical:  # also where v is 0 or in the null space of X
        return False
    if objective.penalty.code == NONNEG and float(v.min()) < -TOLERANCE * float(np.abs(v).max()):
        return False
    y = objective.y
    wrong = -y * z if objective.loss.code == LOGISTIC else np.where(y > 0.0, np.abs(z), z)
    return float(wrong.max()) <= TOLERANCE * largest


def _has_recession(objective: Objective) -> bool:
    """max sum_i a_i'v subject to 0 <= a_i'v <= 1 is 0 or at least 1, as v can be scaled until some a_i'v is 1.

    a_i = y_i x_i for logistic; -x_i for Poisson where y_i = 0, and where y_i > 0 the row must be 0.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    y, X = objective.y, np.asarray(objective.design.X, dtype=np.float64)
    logistic = objective.loss.code == LOGISTIC
    rows = X * (y if logistic else -np.ones_like(y))[:, None] / max(float(np.abs(X).max()), np.finfo(float).tiny)
    high = np.ones_like(y) if logistic else np.where(y > 0.0, 0.0, 1.0)
    low = 0.0 if objective.penalty.code == NONNEG else -math.inf
    answer = milp(
        -(high @ rows),
        constraints=LinearConstraint(rows, 0.0, high),
        bounds=Bounds(low, math.inf),
        options={"time_limit": LP_SECONDS},
    )
    return answer.x is not None and float(high @ (rows @ answer.x)) > 0.5
