"""Which agent lives on which rank: balanced columns, few cut edges.

Two starts, and the better end of both is taken. Growing: ranks are filled one after the other, each from the free agent
with the fewest free neighbours, a corner of what is left, with again and again the agent that has most neighbours in
the rank. Bisecting, for up to `LARGEST_SPECTRAL` agents: the agents in the order of the second eigenvector of the
Laplacian, cut in two in proportion to the ranks, each side again. Passes in the manner of Kernighan and Lin follow: an
agent moves to, or changes places with one of, the rank it has most edges to, where that lowers the cut and keeps the
balance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import UsageError
from fdglm_fast.network import Network

Numbers = npt.NDArray[np.int64]
SLACK = 1.05  # columns a rank may have beyond its share, where that lowers the cut
PASSES = 8
LARGEST_SPECTRAL = 1024


@dataclass(frozen=True, eq=False)
class Placement:
    """rank[j] is the rank of agent j+1; `cut` the number of edges between ranks."""

    rank: Numbers
    ranks: int
    cut: int

    def members(self, rank: int) -> Numbers:
        """The agents of a rank, in ascending order."""
        return np.flatnonzero(self.rank == rank)

    @property
    def first_rank(self) -> int:
        """Where agent 1 is."""
        return int(self.rank[0])


def place_agents(
    network: Network, columns: Numbers, ranks: int, allowed: npt.NDArray[np.bool_] | None = None
) -> Placement:
    """Agents with so many columns each on `ranks` ranks; allowed[j, r] says that agent j may live on rank r."""
    m = network.agents
    if ranks > m:
        raise UsageError(f"there are {ranks} ranks for {m} agents: each rank needs one at least.")
    anywhere = allowed is None or bool(allowed.all())
    if allowed is None or anywhere:
        allowed = np.ones((m, ranks), bool)
        starts = [_grow(network, columns, ranks)]
        if ranks > 1 and m <= LARGEST_SPECTRAL:
            starts.append(_bisect(network, columns, ranks))
    else:
        starts = [_where_allowed(columns, allowed)]
    start, near = _adjacency(network)
    for rank in starts:
        for _ in range(PASSES):
            if not _improve(rank, start, near, columns, ranks, allowed):
                break
    rank = min(starts, key=lambda one: _cut(network, one))
    return Placement(_agent_one_first(rank) if anywhere else rank, ranks, _cut(network, rank))


def _cut(network: Network, rank: Numbers) -> int:
    """Edges between ranks."""
    ends = rank[network.edges]
    return int(np.count_nonzero(ends[:, 0] != ends[:, 1]))


def _adjacency(network: Network) -> tuple[Numbers, Numbers]:
    matrix = network.adjacency()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)


def _grow(network: Network, columns: Numbers, ranks: int) -> Numbers:
    """Ranks filled one after the other, each with agents that hang together."""
    m = network.agents
    start, near = _adjacency(network)
    rank = np.full(m, -1)
    free_degree = np.diff(start)
    left = int(columns.sum())
    for r in range(ranks):
        share, taken, inside = left / (ranks - r), 0, np.zeros(m, np.int64)
        free = rank < 0
        must_leave = ranks - r - 1  # agents for the ranks to come
        while free.sum() > must_leave and (taken == 0 or r == ranks - 1 or taken < share):
            score = np.where(free, inside * (m + 1) - free_degree, -m * (m + 1))
            j = int(np.argmax(score))
            if taken and r < ranks - 1 and taken + columns[j] - share > share - taken:
                break
            rank[j], free[j], taken = r, False, taken + int(columns[j])
            neighbours = near[start[j] : start[j + 1]]
            inside[neighbours] += 1
            free_degree[neighbours] -= 1
        left -= taken
    return rank


def _bisect(network: Network, columns: Numbers, ranks: int) -> Numbers:
    """Agents along the second eigenvector, cut in two, and each side again."""
    adjacency = network.adjacency().toarray()
    rank = np.zeros(network.agents, np.int64)
    waiting = [(np.arange(network.agents), 0, ranks)]
    while waiting:
        agents, first, count = waiting.pop()
        if count == 1:
            rank[agents] = first
            continue
        inside = adjacency[np.ix_(agents, agents)]
        vector = np.linalg.eigh(np.diag(inside.sum(axis=1)) - inside)[1][:, 1]
        ordered = agents[np.argsort(vector, kind="stable")]
        left = count // 2
        done = np.cumsum(columns[ordered])
        here = 1 + int(np.argmin(np.abs(done - done[-1] * left / count)))
        here = min(max(here, left), len(agents) - (count - left))  # an agent for each rank
        waiting += [(ordered[:here], first, left), (ordered[here:], first + left, count - left)]
    return rank


def _where_allowed(columns: Numbers, allowed: npt.NDArray[np.bool_]) -> Numbers:
    """Each agent on the least laden of the ranks that it may live on; those with the fewest choices first."""
    m, ranks = allowed.shape
    lost = np.flatnonzero(~allowed.any(axis=1))
    if lost.size:
        raise UsageError(f"no rank can read the data of agent {lost[0] + 1}.")
    rank, load, count = np.full(m, -1), np.zeros(ranks, np.int64), np.zeros(ranks, np.int64)
    for j in np.lexsort((-columns, allowed.sum(axis=1))):
        choices = np.flatnonzero(allowed[j])
        r = choices[np.lexsort((load[choices], count[choices] > 0))[0]]
        rank[j], load[r], count[r] = r, load[r] + columns[j], count[r] + 1
    if not count.all():
        raise UsageError(f"rank {np.flatnonzero(count == 0)[0]} can read the data of no agent that others do not need.")
    return rank


def _improve(
    rank: Numbers, start: Numbers, near: Numbers, columns: Numbers, ranks: int, allowed: npt.NDArray[np.bool_]
) -> bool:
    """One pass of moves and exchanges that lower the cut; whether there was one."""
    load: npt.NDArray[np.float64] = np.bincount(rank, weights=columns, minlength=ranks).astype(np.float64)
    count = np.bincount(rank, minlength=ranks)
    most = SLACK * columns.sum() / ranks
    changed = False
    for j in range(len(rank)):
        mine = int(rank[j])
        links = np.bincount(rank[near[start[j] : start[j + 1]]], minlength=ranks)
        links[~allowed[j]] = -1
        other = int(np.argmax(np.where(np.arange(ranks) == mine, -1, links)))
        gain = int(links[other] - links[mine])
        if other == mine or gain <= 0:
            continue
        if count[mine] > 1 and load[other] + columns[j] <= max(most, load[mine]):
            partner = -1
        else:
            partner = _partner(j, other, gain, rank, start, near, columns, load, most, allowed)
            if partner < 0:
                continue
            _move(partner, mine, rank, load, count, columns)
        _move(j, other, rank, load, count, columns)
        changed = True
    return changed


def _move(j: int, to: int, rank: Numbers, load: npt.NDArray[np.float64], count: Numbers, columns: Numbers) -> None:
    load[rank[j]] -= columns[j]
    count[rank[j]] -= 1
    load[to] += columns[j]
    count[to] += 1
    rank[j] = to


def _partner(
    j: int,
    other: int,
    gain: int,
    rank: Numbers,
    start: Numbers,
    near: Numbers,
    columns: Numbers,
    load: npt.NDArray[np.float64],
    most: float,
    allowed: npt.NDArray[np.bool_],
) -> int:
    """The agent of the other rank to change places with, so that the cut falls; -1 if there is none."""
    mine, best, found = int(rank[j]), 0, -1
    friends = set(near[start[j] : start[j + 1]].tolist())
    for k in np.flatnonzero((rank == other) & allowed[:, mine]).tolist():
        around = rank[near[start[k] : start[k + 1]]]
        both = gain + int((around == mine).sum() - (around == other).sum()) - 2 * (k in friends)
        loads = load[other] + columns[j] - columns[k], load[mine] - columns[j] + columns[k]
        if both > best and max(loads) <= max(most, load[mine], load[other]):
            best, found = both, k
    return found


def _agent_one_first(rank: Numbers) -> Numbers:
    """The same with ranks renamed so that agent 1 lives on rank 0, which writes the results."""
    first = rank[0]
    swapped = rank.copy()
    swapped[rank == first], swapped[rank == 0] = 0, first
    swapped[rank == first] = 0
    return swapped
