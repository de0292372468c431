"""The part of a neighbour plan that one rank needs, and the rows that must come from and go to the others.

The plan is that of the shared-memory engine with its indices renumbered: own agents first, then the halo, the agents of
other ranks, by rank. Every list keeps its order, so that every sum has the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdglm_fast.kernels.arrays import Neighbours
from fdglm_fast.kernels.ranks import Rows
from fdglm_fast.mpi.placement import Placement
from fdglm_fast.neighbours import Plan, ragged

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Route:
    """How many rows of each tile go to which ranks and come from which, and where those rows are.

    `used` is false where no rank sends anything: then none sets the route up, which all would have to do.
    """

    sends: dict[int, int]
    receives: dict[int, int]
    leaving: Rows
    coming: Rows
    used: bool


@dataclass(frozen=True, eq=False)
class Halo:
    """What a rank exchanges in each phase.

    own       its agents                              halo      agents of others whose rows it reads
    sends     {rank: agents whose rows go there}      receives  {rank: agents whose rows come from there}
    """

    own: Numbers
    halo: Numbers
    sends: dict[int, Numbers]
    receives: dict[int, Numbers]

    @property
    def route(self) -> Route:
        """The way of lambda and u."""
        sends, receives = ({r: len(some) for r, some in side.items()} for side in (self.sends, self.receives))
        return Route(sends, receives, self.leaving, self.coming, bool(sends or receives))

    @property
    def leaving(self) -> Rows:
        """Rows of the messages that go out: the own agents in them."""
        place = {int(j): k for k, j in enumerate(self.own)}
        return _rows([np.array([place[int(j)] for j in agents]) for agents in self.sends.values()])

    @property
    def coming(self) -> Rows:
        """Rows of the messages that come in: they follow the own rows."""
        at, lists = len(self.own), []
        for agents in self.receives.values():
            lists.append(np.arange(at, at + len(agents)))
            at += len(agents)
        return _rows(lists)


def first_route(column: npt.NDArray[np.float64], placement: Placement, rank: int) -> Route:
    """The way of agent 1's vector, row 1 of `State.front`, to the ranks of its neighbours, by its column of L."""
    neighbours = np.flatnonzero(column[1:]) + 1
    here = placement.first_rank
    there = {int(r): 1 for r in np.unique(placement.rank[neighbours]) if r != here}
    sends = there if rank == here else {}
    receives = {here: 1} if rank in there else {}
    row = np.ones(1, np.int64)
    return Route(sends, receives, _rows([row] * len(sends)), _rows([row] * len(receives)), bool(there))


def _rows(lists: list[npt.NDArray[np.int64]]) -> Rows:
    counts = np.array([len(one) for one in lists], np.int64)
    starts = np.cumsum(counts) - counts
    joined = np.concatenate([np.zeros(0, np.int64), *lists]).astype(np.int64)
    return Rows(joined, np.repeat(starts, counts), np.repeat(counts, counts))


def rows_read(near: Neighbours, agents: Numbers) -> Numbers:
    """The agents whose rows the plan reads for `agents`, in ascending order."""
    lists = [np.zeros(0, np.int32)]
    for j in agents:
        lists.append(near.rows[near.row_start[j] : near.row_start[j + 1]])
        for q in near.shared[near.shared_start[j] : near.shared_start[j + 1]]:
            lists.append(near.parts[near.part_start[q] : near.part_start[q + 1]])
    return np.unique(np.concatenate(lists)).astype(np.int64)


def plan_halo(plan: Plan, placement: Placement, rank: int) -> Halo:
    """Who sends what to whom, as every rank finds it for itself."""
    own = placement.members(rank)
    needed = rows_read(plan.near, own)
    where = placement.rank[needed]
    receives = {int(r): needed[where == r] for r in np.unique(where) if r != rank}
    sends = {}
    for r in range(placement.ranks):
        if r == rank:
            continue
        read = rows_read(plan.near, placement.members(r))
        wanted = read[placement.rank[read] == rank]
        if wanted.size:
            sends[r] = wanted
    halo = np.concatenate([np.zeros(0, np.int64), *receives.values()])
    return Halo(own, halo, sends, receives)


def local_plan(plan: Plan, halo: Halo) -> Plan:
    """The plan of a rank, on its own rows and the halo's."""
    near, own = plan.near, halo.own
    row_of = np.full(len(near.degree), -1, np.int32)
    row_of[np.concatenate([own, halo.halo])] = np.arange(len(own) + len(halo.halo), dtype=np.int32)
    spans = [slice(near.row_start[j], near.row_start[j + 1]) for j in own]
    uses = [near.shared[near.shared_start[j] : near.shared_start[j + 1]] for j in own]
    kept = np.unique(np.concatenate([np.zeros(0, np.int32), *uses]))
    sum_of = np.full(len(near.part_start) - 1, -1, np.int32)
    sum_of[kept] = np.arange(kept.size, dtype=np.int32)
    row_start, rows = ragged([row_of[near.rows[span]] for span in spans])
    shared_start, shared = ragged([sum_of[one] for one in uses])
    part_start, parts = ragged([row_of[near.parts[near.part_start[q] : near.part_start[q + 1]]] for q in kept])
    weights = near.weights
    if weights.size:
        weights = np.concatenate([weights[span] for span in spans])
    degree, complement = near.degree[own], near.complement[own]
    local = Neighbours(degree, complement, row_start, rows, weights, shared_start, shared, part_start, parts)
    return Plan(local, plan.scale)
