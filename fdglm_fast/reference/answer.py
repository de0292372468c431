"""The answer of the centralised solver, and what is known about its accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Part of the cache's key: raise it when a change of the solver may change an answer.
REFERENCE_VERSION = 2


@dataclass(frozen=True)
class Reference:
    """A minimiser theta of L(theta) = (1/n) sum_i loss(x_i' theta, y_i) + r(theta), to high accuracy.

    objective           L* = L(theta)
    objective_at_zero   L_0 = L(0); infinite when 0 lies outside the domain of r (a box without 0)
    norm                |theta|_2
    method              how it was found
    residual            smooth losses: |theta - prox_{eta r}(theta - eta grad)|_2/eta divided by |grad f(0)|_2, with
                        eta = n/|X|^2; losses with a kink: the same as `accuracy`
    accuracy            duality gap divided by max(|L*|, L_0 - L*), or the rounding of L where that is more. For none,
                        nonneg and norms with a weight near 0, which leave no room for rounding, the gap is that over
                        a ball around 0 of twice the radius that theta needs; for none it may be what another Newton
                        step would gain instead, where that is less
    seconds             the time it took
    """

    theta: NDArray[np.float64]
    objective: float
    objective_at_zero: float
    norm: float
    method: str
    residual: float
    accuracy: float
    seconds: float


@dataclass(frozen=True)
class Candidate:
    """What a method found: theta, dual variables where it has its own, and what another Newton step would gain."""

    theta: NDArray[np.float64]
    method: str
    lam: NDArray[np.float64] | None = None
    gain: float = math.inf
