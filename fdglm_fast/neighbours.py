"""How the sums over neighbours are formed: the fewest additions that give every agent its own.

On the complete graph every agent needs the same total, less itself; on a dense graph the total less the few agents it
is not joined to; on a geometric graph agents that are close share most of their neighbours. All three are one plan:
some sums are formed once (`shared`), and an agent adds shared sums and single rows, or takes its list off the total
(`complement`). Weighted edges are added one by one, except that a weight common to all edges moves into the step of
v: with v' = c v, the Laplacian c L of a graph with all weights c is L with the step c^2 t for v'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdglm_fast.kernels.arrays import Neighbours
from fdglm_fast.network import Network

GROUP_SIZES = (2, 3, 4, 5, 6, 8)
LARGEST = 1024  # agents up to which shared sums are looked for: the search compares all pairs
WORTH = 0.9  # shared sums are used where they leave at most this part of the additions


@dataclass(frozen=True)
class Plan:
    """The neighbour sums of a network, and the common weight of its edges that went into the step of v."""

    near: Neighbours
    scale: float

    @property
    def additions(self) -> int:
        """Rows added up for one application of the Laplacian, the degree term apart."""
        near = self.near
        return int(near.rows.size + near.shared.size + near.parts.size)


def plan_neighbours(network: Network, dtype: npt.DTypeLike) -> Plan:
    """The plan for a network; a function of the network alone, so that every engine adds in the same order."""
    adjacency = network.adjacency()
    start, rows = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32)
    weights = adjacency.data.astype(dtype)
    if weights.size and np.any(weights != weights[0]):
        lists = [rows[start[j] : start[j + 1]] for j in range(network.agents)]
        near = _neighbours(network.weighted_degrees, lists, weights, None, None, dtype)
        return Plan(near, 1.0)
    scale = float(adjacency.data[0]) if weights.size else 1.0
    lists = [rows[start[j] : start[j + 1]] for j in range(network.agents)]
    lists, complement = _complement(lists, network.agents)
    groups = _shared_groups(lists, network.agents)
    sums, lists, shared = _use_groups(lists, groups, network.agents)
    if complement.any():
        sums.append(np.arange(network.agents, dtype=np.int32))
        for j in np.flatnonzero(complement):
            shared[j] = np.append(shared[j], len(sums) - 1)
    empty = np.zeros(0, dtype)
    return Plan(_neighbours(network.degrees, lists, empty, (sums, shared), complement, dtype), scale)


def plan_matrix(M: npt.NDArray[np.float64], dtype: npt.DTypeLike) -> Plan:
    """The plan for a symmetric matrix with rows that sum to zero, in the place of the Laplacian."""
    apart = M - np.diag(np.diag(M))
    lists = [np.flatnonzero(row).astype(np.int32) for row in apart]
    weights = np.concatenate([-row[near] for row, near in zip(apart, lists, strict=True)]).astype(dtype)
    return Plan(_neighbours(np.diag(M), lists, weights, None, None, dtype), 1.0)


def _neighbours(
    degree: npt.NDArray[np.floating] | npt.NDArray[np.integer],
    lists: list[npt.NDArray[np.int32]],
    weights: npt.NDArray[np.floating],
    sharing: tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]] | None,
    complement: npt.NDArray[np.bool_] | None,
    dtype: npt.DTypeLike,
) -> Neighbours:
    agents = len(lists)
    sums, shared = sharing if sharing else ([], [np.zeros(0, np.int32)] * agents)
    row_start, rows = ragged(lists)
    shared_start, shared_rows = ragged(shared)
    part_start, parts = ragged(sums)
    none = np.zeros(agents, np.bool_)
    return Neighbours(
        degree.astype(dtype),
        none if complement is None else complement,
        row_start,
        rows,
        weights,
        shared_start,
        shared_rows,
        part_start,
        parts,
    )


def ragged(lists: list[npt.NDArray[np.int32]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Lists of different lengths as one array and the places where each starts."""
    start = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(one) for one in lists], out=start[1:])
    return start, np.concatenate([np.zeros(0, np.int32), *lists]).astype(np.int32)


def _complement(
    lists: list[npt.NDArray[np.int32]], agents: int
) -> tuple[list[npt.NDArray[np.int32]], npt.NDArray[np.bool_]]:
    """Replace long lists by what is missing from them, where that pays for the total."""
    lengths = np.array([len(one) for one in lists])
    saved = lengths - (agents - lengths + 1)
    complement = saved > 0
    if saved[complement].sum() <= agents:
        return lists, np.zeros(agents, np.bool_)
    everyone = np.arange(agents, dtype=np.int32)
    return [np.setdiff1d(everyone, one) if c else one for one, c in zip(lists, complement, strict=True)], complement


def _membership(lists: list[npt.NDArray[np.int32]], agents: int) -> npt.NDArray[np.bool_]:
    member = np.zeros((agents, agents), np.bool_)
    for j, one in enumerate(lists):
        member[j, one] = True
    return member


def _shared_groups(lists: list[npt.NDArray[np.int32]], agents: int) -> npt.NDArray[np.int64] | None:
    """A partition of the agents into small groups that occur together in many lists, or None where it saves little."""
    plain = sum(len(one) for one in lists)
    if agents > LARGEST or plain < 4 * agents:
        return None
    member = _membership(lists, agents)
    together = member.astype(np.float32).T @ member.astype(np.float32)
    best, best_cost = None, WORTH * plain
    for size in GROUP_SIZES:
        groups = _cluster(together, size)
        cost = sum(_group_cost(member[:, one]) for one in _members(groups))
        if cost < best_cost:
            best, best_cost = groups, cost
    return best


def _members(groups: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    return [np.flatnonzero(groups == g) for g in range(int(groups.max()) + 1)]


def _cluster(together: npt.NDArray[np.float32], size: int) -> npt.NDArray[np.int64]:
    """Groups of `size`: each starts with the first free agent and takes those that most often go with it."""
    agents = len(together)
    groups = np.full(agents, -1)
    free = np.ones(agents, np.bool_)
    for g in range(-(-agents // size)):
        seed = int(np.argmax(free))
        free[seed] = False
        near = np.argsort(np.where(free, -together[seed], np.inf), kind="stable")[: size - 1]
        chosen = np.append(near[free[near]], seed)
        groups[chosen], free[chosen] = g, False
    return groups


def _patterns(
    member: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The pattern of the group in each list, the members in each pattern, and which patterns are worth a shared sum."""
    bits = member.shape[1]
    code = member @ (1 << np.arange(bits))
    uses = np.bincount(code, minlength=1 << bits)
    size = np.array([int(c).bit_count() for c in range(1 << bits)])
    return code, size, (size > 1) & (uses * (size - 1) > size + 1)


def _group_cost(member: npt.NDArray[np.bool_]) -> int:
    """Additions that the lists spend on this group."""
    code, size, worth = _patterns(member)
    return int(np.where(worth[code], 1, size[code]).sum() + size[worth].sum())


def _use_groups(
    lists: list[npt.NDArray[np.int32]], groups: npt.NDArray[np.int64] | None, agents: int
) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
    """The shared sums, what is left of each list, and the shared sums that each list uses."""
    if groups is None:
        return [], lists, [np.zeros(0, np.int32)] * agents
    member = _membership(lists, agents)
    sums: list[npt.NDArray[np.int32]] = []
    shared: list[list[int]] = [[] for _ in range(agents)]
    for one in _members(groups):
        code, _, worth = _patterns(member[:, one])
        for pattern in np.flatnonzero(worth):
            bits = (int(pattern) >> np.arange(len(one))) & 1 == 1
            sums.append(one[bits].astype(np.int32))
            users = np.flatnonzero(code == pattern)
            member[np.ix_(users, one[bits])] = False
            for j in users:
                shared[j].append(len(sums) - 1)
    left = [np.flatnonzero(row).astype(np.int32) for row in member]
    return sums, left, [np.array(one, np.int32) for one in shared]
