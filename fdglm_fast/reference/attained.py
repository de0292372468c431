"""Whether the minimum exists: logistic and Poisson losses may fall for ever along a direction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import DataError
from fdglm_fast.losses import LOGISTIC, POISSON
from fdglm_fast.penalties import NONE, NONNEG
from fdglm_fast.reference.objective import Objective

Array = NDArray[np.float64]

# Newton's method on a loss that falls like exp(-t) along a direction moves by about 1 for ever while the
# gradient shrinks by e each time; towards a minimiser its steps shrink as the gradient does.
SMALL_RESIDUAL = 1e-7
LONG_STEP = 0.1
# How much of the step may point the wrong way: parts of it that still converge.
TOLERANCE = 1e-3


def check_attained(objective: Objective, residual: float, z_step: Array) -> None:
    """DataError where the step X delta shows a direction along which the loss decreases for ever.

    Logistic: y_i x_i'delta >= 0 for all i. Poisson: x_i'delta <= 0 where y_i = 0, and = 0 where y_i > 0. Some
    of them must not vanish. A penalty that grows, or a box, rules such a direction out.
    """
    loss, penalty = objective.loss, objective.penalty
    if loss.code not in (LOGISTIC, POISSON) or penalty.code not in (NONE, NONNEG):
        return
    largest = float(np.abs(z_step).max())
    if residual > SMALL_RESIDUAL or largest < LONG_STEP:
        return
    if loss.code == LOGISTIC:
        wrong = float((-objective.y * z_step).max())
        what = "a hyperplane through the origin separates the two classes (in part at least)"
    else:
        wrong = float(np.where(objective.y > 0.0, np.abs(z_step), z_step).max())
        what = "a direction lowers the predictions of samples with count 0 and changes no other"
    if wrong <= TOLERANCE * largest:
        raise DataError(
            f"the minimum of the {loss.name} loss with penalty '{penalty.spec}' is not attained on these data: "
            f"{what}, so the coefficients would grow without end; add --penalty l2 with --reg above 0."
        )
