"""The slow, trusted, centralised answer, and its cache. Importing this package loads neither Numba nor SciPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.losses import Loss
from fdglm_fast.penalties import Penalty
from fdglm_fast.reference.answer import REFERENCE_VERSION, Reference
from fdglm_fast.reference.cache import CachedReference, cached_reference, reference_key

__all__ = [
    "REFERENCE_VERSION",
    "CachedReference",
    "Reference",
    "cached_reference",
    "reference_key",
    "solve_reference",
]


def solve_reference(
    X: NDArray[np.floating],
    y: NDArray[np.floating],
    loss: Loss,
    penalty: Penalty,
    groups: NDArray[np.integer] | None = None,
) -> Reference:
    """Minimise (1/n) sum_i loss(x_i' theta, y_i) + r(theta) with all of X in one place.

    X is dense (n x d), float32 or float64; y is as `loss.prepare_response` returns it (labels -1 and +1); `groups`
    holds a group number for each column and is read for group-l2 only.

    squared with none or l2: Cholesky with refinement, or the row space of X. Other smooth losses, and other
    penalties: proximal Newton. Losses with a kink: Clarabel, then Newton on the active set.

    DataError where the minimum is not attained, NumericalError where the residual stays above 1e-8.
    """
    from fdglm_fast.reference.solve import solve

    return solve(X, y, loss, penalty, groups)
