"""Symmetric positive definite systems, scaled to a unit diagonal before they are factored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Array = NDArray[np.float64]


class ScaledCholesky:
    """H + damping diag(H) = S R'R S with S = sqrt(diag H): the units of the columns play no part.

    Raises LinAlgError where the factorisation breaks down. `rcond` estimates the reciprocal condition number of
    the scaled matrix.
    """

    def __init__(self, H: Array, damping: float = 0.0) -> None:
        diagonal = np.diagonal(H)
        self.scale = np.where(diagonal > 0.0, np.sqrt(np.maximum(diagonal, 0.0)), 1.0)
        scaled = H / self.scale
        scaled /= self.scale[:, None]
        np.fill_diagonal(scaled, 1.0 + damping)  # also for a column of zeros, whose solution is then 0
        self._size = np.abs(scaled).sum(axis=0).max(initial=0.0)
        self._factor = linalg.cholesky(scaled, overwrite_a=True, check_finite=True)

    @property
    def rcond(self) -> float:
        estimate, _ = linalg.lapack.dpocon(self._factor, self._size)
        return float(estimate)

    def solve(self, right: Array) -> Array:
        """The x with H x = right (with the damping, if any)."""
        return linalg.cho_solve((self._factor, False), right / self.scale) / self.scale


DAMPINGS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3)


def damped_cholesky(H: Array, least: float = 0.0) -> ScaledCholesky:
    """The factorisation with the smallest of `DAMPINGS`, from `least` on, that exists; H positive semidefinite."""
    for damping in DAMPINGS[:-1]:
        if damping >= least:
            try:
                return ScaledCholesky(H, damping)
            except linalg.LinAlgError:
                continue
    return ScaledCholesky(H, DAMPINGS[-1])
