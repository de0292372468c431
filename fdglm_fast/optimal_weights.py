"""Edge weights of least condition number lambda_max/lambda_2 of the Laplacian, by a semidefinite programme.

    minimise kappa   subject to   I <= L(w) + 2 11'/m,   L(w) <= kappa I,   w >= 0

The first constraint says lambda_2 >= 1: L(w) 1 = 0, and the term in 11' lifts that eigenvalue to 2, out of the way.
Edges enter with four entries each, so that the programme is sparse but for its cones, which are of side m: Clarabel's
time grows like m^6, and that is the limit.

An optimum may leave edges out (w = 0). They are kept with FLOOR times the largest weight, so that the network, its
neighbours and its messages stay what the graph says; ||L|| >= 2 max w, so that this adds at most FLOOR times the
largest degree to kappa, relatively. Where the outcome does not improve on unit weights by more than WORTH (which are
optimal on every graph whose edges are all alike) unit weights are taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import NumericalError, UsageError

Array = NDArray[np.float64]
Edges = NDArray[np.int64]

MOST_AGENTS = 64
FLOOR = 1e-6
WORTH = 1e-6
# Families whose edges a symmetry maps to each other. kappa is quasiconvex in w, so the average of an optimum over the
# symmetries is an optimum too, and has equal weights.
EDGE_TRANSITIVE = ("complete", "star", "ring", "hypercube")


def optimal_weights(edges: Edges, m: int) -> Array:
    """Positive weights of least condition number, scaled to the ||L|| of unit weights; never worse than those."""
    if m > MOST_AGENTS:
        raise UsageError(
            f"optimal weights are a semidefinite programme that takes too long for more than {MOST_AGENTS} agents, "
            f"and there are {m}."
        )
    unit = np.ones(len(edges))
    if m < 3:
        return unit
    w = _solve(edges, m)
    w = np.maximum(w, FLOOR * w.max())
    D, kappa = _norm_and_condition(edges, m, unit)
    found, better = _norm_and_condition(edges, m, w)
    return w * (D / found) if better < kappa * (1.0 - WORTH) else unit


def _norm_and_condition(edges: Edges, m: int, w: Array) -> tuple[float, float]:
    """||L|| and ||L||/lambda_2."""
    from fdglm_fast.network import Network

    network = Network(m, edges, w)
    D, delta = network.laplacian_norm, network.spectral_gap
    assert delta is not None
    return D, D / delta


def _solve(edges: Edges, m: int) -> Array:
    """w of the programme above, as Clarabel leaves it: A x + s = b with x = (w, kappa) and s in the cones."""
    import clarabel
    from scipy import sparse

    count, side = len(edges), m * (m + 1) // 2
    laplacian = _edge_columns(edges, m)
    row, column = _upper(m)
    eye = (row == column).astype(np.float64)
    ones = np.where(row == column, 1.0, np.sqrt(2.0)) * (2.0 / m)
    A = sparse.bmat(
        [
            [-laplacian, sparse.csc_matrix((side, 1))],
            [laplacian, sparse.csc_matrix(-eye[:, None])],
            [-sparse.identity(count), None],
        ],
        format="csc",
    )
    b = np.concatenate((ones - eye, np.zeros(side), np.zeros(count)))
    q = np.append(np.zeros(count), 1.0)
    cones: list[Any] = [clarabel.PSDTriangleConeT(m), clarabel.PSDTriangleConeT(m), clarabel.NonnegativeConeT(count)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # the same bits on every machine
    solution = clarabel.DefaultSolver(sparse.csc_matrix((count + 1, count + 1)), q, A, b, cones, settings).solve()
    w = np.array(solution.x)[:count]
    if not np.isfinite(w).all() or w.max(initial=0.0) <= 0.0:
        raise NumericalError(f"the conic solver gave no optimal weights ({solution.status}).")
    return w


def _upper(m: int) -> tuple[Edges, Edges]:
    """Rows and columns of the upper triangle, column by column: Clarabel's order, off-diagonal entries times sqrt 2."""
    column, row = np.tril_indices(m)
    return row, column


def _edge_columns(edges: Edges, m: int) -> Any:
    """(e_i - e_j)(e_i - e_j)' of every edge as a column of the triangle: 1 at ii and jj, -sqrt 2 at ij."""
    from scipy import sparse

    i, j = edges.T
    place = np.concatenate((_place(i, i), _place(j, j), _place(i, j)))
    value = np.repeat([1.0, 1.0, -np.sqrt(2.0)], len(edges))
    edge = np.tile(np.arange(len(edges)), 3)
    return sparse.csc_matrix((value, (place, edge)), shape=(m * (m + 1) // 2, len(edges)))


def _place(row: Edges, column: Edges) -> Edges:
    """Where entry (row, column), row <= column, lies in the triangle."""
    return column * (column + 1) // 2 + row
