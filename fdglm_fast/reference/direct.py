"""Squared loss with no penalty or with l2: one factorisation and a few steps of refinement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from fdglm_fast.penalties import L2
from fdglm_fast.reference.linear import ScaledCholesky
from fdglm_fast.reference.objective import Objective

Array = NDArray[np.float64]

# Below this, refinement with the factor of the Gram matrix could stall: the square of the condition number of X.
SMALLEST_RCOND = 1e-13


def solve_direct(objective: Objective) -> tuple[Array, str]:
    """The theta of (X'X/n + reg I) theta = X'y/n, of least norm where there are many.

    Cholesky where X has more rows than columns and the matrix is well enough conditioned; else the same in an
    orthonormal basis V of the row space of X, theta = V beta, where the matrix is diagonal but for rounding.
    """
    design = objective.design
    if design.d <= design.n:
        factor = factor_normal(objective)
        if factor is not None:
            return _refined(objective, factor), "cholesky"
    basis = design.row_basis()
    reduced = objective.with_design(design.projected(basis))
    if basis.shape[1] == 0:
        return np.zeros(design.d), "row space"
    return basis @ _refined(reduced, ScaledCholesky(_normal_matrix(reduced))), "row space"


def _normal_matrix(objective: Objective) -> Array:
    """X'X/n + reg I."""
    matrix = objective.design.gram() / objective.design.n
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


def _refined(objective: Objective, factor: ScaledCholesky) -> Array:
    """Steps theta <- theta - H^{-1} grad with the gradient from X itself, until they no longer help."""
    reg = objective.penalty.reg if objective.penalty.code == L2 else 0.0
    theta = best = np.zeros(objective.design.d)
    smallest = np.inf
    for _ in range(12):
        slopes = objective.design.times(theta) - objective.y
        gradient = objective.gradient(slopes) + reg * theta
        size = float(np.linalg.norm(gradient / factor.scale))
        if size < smallest:
            best = theta
        if not size < 0.5 * smallest or size == 0.0:
            break
        smallest = size
        theta = theta - factor.solve(gradient)
    return best
