"""The plan for neighbour sums: as a matrix it is the adjacency, exactly; and it saves additions where it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fdglm_fast.neighbours import Plan, plan_neighbours
from fdglm_fast.network import Network, build_network

GRAPHS = [
    ("complete", 2),
    ("complete", 3),
    ("complete", 40),
    ("star", 2),
    ("star", 30),
    ("path", 9),
    ("ring", 12),
    ("lattice", 49),
    ("lattice", 50),
    ("hypercube", 32),
    ("regular:6", 31),
    ("er:0.1", 80),
    ("er:0.5", 60),
    ("er:0.9", 60),
    ("rgg", 70),
    ("rgg:0.6", 50),
    ("rgg:1.2", 50),
]


def as_matrix(plan: Plan, dtype: Any) -> NDArray[np.float64]:
    """Row j: how often the plan adds each agent's row into the sum of agent j."""
    near, m = plan.near, len(plan.near.row_start) - 1
    sums = np.zeros((len(near.part_start) - 1, m))
    for q in range(len(sums)):
        np.add.at(sums[q], near.parts[near.part_start[q] : near.part_start[q + 1]], 1.0)
    out = np.zeros((m, m))
    for j in range(m):
        here = slice(near.row_start[j], near.row_start[j + 1])
        np.add.at(out[j], near.rows[here], near.weights[here] if near.weights.size else 1.0)
        shared = near.shared[near.shared_start[j] : near.shared_start[j + 1]]
        if near.complement[j]:  # the rest is taken off the last shared sum
            out[j] = sums[shared[-1]] - out[j] - sums[shared[:-1]].sum(axis=0)
        else:
            out[j] += sums[shared].sum(axis=0)
    return out * plan.scale


def assert_exact(network: Network, dtype: Any = np.float64) -> Plan:
    """The plan is the adjacency, and its degrees, times the common weight, are the weighted degrees."""
    plan = plan_neighbours(network, dtype)
    adjacency = network.adjacency().toarray()
    if plan.near.weights.size:
        adjacency = adjacency.astype(dtype)
    assert np.array_equal(as_matrix(plan, dtype), adjacency)
    assert plan.near.degree.dtype == plan.near.weights.dtype == dtype
    rounding = 1e-14 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(plan.near.degree * plan.scale, network.weighted_degrees, rtol=rounding)
    return plan


@pytest.mark.parametrize(("spec", "agents"), GRAPHS)
def test_the_plan_is_the_adjacency(spec: str, agents: int) -> None:
    assert assert_exact(build_network(spec, agents, seed=2)).scale == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("spec", ["er:0.9", "rgg:0.6", "star"])
def test_metropolis_weights_are_added_one_by_one(spec: str, dtype: Any) -> None:
    network = build_network(spec, 30, seed=1, weights="metropolis")
    plan = assert_exact(network, dtype)
    if spec != "star":  # whose edges all weigh 1/30
        assert plan.near.weights.size == plan.additions == 2 * len(network.edges)
        assert plan.scale == 1.0 and not plan.near.complement.any()


def test_a_common_weight_moves_out_of_the_sums() -> None:
    unit = build_network("er:0.9", 30, seed=1)
    plan = assert_exact(Network(30, unit.edges, np.full(len(unit.edges), 0.3)))
    assert plan.scale == 0.3 and plan.near.weights.size == 0
    assert plan.additions == plan_neighbours(unit, np.float64).additions


def test_one_agent_has_nobody_to_add() -> None:
    plan = assert_exact(build_network("complete", 1))
    assert (plan.additions, plan.scale) == (0, 1.0)


@st.composite
def graphs(draw: st.DrawFn) -> Network:
    """Any graph on up to 24 agents, connected or not, from empty to complete."""
    m = draw(st.integers(1, 24))
    density = draw(st.floats(0.0, 1.0))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    upper = np.triu(rng.random((m, m)) < density, 1)
    if draw(st.booleans()):  # twins: agents that share all their neighbours
        half = m // 2
        upper[half : 2 * half] = upper[:half]
        upper = np.triu(upper, 1)
    edges = np.argwhere(upper).astype(np.int64)
    weights = rng.choice([1.0, 2.0], len(edges)) if draw(st.booleans()) else np.ones(len(edges))
    return Network(m, edges, weights)


@settings(max_examples=200, derandomize=True, deadline=None, database=None)
@given(network=graphs(), dtype=st.sampled_from([np.float32, np.float64]))
def test_any_graph(network: Network, dtype: Any) -> None:
    plan = assert_exact(network, dtype)
    # the total of a complement pays for itself, shared sums leave at most 0.9 of the rows
    assert plan.additions <= 2 * len(network.edges)


@pytest.mark.parametrize("agents", [8, 64, 256])
def test_complete_costs_a_total_and_no_more(agents: int) -> None:
    """m additions for the total; then each agent takes itself off it."""
    assert assert_exact(build_network("complete", agents)).additions == 3 * agents


@pytest.mark.parametrize("agents", [8, 64, 256])
def test_star_costs_its_edges(agents: int) -> None:
    assert assert_exact(build_network("star", agents)).additions == 2 * (agents - 1)


def test_dense_graphs_use_the_complement() -> None:
    network = build_network("er:0.8", 100, seed=1)
    plan = assert_exact(network)
    assert plan.near.complement.all()
    missing = 100 * 99 - 2 * len(network.edges)
    assert plan.additions <= missing + 3 * 100 < len(network.edges)


def test_sparse_graphs_do_not() -> None:
    for spec in ("er:0.1", "lattice", "rgg"):
        plan = plan_neighbours(build_network(spec, 100, seed=1), np.float64)
        assert not plan.near.complement.any()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_geometric_graphs_save_a_third(seed: int) -> None:
    """Agents that are close share most of their neighbours."""
    network = build_network("rgg", 256, seed=seed)
    plan = assert_exact(network)
    assert plan.near.shared.size > 0
    assert plan.additions <= 2 / 3 * 2 * len(network.edges)


def test_the_plan_depends_on_the_network_alone() -> None:
    network = build_network("rgg:0.5", 60, seed=4)
    first, second = (plan_neighbours(network, np.float64).near for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
