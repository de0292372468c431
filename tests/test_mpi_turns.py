"""Which agents of a rank go early: against the edges of the network, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from fdglm_fast.mpi.halo import local_plan, plan_halo
from fdglm_fast.mpi.placement import Placement, place_agents
from fdglm_fast.mpi.turns import inner_agents, take_turns
from fdglm_fast.neighbours import plan_neighbours
from fdglm_fast.network import Network, build_network

F64 = np.dtype(np.float64)


def turns_of(network: Network, placement: Placement, rank: int):
    """(members, turns, the plan of the rank)"""
    plan = plan_neighbours(network, F64)
    halo = plan_halo(plan, placement, rank)
    near = local_plan(plan, halo).near
    hears = (network.laplacian().toarray()[0] < 0)[halo.own]
    early = inner_agents(near, hears, rank == placement.first_rank)
    return halo.own, take_turns(near, early, rank == placement.first_rank), near


def read_by(near, j: int) -> set[int]:
    sums = near.shared[near.shared_start[j] : near.shared_start[j + 1]]
    rows = set(near.rows[near.row_start[j] : near.row_start[j + 1]].tolist())
    return rows.union(*(near.parts[near.part_start[q] : near.part_start[q + 1]].tolist() for q in sums))


@pytest.mark.parametrize("graph", ["ring", "lattice", "rgg", "er:0.1", "er:0.6", "star", "complete", "path"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_an_early_agent_needs_nobody_elsewhere(graph: str, ranks: int) -> None:
    network = build_network(graph, 40, seed=2)
    placement = place_agents(network, np.full(40, 3), ranks)
    neighbours = {j: set() for j in range(40)}
    for a, b in network.edges.tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    first_early = all(placement.rank[k] == placement.rank[0] for k in neighbours[0])
    for rank in range(ranks):
        members, turns, near = turns_of(network, placement, rank)
        assert sorted([*turns.early, *turns.late]) == list(range(len(members)))
        assert sorted([*turns.early_sums, *turns.late_sums]) == list(range(len(near.part_start) - 1))
        if ranks == 1:
            assert turns.first and turns.late.size == turns.late_sums.size == 0
        for j in turns.early.tolist():
            assert all(placement.rank[k] == rank for k in neighbours[int(members[j])])
            assert max(read_by(near, j), default=0) < len(members)
            sums = near.shared[near.shared_start[j] : near.shared_start[j + 1]]
            assert set(sums.tolist()) <= set(turns.early_sums.tolist())
            assert members[j] not in neighbours[0] or turns.first
        assert turns.first == (rank == placement.first_rank and 0 in turns.early and first_early)


def test_on_a_ring_those_at_the_cut_are_late() -> None:
    """Agents 0 to 5 here, 6 to 11 there; agent 1 is vertex 0, beside the cut, and vertex 1 waits for its answer."""
    network, placement = build_network("ring", 12), Placement(np.repeat([0, 1], 6), 2, 2)
    here, there = (turns_of(network, placement, rank)[1] for rank in (0, 1))
    assert here.late.tolist() == [0, 1, 5] and here.early.tolist() == [2, 3, 4] and not here.first
    assert there.late.tolist() == [0, 5] and there.early.tolist() == [1, 2, 3, 4] and not there.first
    turned = Placement(np.roll(placement.rank, 3), 2, 2)  # vertices 9 to 2 on rank 1: agent 1 is inside
    around, opposite = (turns_of(network, turned, rank)[1] for rank in (1, 0))
    assert around.first and around.late.tolist() == [2, 3] and opposite.late.size == 2 and not opposite.first


def test_all_are_late_where_none_is_to_be_early() -> None:
    """The paper's method: also the sums."""
    plan = plan_neighbours(build_network("rgg", 64, seed=1), F64)
    turns = take_turns(plan.near, np.zeros(64, bool), True)
    assert turns.late.size == 64 and turns.early.size == turns.early_sums.size == 0 and not turns.first
    assert turns.late_sums.size == len(plan.near.part_start) - 1 > 0
