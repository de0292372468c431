"""A primal active-set method for the separable penalties with kinks: finite where coordinate descent crawls.

A coordinate is either fixed at a kink or free on the interval between two, where r has the slope
linear + w t. The minimiser over the free coordinates is found; on the way to it a coordinate that meets a kink is
fixed there, and at it the fixed coordinate whose slope is most wrong is set free.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.penalties import BOX, ELASTIC_NET, L1, Penalty
from fdglm_fast.reference import face
from fdglm_fast.reference.linear import damped_cholesky

Array = NDArray[np.float64]

CHANGES_PER_COORDINATE = 3
RELATIVE_TOLERANCE = 1e-14


class ActiveSet:
    """min_t c't + t'Ht/2 + r(t) from a given point, r of l1, elastic net, nonneg or box."""

    def __init__(self, H: Array, penalty: Penalty, t: Array, c: Array) -> None:
        self.H, self.penalty, self.t, self.c = H, penalty, t.copy(), c.copy()
        self.unit = np.sqrt(np.maximum(np.diagonal(H), np.finfo(np.float64).tiny))
        self.kink = face.kink_weight(penalty)
        self.signed = penalty.code in (L1, ELASTIC_NET)
        self.weight = face.quadratic_weight(penalty)
        self.free = face.free(penalty, np.zeros(0, dtype=np.int64), t)
        self.side = np.sign(t) if self.signed else np.zeros_like(t)

    def minimise(self) -> Array:
        """The minimiser, or the best point after some passes over the coordinates."""
        noise = RELATIVE_TOLERANCE * float((np.abs(self.c) / self.unit).max(initial=0.0))
        for _ in range(CHANGES_PER_COORDINATE * len(self.t) + 10):
            if self.free.any() and not self._move():
                continue
            if not self._release(noise):
                break
        return self.t

    def _move(self) -> bool:
        """To the minimiser over the free coordinates, or to the first kink on the way; True where none is met."""
        on = np.flatnonzero(self.free)
        matrix = self.H[np.ix_(on, on)]
        matrix[np.diag_indices_from(matrix)] += self.weight
        slope = self.c[on] + self.kink * self.side[on] + self.weight * self.t[on]
        step = -damped_cholesky(matrix).solve(slope)
        low, high = self._interval(on)
        room = np.full(on.size, math.inf)
        np.divide(high - self.t[on], step, out=room, where=step > 0.0)
        np.divide(low - self.t[on], step, out=room, where=step < 0.0)
        first = int(np.argmin(room))
        part = min(1.0, max(float(room[first]), 0.0))
        self.t[on] += part * step
        self.c += self.H[:, on] @ (part * step)
        if room[first] >= 1.0:
            return True
        self.t[on[first]] = high[first] if step[first] > 0.0 else low[first]
        self.free[on[first]] = False
        return False

    def _interval(self, on: NDArray[np.intp]) -> tuple[Array, Array]:
        """The kinks between which the free coordinates may move."""
        if self.penalty.code == BOX:
            return np.full(on.size, self.penalty.a), np.full(on.size, self.penalty.b)
        if self.signed:
            return np.where(self.side[on] > 0.0, 0.0, -math.inf), np.where(self.side[on] > 0.0, math.inf, 0.0)
        return np.zeros(on.size), np.full(on.size, math.inf)

    def _release(self, noise: float) -> bool:
        """Set the fixed coordinate free that gains most; False where none gains more than the noise."""
        rise, fall = -self.c - self.kink, self.c - self.kink
        if self.penalty.code == BOX:
            rise[self.t >= self.penalty.b] = -math.inf
            fall[self.t <= self.penalty.a] = -math.inf
        elif not self.signed:
            fall[:] = -math.inf
        gain = np.maximum(rise, fall) / self.unit
        gain[self.free] = -math.inf
        best = int(np.argmax(gain))
        if not gain[best] > noise:
            return False
        self.free[best] = True
        if self.signed:
            self.side[best] = 1.0 if rise[best] > fall[best] else -1.0
        return True
