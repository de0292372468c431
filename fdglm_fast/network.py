"""Who talks to whom: the communication network, its Laplacian and the numbers the theorem needs of it.

L = sum over edges of w_ij (e_i - e_j)(e_i - e_j)',   D >= ||L||,   1/delta >= ||L^+|| = 1/lambda_2
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import DataError, UsageError, unknown_name
from fdglm_fast.files import printable
from fdglm_fast.graph_spec import MAX_AGENTS, parse_spec
from fdglm_fast.graphs import RANDOM, component_labels, draw
from fdglm_fast.spectrum import Spectrum

WEIGHTINGS = ("unit", "metropolis", "file", "scaled", "optimal")
FITTED = ("scaled", "optimal")  # weightings whose scale is fitted to chi = ||X||, which a graph does not know
DIAMETER_LIMIT = 2000


@dataclass(frozen=True, eq=False)
class Network:
    """An undirected graph of `agents` vertices; vertex 0 is agent 1, which holds the response.

    `edges` is int64 (E, 2) with i < j in lexicographic order, `weights` float64 (E,). `spec`, `seed` (None
    where nothing is random) and `attempt` say how to build it again; `positions` (m, 2) is for drawing.
    """

    agents: int
    edges: NDArray[np.int64]
    weights: NDArray[np.float64]
    spec: str = "edges"
    seed: int | None = None
    attempt: int = 0
    positions: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        edges, m = self.edges, self.agents
        if m < 1 or edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype != np.int64:
            raise DataError("a network needs one agent or more, and edges as an int64 array of shape (E, 2).")
        if self.weights.shape != (len(edges),) or self.weights.dtype != np.float64:
            raise DataError("a network needs one float64 weight for every edge.")
        if len(edges) and (edges.min() < 0 or edges.max() >= m or np.any(edges[:, 0] >= edges[:, 1])):
            raise DataError(f"the edges of a network must be pairs i < j of vertices from 0 to {m - 1}.")
        if np.any(np.diff(edges[:, 0] * m + edges[:, 1]) <= 0):
            raise DataError("the edges of a network must be in lexicographic order, each listed once.")
        with np.errstate(over="ignore"):
            if not np.all(self.weights > 0) or not np.isfinite(4.0 * self.weights.sum()):
                raise DataError("edge weights must be positive, and their sum must be a finite number.")

    # --- degrees ---

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of each agent."""
        return np.bincount(self.edges.ravel(), minlength=self.agents).astype(np.int64)

    @cached_property
    def weighted_degrees(self) -> NDArray[np.float64]:
        """Sum of the weights at each agent, the diagonal of L."""
        both = np.repeat(self.weights, 2)
        return np.bincount(self.edges.ravel(), weights=both, minlength=self.agents).astype(np.float64)

    @property
    def max_degree(self) -> int:
        """Delta(G), the largest number of neighbours."""
        return int(self.degrees.max())

    @cached_property
    def unit_weights(self) -> bool:
        """Whether every edge has weight one."""
        return bool(np.all(self.weights == 1.0))

    @cached_property
    def is_uniform(self) -> bool:
        """Whether every two agents are joined, all with the same weight."""
        m = self.agents
        return len(self.edges) == m * (m - 1) // 2 and bool(np.all(self.weights == self.weights[:1]))

    # --- matrices ---

    def adjacency(self) -> Any:
        """The weighted adjacency matrix, scipy.sparse CSR with sorted indices."""
        from scipy.sparse import coo_array

        i, j = self.edges.T
        entries = (np.concatenate((self.weights, self.weights)), (np.append(i, j), np.append(j, i)))
        matrix = coo_array(entries, shape=(self.agents, self.agents)).tocsr()
        matrix.sort_indices()
        return matrix

    def laplacian(self) -> Any:
        """L = diag(weighted degrees) - adjacency, scipy.sparse CSR with sorted indices."""
        from scipy.sparse import diags_array

        matrix = (diags_array(self.weighted_degrees) - self.adjacency()).tocsr()
        matrix.sort_indices()
        return matrix

    # --- connectivity ---

    def components(self) -> list[NDArray[np.int64]]:
        """The vertices of each connected component, the largest component first."""
        count, labels = component_labels(self.edges, self.agents)
        by_label = np.argsort(labels, kind="stable")
        parts = np.split(by_label, np.cumsum(np.bincount(labels, minlength=count))[:-1])
        return sorted(parts, key=len, reverse=True)

    @cached_property
    def is_connected(self) -> bool:
        """Whether every agent can be reached from every other."""
        return component_labels(self.edges, self.agents)[0] == 1

    @cached_property
    def diameter(self) -> int | None:
        """The longest of all shortest paths, in edges; None if disconnected or more than 2000 agents."""
        if self.agents > DIAMETER_LIMIT or not self.is_connected:
            return None
        return 0 if self.agents == 1 else _diameter(self.adjacency())

    @cached_property
    def reach(self) -> int:
        """How many edges the agent is away that is farthest from agent 1."""
        return 0 if self.agents == 1 else _depth(self.adjacency(), np.arange(1))

    # --- spectrum ---

    @cached_property
    def _spectrum(self) -> Spectrum:
        return Spectrum(self.laplacian())

    @property
    def laplacian_norm(self) -> float:
        """||L||, the largest eigenvalue; never below the true value by more than 1e-9 of it."""
        if len(self.edges) == 0:
            return 0.0
        if not self.is_connected:
            return max(part.laplacian_norm for part in self._parts())
        return self._spectrum.norm

    @property
    def degree_factor(self) -> float:
        """The least c with L <= c diag(weighted degrees), from above: from 1 to 2."""
        if len(self.edges) == 0:
            return 0.0
        if not self.is_connected:
            return max(part.degree_factor for part in self._parts())
        return self._spectrum.degree_factor

    @property
    def spectral_gap(self) -> float | None:
        """lambda_2 = 1/||L^+||, the second smallest eigenvalue; None for one agent, 0 if disconnected."""
        if self.agents == 1:
            return None
        return self._spectrum.gap if self.is_connected else 0.0

    def scaled_for(self, chi: float) -> Network:
        """The network with its weights times the factor that is best under the theorem's bound for ||X|| <= chi."""
        from fdglm_fast.best_scale import best_scale

        gap = self.spectral_gap
        if not gap or not chi > 0.0:  # one agent has no weights; X = 0 leaves nothing to weigh against
            return self
        return replace(self, weights=self.weights * best_scale(chi, self.laplacian_norm, gap))

    def _parts(self) -> list[Network]:
        parts = []
        for members in self.components():
            number = np.full(self.agents, -1, dtype=np.int64)
            number[members] = np.arange(len(members))
            inside = number[self.edges[:, 0]] >= 0
            parts.append(Network(len(members), number[self.edges[inside]], self.weights[inside]))
        return parts


def _diameter(adjacency: Any) -> int:
    """The largest depth of all vertices, 64 at a time."""
    m = adjacency.shape[0]
    return max(_depth(adjacency, np.arange(first, min(first + 64, m))) for first in range(0, m, 64))


def _depth(adjacency: Any, sources: NDArray[np.int64]) -> int:
    """Breadth-first search from at most 64 sources at once, one bit of a machine word each: steps to the farthest.

    Bit s of reached[j] says that source s is within `steps` steps of j; a step ORs the neighbours' words.
    """
    reached = np.zeros(adjacency.shape[0], dtype=np.uint64)
    reached[sources] = np.uint64(1) << np.arange(len(sources), dtype=np.uint64)
    everyone = np.bitwise_or.reduce(reached)
    steps = 0
    while np.any(reached != everyone):
        reached |= np.bitwise_or.reduceat(reached[adjacency.indices], adjacency.indptr[:-1])
        steps += 1
    return steps


def metropolis_weights(edges: NDArray[np.int64], m: int) -> NDArray[np.float64]:
    """w_ij = 1/(1 + max(deg_i, deg_j))."""
    degrees = np.bincount(edges.ravel(), minlength=m)
    return 1.0 / (1.0 + degrees[edges].max(axis=1))


def build_network(spec: str, agents: int, seed: int = 0, weights: str = "unit", chi: float | None = None) -> Network:
    """The connected network that a specification describes, `NAME[:PARAM]` with `weights` on its edges.

    One agent has no neighbours, and the specification is not looked at. Weights `scaled` (unit weights times the best
    factor under the theorem's bound) need `chi`, a bound on ||X||; `optimal` (least condition number) have the ||L||
    of unit weights unless `chi` is given, and then the best factor too.
    """
    if chi is not None and not (math.isfinite(chi) and chi > 0.0):
        raise UsageError(f"chi must be a positive number, not {chi}.")
    if weights == "scaled" and chi is None and agents > 1:
        raise UsageError("weights 'scaled' need a bound on ||X|| to be scaled for (--chi).")
    network = unscaled_network(spec, agents, seed, weights)
    return network if chi is None or weights not in FITTED else network.scaled_for(chi)


def unscaled_network(spec: str, agents: int, seed: int = 0, weights: str = "unit") -> Network:
    """The network before its weights are scaled for chi: what can be known, and refused, without the data."""
    if not 1 <= agents <= MAX_AGENTS:
        raise UsageError(f"the number of agents must be from 1 to {MAX_AGENTS}, not {agents}.")
    if seed < 0:
        raise UsageError(f"the seed must be zero or more, not {seed}.")
    if weights not in WEIGHTINGS:
        raise unknown_name("edge weights", printable(weights, 60), WEIGHTINGS)
    if agents == 1:
        return Network(1, np.empty((0, 2), dtype=np.int64), np.empty(0), spec)
    parsed = parse_spec(spec)
    if parsed.path is not None:
        return _from_file(parsed.path, agents, spec, weights)
    if weights == "file":
        raise UsageError(f"weights 'file' need a graph from a file, and '{parsed.name}' is none.")
    edges, positions, attempt = draw(parsed, agents, seed)
    chosen = _rule_weights(edges, agents, weights, parsed.name)
    return Network(agents, edges, chosen, spec, seed if parsed.name in RANDOM else None, attempt, positions)


def _rule_weights(edges: NDArray[np.int64], m: int, weights: str, family: str) -> NDArray[np.float64]:
    """Weights that follow from the graph; `scaled` ones are equal until they are scaled."""
    from fdglm_fast.optimal_weights import EDGE_TRANSITIVE, optimal_weights

    if weights == "metropolis":
        return metropolis_weights(edges, m)
    if weights == "optimal" and family not in EDGE_TRANSITIVE:
        return optimal_weights(edges, m)
    return np.ones(len(edges))


def _from_file(path: str, agents: int, spec: str, weights: str) -> Network:
    from fdglm_fast.graph_file import read_graph_file

    edges, file_weights = read_graph_file(path, agents)
    if weights == "file" and file_weights is None:
        raise DataError(f"graph file '{printable(path)}' has no weights: use 'unit' or 'metropolis' instead.")
    stored = file_weights if weights == "file" and file_weights is not None else np.ones(len(edges))
    network = Network(agents, edges, stored, spec)
    if not network.is_connected:
        highest = int(edges.max())
        hint = "" if highest == agents - 1 else f"; the file names no vertex above {highest}"
        parts = _describe(network.components())
        raise DataError(f"the graph of '{printable(path)}' is disconnected: {parts}{hint}.")
    if weights != "file":
        network = replace(network, weights=_rule_weights(edges, agents, weights, "file"))
    return network


def _describe(components: list[NDArray[np.int64]], shown: int = 5) -> str:
    """Sizes and a few members of the components, for a sentence."""
    words = []
    for part in components[:shown]:
        members = ", ".join(str(v) for v in part[:shown]) + (", ..." if len(part) > shown else "")
        words.append(f"{len(part)} {'vertex' if len(part) == 1 else 'vertices'} ({members})")
    more = f" and {len(components) - shown} more" if len(components) > shown else ""
    return f"{len(components)} components, of {'; '.join(words)}{more}"
