"""The two ends of a Laplacian's spectrum: ||L|| and the spectral gap lambda_2 = 1/||L^+||.

Small graphs are solved densely. Large ones by Lanczos, which is quick on expanders (er, regular, complete);
where the wanted end of the spectrum is crowded (paths, lattices, geometric graphs) Lanczos is applied to the
inverse of a factorised matrix instead, which is cheap on just those graphs. All start vectors are fixed and
BLAS runs on one thread, so that a graph has one answer.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import DataError

Vector = NDArray[np.float64]

DENSE_LIMIT = 1500
# Residual, relative to the eigenvalue, at which Lanczos stops; the error of the eigenvalue is below it.
TOLERANCE = 2e-10
# ||Deg^(-1/2) L Deg^(-1/2)|| is rounded up to a multiple of this: more than what a solver may be below it.
GRAIN = 2.0**-24
# Below this, for L / max L_ii, a dense solver (exact to about 1e-15 ||L||) loses digits of lambda_2.
SMALL_GAP = 1e-5

UNRESOLVED = (
    "the spectrum of the graph cannot be computed in double precision: its edge weights are too far apart, "
    "or its parts hang together too loosely."
)


class Spectrum:
    """The ends of the spectrum of the Laplacian (CSR) of a connected graph of two vertices or more.

    Everything is computed for L / max L_ii and scaled back, so that weights of any size do.
    """

    def __init__(self, laplacian: Any) -> None:
        self._scale = float(laplacian.diagonal().max())
        self._scaled = (laplacian / self._scale).tocsr()

    @cached_property
    def norm(self) -> float:
        """||L||, at most 1e-9 ||L|| below the true value."""
        if self._dense is not None:
            return float(self._dense[-1]) * self._scale
        return _on_one_thread(_largest, self._scaled) * self._scale

    @cached_property
    def gap(self) -> float:
        """lambda_2, to about nine digits."""
        if self._dense is None:
            return _on_one_thread(_second_smallest, self._scaled) * self._scale
        if len(self._dense) == 2 or self._dense[1] > SMALL_GAP:
            return float(self._dense[1]) * self._scale
        return _on_one_thread(_gap_by_inverse, self._scaled) * self._scale

    @cached_property
    def degree_factor(self) -> float:
        """The least c with L <= c Deg, from above: c = ||Deg^(-1/2) L Deg^(-1/2)||, for Deg the diagonal of L.

        It is 2 for bipartite graphs, and less for all others: m/(m-1) for the complete one. Where Lanczos does not
        settle, the 2 that holds for every graph is taken.
        """
        from scipy.sparse import diags_array

        root = diags_array(1.0 / np.sqrt(self._scaled.diagonal()))
        matrix = (root @ self._scaled @ root).tocsr()
        if self._scaled.shape[0] <= DENSE_LIMIT:
            found = float(_eigenvalues(matrix.toarray())[-1])
        else:
            found = _on_one_thread(_largest_relative, matrix)
        return min(2.0, math.ceil((found + 0.1 * GRAIN) / GRAIN) * GRAIN)

    @cached_property
    def _dense(self) -> Vector | None:
        """All eigenvalues of the scaled Laplacian, if it is small."""
        if self._scaled.shape[0] > DENSE_LIMIT:
            return None
        return _eigenvalues(self._scaled.toarray())


def _eigenvalues(matrix: Vector) -> Vector:
    """All of them, in ascending order."""
    from scipy.linalg import eigvalsh

    # 'evd' takes QR iteration here; 'evr', asked for one eigenvalue, was seen to fail on complete graphs.
    return np.asarray(_on_one_thread(lambda one: eigvalsh(one, driver="evd"), matrix))


def _on_one_thread(function: Callable[[Any], Any], matrix: Any) -> Any:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(limits=1):
        return function(matrix)


def _patience(laplacian: Any) -> int:
    """How many restarts plain Lanczos gets before a factorisation is tried.

    Where a few steps reach every vertex (an expander) Lanczos settles in the end and a factorisation fills
    up; on a long graph it is the other way round.
    """
    from scipy.sparse.csgraph import breadth_first_order

    order, before = breadth_first_order(laplacian, 0, directed=False)
    depth, vertex = 0, int(order[-1])
    while vertex != 0:
        depth, vertex = depth + 1, int(before[vertex])
    return 400 if depth <= 2 * np.log2(laplacian.shape[0]) else 15


def _largest(laplacian: Any) -> float:
    """||L||: the Ritz value plus its residual, which bounds how far below the eigenvalue it can be."""
    found = _lanczos(laplacian, "LA", maxiter=_patience(laplacian))
    if found is None:
        found = _lanczos(_inverse_at_the_top(laplacian), "LA", maxiter=200)
    if found is None:
        raise DataError(UNRESOLVED)
    return _ritz_bound(laplacian, found[1])


def _largest_relative(matrix: Any) -> float:
    """||Deg^(-1/2) L Deg^(-1/2)||, or 2 where it does not settle."""
    found = _lanczos(matrix, "LA", maxiter=_patience(matrix))
    return 2.0 if found is None else _ritz_bound(matrix, found[1])


def _ritz_bound(matrix: Any, vector: Vector) -> float:
    """The Rayleigh quotient of a unit vector, plus its residual."""
    product = matrix @ vector
    value = float(vector @ product)
    return value + float(np.linalg.norm(product - value * vector))


def _inverse_at_the_top(laplacian: Any) -> Any:
    """(b I - L)^-1 with b just above ||L||: its largest eigenvalue belongs to the largest of L.

    ||L|| <= max over edges of d_i + d_j (weighted degrees); L itself gives both: d is its diagonal.
    """
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import LinearOperator

    entries = laplacian.tocoo()
    degrees = laplacian.diagonal()
    bound = float((degrees[entries.row] + degrees[entries.col])[entries.row != entries.col].max())
    shift = bound * (1 + 1e-7)
    solve = _factorised((eye_array(laplacian.shape[0]) * shift - laplacian).tocsc())
    return LinearOperator(laplacian.shape, matvec=solve, dtype=np.float64)


def _second_smallest(laplacian: Any) -> float:
    """lambda_2, by Lanczos on L + c 11'/m, which lifts the constant vector's eigenvalue 0 out of the way."""
    from scipy.sparse.linalg import LinearOperator

    lift = 2.0 * float(laplacian.diagonal().max())

    def matvec(x: Vector) -> Vector:
        x = x.ravel()
        return laplacian @ x + lift * x.mean()

    lifted = LinearOperator(laplacian.shape, matvec=matvec, dtype=np.float64)
    found = _lanczos(lifted, "SA", maxiter=_patience(laplacian))
    if found is None:
        return _gap_by_inverse(laplacian)
    return _rayleigh_quotient(laplacian, found[1])


def _gap_by_inverse(laplacian: Any) -> float:
    """lambda_2 as 1/||L^+||.

    L^+ b for a centred b: fix x at one vertex to zero, solve the rest, centre x. The reduced matrix is
    positive definite and diagonally dominant, so the small eigenvalues keep their digits.
    """
    from scipy.sparse.linalg import LinearOperator

    m = laplacian.shape[0]
    fixed = int(np.argmax(laplacian.diagonal()))
    rest = np.flatnonzero(np.arange(m) != fixed)
    solve = _factorised(laplacian[rest][:, rest].tocsc())

    def matvec(b: Vector) -> Vector:
        b = b.ravel()
        x = np.zeros(m)
        x[rest] = solve((b - b.mean())[rest])
        return x - x.mean()

    operator = LinearOperator(laplacian.shape, matvec=matvec, dtype=np.float64)
    found = _lanczos(operator, "LA", maxiter=200)
    gap = _rayleigh_quotient(laplacian, found[1]) if found is not None else 0.0
    if found is None or not abs(gap * found[0] - 1.0) < 1e-6:
        raise DataError(UNRESOLVED)
    return gap


def _rayleigh_quotient(laplacian: Any, x: Vector) -> float:
    """x'Lx / x'x as sum w_ij (x_i - x_j)^2 / sum x_i^2 for the centred x: no cancellation, however small."""
    from scipy.sparse import triu

    upper = triu(laplacian, k=1).tocoo()
    centred = x - x.mean()
    differences = centred[upper.row] - centred[upper.col]
    return float(-(upper.data @ differences**2) / (centred @ centred))


def _factorised(matrix: Any) -> Callable[[Vector], Vector]:
    """A solver for a symmetric, positive definite, diagonally dominant matrix, which needs no pivoting."""
    from scipy.sparse.linalg import splu

    try:
        factor = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except MemoryError as error:
        raise DataError("the graph is too large to compute the spectrum of its Laplacian in memory.") from error
    except RuntimeError as error:  # exactly singular
        raise DataError(UNRESOLVED) from error
    return lambda b: factor.solve(b.ravel())


def _lanczos(operator: Any, end: str, maxiter: int) -> tuple[float, Vector] | None:
    """The eigenpair at one end ("LA" or "SA"), or None when it does not settle within `maxiter` restarts."""
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    m = operator.shape[0]
    rng = np.random.default_rng(20)
    options: dict[str, Any] = {"v0": rng.standard_normal(m), "ncv": min(m, 40), "maxiter": maxiter}
    if "rng" in inspect.signature(eigsh).parameters:  # SciPy 1.17: restarts in an invariant subspace
        options["rng"] = rng
    try:
        values, vectors = eigsh(operator, k=1, which=end, tol=TOLERANCE, **options)
    except ArpackNoConvergence:
        return None
    return float(values[0]), vectors[:, 0]
