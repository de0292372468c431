"""Squared loss with no penalty or with l2: one factorisation and a few steps of refinement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from fdglm_fast.penalties import L2
from fdglm_fast.reference.answer import Candidate
from fdglm_fast.reference.linear import ScaledCholesky
from fdglm_fast.reference.objective import Objective

Array = NDArray[np.float64]

# Below this, refinement with the factor of the Gram matrix could stall: the square of the condition number of X.
SMALLEST_RCOND = 1e-13


def solve_direct(objective: Objective) -> Candidate:
    """The theta of (X'X/n + reg I) theta = X'y/n, of least norm where there are many.

    Cholesky where X has more rows than columns and the matrix is well enough conditioned; else the same in an
    orthonormal basis V of the row space of X, theta = V beta, where the matrix is diagonal but for rounding.
    """
    design = objective.design
    theta = np.zeros(design.d)
    factor = factor_normal(objective) if design.d <= design.n else None
    if factor is not None:
        return refined(objective, Candidate(theta, "cholesky"), factor)
    basis = design.row_basis()
    if basis.shape[1] == 0:
        return Candidate(theta, "row space", gain=0.0)
    factor = ScaledCholesky(_normal_matrix(objective.with_design(design.projected(basis))))
    return refined(objective, Candidate(theta, "row space"), factor, basis)


def _normal_matrix(objective: Objective) -> Array:
    """X'X/n + reg I."""
    matrix = objective.design.plain_gram / objective.design.n
    if objective.penalty.code == L2:
        matrix[np.diag_indices_from(matrix)] += objective.penalty.reg
    return matrix


def factor_normal(objective: Objective) -> ScaledCholesky | None:
    """The factor of X'X/n + reg I, or None where it is singular or nearly so."""
    try:
        factor = ScaledCholesky(_normal_matrix(objective))
    except LinAlgError:
        return None
    return factor if factor.rcond > SMALLEST_RCOND else None


def refined(objective: Objective, found: Candidate, factor: ScaledCholesky, basis: Array | None = None) -> Candidate:
    """Newton steps theta <- theta - V H^{-1} V'grad, for none and l2, with a fixed factor of H until they stop helping.

    The gradient is that of X itself at theta itself: what was lost in forming X V or theta = V beta is regained.
    The gain of the next step, grad' V H^{-1} V'grad/2, is what L(theta) exceeds the minimum by.
    """
    reg = objective.penalty.reg if objective.penalty.code == L2 else 0.0
    theta, best = found.theta, found
    for _ in range(12):
        gradient = objective.gradient(objective.slopes(objective.design.times(theta))) + reg * theta
        reduced = gradient if basis is None else basis.T @ gradient
        step = factor.solve(reduced)
        gain = max(0.5 * float(reduced @ step), 0.0)
        if not gain < best.gain:
            break
        slow = gain > 0.25 * best.gain
        best = replace(found, theta=theta, gain=gain)
        if slow or gain == 0.0:
            break
        theta = theta - (step if basis is None else basis @ step)
    return best
