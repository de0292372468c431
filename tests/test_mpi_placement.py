"""Where agents live: balanced columns, few cut edges; and the part of the neighbour plan that a rank needs."""

from __future__ import annotations

import numpy as np
import pytest

from fdglm_fast.errors import UsageError
from fdglm_fast.mpi.halo import local_plan, plan_halo
from fdglm_fast.mpi.placement import place_agents
from fdglm_fast.neighbours import plan_neighbours
from fdglm_fast.network import build_network

SPECS = ("complete", "star", "er:0.1", "er:0.5", "lattice", "rgg", "ring", "path")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 64])
@pytest.mark.parametrize("spec", SPECS)
def test_every_rank_has_its_share(spec: str, ranks: int) -> None:
    network, columns = build_network(spec, 64, seed=1), np.full(64, 32)
    placement = place_agents(network, columns, ranks)
    load = np.bincount(placement.rank, weights=columns, minlength=ranks)
    assert load.min() > 0
    assert load.max() <= max(1.05 * 64 * 32 / ranks, 32 * -(-64 // ranks))
    assert placement.first_rank == 0
    ends = placement.rank[network.edges]
    assert placement.cut == np.count_nonzero(ends[:, 0] != ends[:, 1])


CUTS = [("ring", 2, 2), ("ring", 4, 4), ("path", 4, 3), ("lattice", 2, 24)]


@pytest.mark.parametrize(("spec", "ranks", "most"), CUTS)
def test_the_cut_is_near_the_best_there_is(spec: str, ranks: int, most: int) -> None:
    """A ring in 4 pieces has 4 cut edges; an 8 x 8 lattice with diagonals has 22 between its halves."""
    assert place_agents(build_network(spec, 64), np.ones(64, np.int64), ranks).cut <= most


@pytest.mark.parametrize("spec", ["rgg", "lattice", "er:0.1"])
def test_the_cut_is_smaller_than_that_of_agents_in_a_row(spec: str) -> None:
    network = build_network(spec, 256, seed=2)
    ends = (np.arange(256) // 64)[network.edges]
    in_a_row = np.count_nonzero(ends[:, 0] != ends[:, 1])
    assert place_agents(network, np.ones(256, np.int64), 4).cut < (0.95 if spec == "er:0.1" else 0.8) * in_a_row


def test_agents_of_different_size() -> None:
    columns = np.array([100, 1, 1, 1, 1, 1, 1, 94])
    load = np.bincount(place_agents(build_network("ring", 8), columns, 2).rank, weights=columns)
    assert load.max() <= 105


def test_agents_live_where_their_data_are() -> None:
    network, allowed = build_network("ring", 8), np.zeros((8, 2), bool)
    allowed[::2, 0] = allowed[1::2, 1] = True
    placement = place_agents(network, np.ones(8, np.int64), 2, allowed)
    assert placement.rank.tolist() == [0, 1] * 4 and placement.cut == 8
    allowed[3] = False
    with pytest.raises(UsageError, match="no rank can read the data of agent 4"):
        place_agents(network, np.ones(8, np.int64), 2, allowed)


def test_more_ranks_than_agents() -> None:
    with pytest.raises(UsageError, match="5 ranks for 4 agents"):
        place_agents(build_network("ring", 4), np.ones(4, np.int64), 5)


@pytest.mark.parametrize("spec", ["rgg:0.4", "er:0.8", "complete", "star"])
def test_local_plans_are_the_plan(spec: str) -> None:
    """Every list of a rank's plan, in the names of all agents, is the list of the whole plan, in the same order."""
    network = build_network(spec, 30, seed=1)
    plan = plan_neighbours(network, np.float64)
    placement = place_agents(network, np.ones(30, np.int64), 4)
    sent: set[tuple[int, int, int]] = set()
    received: set[tuple[int, int, int]] = set()
    for rank in range(4):
        halo = plan_halo(plan, placement, rank)
        near, whole = local_plan(plan, halo).near, plan.near
        agents = np.concatenate([halo.own, halo.halo])
        for here, j in enumerate(halo.own):
            rows = near.rows[near.row_start[here] : near.row_start[here + 1]]
            assert agents[rows].tolist() == whole.rows[whole.row_start[j] : whole.row_start[j + 1]].tolist()
            mine = near.shared[near.shared_start[here] : near.shared_start[here + 1]]
            theirs = whole.shared[whole.shared_start[j] : whole.shared_start[j + 1]]
            for a, b in zip(mine, theirs, strict=True):
                parts = near.parts[near.part_start[a] : near.part_start[a + 1]]
                assert agents[parts].tolist() == whole.parts[whole.part_start[b] : whole.part_start[b + 1]].tolist()
        sent |= {(rank, to, int(j)) for to, some in halo.sends.items() for j in some}
        received |= {(of, rank, int(j)) for of, some in halo.receives.items() for j in some}
    assert sent == received and len(sent) > 0
