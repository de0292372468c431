"""Squared loss with no penalty or with l2: one factorisation and a few steps of refinement."""

from __future__ import annotations

import math

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
    if design.d <= design.n:
        factor = factor_normal(objective)
        if factor is not None:
            theta, gain = _refined(objective, factor)
            return Candidate(theta, "cholesky", gain=gain)
    basis = design.row_basis()
    if basis.shape[1] == 0:
        return Candidate(np.zeros(design.d), "row space", gain=0.0)
    reduced = objective.with_design(design.projected(basis))
    beta, gain = _refined(reduced, ScaledCholesky(_normal_matrix(reduced)))
    return Candidate(basis @ beta, "row space", gain=gain)


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


def _refined(objective: Objective, factor: ScaledCholesky) -> tuple[Array, float]:
    """Steps theta <- theta - H^{-1} grad with the gradient from X itself, until they no longer help.

    Returns theta and grad' H^{-1} grad/2, by which L(theta) exceeds the minimum.
    """
    reg = objective.penalty.reg if objective.penalty.code == L2 else 0.0
    theta = best = np.zeros(objective.design.d)
    smallest = math.inf
    for _ in range(12):
        slopes = objective.design.times(theta) - objective.y
        gradient = objective.gradient(slopes) + reg * theta
        step = factor.solve(gradient)
        gain = max(0.5 * float(gradient @ step), 0.0)
        if not gain < smallest:
            break
        best, halved, smallest = theta, gain < 0.25 * smallest, gain
        if not halved or gain == 0.0:
            break
        theta = theta - step
    return best, smallest
