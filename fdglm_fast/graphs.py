"""The families of communication graphs, `NAME[:PARAM]`.

Every generator takes the number of agents m (>= 2) and returns the edges as an int64 array (E, 2) with i < j,
in lexicographic order. Vertex 0 is agent 1, the one that holds the response.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.graph_spec import GraphSpec, check_size

Edges = NDArray[np.int64]
Positions = NDArray[np.float64]

ATTEMPTS = 100


class Drawing(NamedTuple):
    """A graph as it left its generator: edges, positions where the family has them, and the attempt."""

    edges: Edges
    positions: Positions | None
    attempt: int


def in_order(edges: Edges, m: int) -> Edges:
    """The same edges with i < j and in lexicographic order."""
    pairs = np.sort(edges, axis=1)
    return pairs[np.argsort(pairs[:, 0] * m + pairs[:, 1], kind="stable")]


def component_labels(edges: Edges, m: int) -> tuple[int, NDArray[np.int32]]:
    """The number of connected components, and the component of each vertex."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(edges), dtype=np.int8)
    adjacency = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(m, m)).tocsr()
    count, labels = connected_components(adjacency, directed=False)
    return int(count), labels


# --- families without a parameter -------------------------------------------------------------------------


def pairs_from_ranks(ranks: NDArray[np.int64], m: int) -> Edges:
    """The pairs i < j with the given ranks in the lexicographic list of all m(m-1)/2 pairs."""
    i = np.arange(m, dtype=np.int64)
    first_rank = i * (2 * m - i - 1) // 2
    row = np.searchsorted(first_rank[:-1], ranks, side="right") - 1
    return np.column_stack((row, ranks - first_rank[row] + row + 1))


def complete(m: int) -> Edges:
    """All pairs."""
    return pairs_from_ranks(np.arange(m * (m - 1) // 2, dtype=np.int64), m)


def star(m: int) -> Edges:
    """Vertex 0 is the hub: 0 ~ j for every j > 0."""
    return np.column_stack((np.zeros(m - 1, dtype=np.int64), np.arange(1, m, dtype=np.int64)))


def path(m: int) -> Edges:
    """j ~ j + 1."""
    j = np.arange(m - 1, dtype=np.int64)
    return np.column_stack((j, j + 1))


def ring(m: int) -> Edges:
    """j ~ j + 1 modulo m; two agents share one edge."""
    if m == 2:
        return path(m)
    return in_order(np.vstack((path(m), np.array([[0, m - 1]], dtype=np.int64))), m)


def hypercube(m: int) -> Edges:
    """i ~ j when their binary numbers differ in one bit; m is a power of two."""
    if m & (m - 1):
        raise UsageError(f"a hypercube needs a power of two as its number of agents, and {m} is none.")
    i = np.arange(m, dtype=np.int64)
    bits = (1 << b for b in range(m.bit_length() - 1))
    return in_order(np.vstack([np.column_stack((i, i | bit))[i & bit == 0] for bit in bits]), m)


def lattice_shape(m: int) -> tuple[int, int]:
    """Rows and columns, r <= c and r c = m, as close to a square as m allows (a prime gives a path)."""
    rows = next(r for r in range(math.isqrt(m), 0, -1) if m % r == 0)
    return rows, m // rows


def lattice(m: int) -> tuple[Edges, Positions]:
    """An r x c grid, horizontal, vertical and diagonal neighbours joined.

    Vertex 0 is the centre-most point ((r-1)//2, (c-1)//2); the others follow in row-major order.
    """
    rows, columns = lattice_shape(m)
    centre = (rows - 1) // 2 * columns + (columns - 1) // 2
    number = np.arange(m, dtype=np.int64)
    number[:centre] += 1
    number[centre] = 0
    grid = number.reshape(rows, columns)
    joined = (
        (grid[:, :-1], grid[:, 1:]),
        (grid[:-1, :], grid[1:, :]),
        (grid[:-1, :-1], grid[1:, 1:]),
        (grid[:-1, 1:], grid[1:, :-1]),
    )
    edges = np.vstack([np.column_stack((a.ravel(), b.ravel())) for a, b in joined])
    row, column = np.divmod(np.arange(m), columns)
    positions = np.empty((m, 2))
    positions[number] = np.column_stack((column, rows - 1 - row))
    return in_order(edges, m), positions


# --- random families --------------------------------------------------------------------------------------


def erdos_renyi(m: int, p: float, rng: np.random.Generator) -> Edges:
    """Each pair independently with probability p.

    In the list of all pairs the gap from one edge to the next is geometric, 1 + floor(log(1-u)/log(1-p)) with
    u uniform, so the work is in proportion to the edges and not to the pairs.
    """
    if p == 1.0:
        return complete(m)
    pairs = m * (m - 1) // 2
    chunk = int(p * pairs + 4 * math.sqrt(p * pairs)) + 10
    ranks: list[NDArray[np.int64]] = []
    last = -1
    while last < pairs:
        with np.errstate(over="ignore"):  # a tiny p makes infinite gaps, which end the list
            gaps = np.floor(np.log1p(-rng.random(chunk)) / math.log1p(-p)) + 1.0
        steps = np.minimum(gaps, float(pairs + 1)).astype(np.int64)
        ranks.append(last + np.cumsum(steps))
        last = int(ranks[-1][-1])
    drawn = np.concatenate(ranks)
    return pairs_from_ranks(drawn[: np.searchsorted(drawn, pairs)], m)


def random_geometric(m: int, radius: float, rng: np.random.Generator) -> tuple[Edges, Positions]:
    """Positions uniform in the unit square; i ~ j when their Euclidean distance is less than the radius."""
    from scipy.spatial import cKDTree

    radius = min(radius, 2.0)  # beyond the diagonal nothing changes, and the square of a huge one overflows
    positions = rng.random((m, 2))
    # The tree rounds distances in its own way: ask for a little more, then decide here.
    near = cKDTree(positions).query_pairs(radius * (1 + 1e-9), output_type="ndarray").astype(np.int64)
    difference = positions[near[:, 0]] - positions[near[:, 1]]
    return in_order(near[np.hypot(difference[:, 0], difference[:, 1]) < radius], m), positions


def random_regular(m: int, degree: int, rng: np.random.Generator) -> Edges:
    """Every vertex has `degree` neighbours, drawn by networkx (Steger and Wormald)."""
    if degree == m - 1:
        return complete(m)
    if degree > (m - 1) // 2:  # the complement is sparser, and the pairing seldom gets stuck there
        rest = random_regular(m, m - 1 - degree, rng)
        absent = np.zeros(m * (m - 1) // 2, dtype=bool)
        absent[rest[:, 0] * (2 * m - rest[:, 0] - 1) // 2 + rest[:, 1] - rest[:, 0] - 1] = True
        return pairs_from_ranks(np.flatnonzero(~absent), m)
    import networkx

    drawn = networkx.random_regular_graph(degree, m, seed=int(rng.integers(2**31)))
    return in_order(np.array(list(drawn.edges()), dtype=np.int64).reshape(-1, 2), m)


# --- one connected graph -----------------------------------------------------------------------------------


def _generate(spec: GraphSpec, m: int, rng: np.random.Generator) -> tuple[Edges, Positions | None]:
    parameter = spec.parameter or 0.0
    if spec.name == "lattice":
        return lattice(m)
    if spec.name == "rgg":
        return random_geometric(m, parameter, rng)
    if spec.name == "er":
        return erdos_renyi(m, parameter, rng), None
    if spec.name == "regular":
        return random_regular(m, int(parameter), rng), None
    fixed = {"complete": complete, "star": star, "path": path, "ring": ring, "hypercube": hypercube}
    return fixed[spec.name](m), None


RANDOM = frozenset({"er", "rgg", "regular"})
_REMEDY = {
    "er": "raise the probability P of er:P",
    "rgg": "raise the radius R of rgg:R",
    "regular": "raise the number of neighbours K of regular:K, or take 'ring' for two",
}


def draw(spec: GraphSpec, m: int, seed: int) -> Drawing:
    """Build a connected graph of the family.

    A random graph that comes out disconnected is drawn again: attempt a = 0, 1, ... uses the seed sequence
    [seed, a]. The attempt that succeeded is returned, so that the same graph can be drawn again.
    """
    check_size(spec, m)
    for attempt in range(ATTEMPTS if spec.name in RANDOM else 1):
        rng = np.random.default_rng(np.random.SeedSequence([seed, attempt]))
        edges, positions = _generate(spec, m, rng)
        if spec.name not in RANDOM or component_labels(edges, m)[0] == 1:
            return Drawing(edges, positions, attempt)
    raise DataError(
        f"graph '{spec.name}:{spec.parameter:g}' was disconnected in all {ATTEMPTS} draws for {m} agents: "
        f"{_REMEDY[spec.name]}."
    )
