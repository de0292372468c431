"""The closed forms: operations, messages, memory, seconds, and the table at scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fdglm_fast.cost.model import (
    doublings,
    dual_model,
    fast_cost,
    is_weighted,
    messages,
    normalized_cost,
    paper_cost,
    phase_model,
)
from fdglm_fast.cost.scale import LARGEST, MARGIN, expander, geometric, scale_table
from fdglm_fast.cost.storage import agent_memory
from fdglm_fast.cost.timing import PRESETS, Link, iteration_seconds
from fdglm_fast.errors import UsageError
from fdglm_fast.network import build_network


def test_the_papers_formula() -> None:
    assert paper_cost(16384, 2048, 256, 83) == 16384 * (4 * 8 + 2 * 83 + 7) + 5 * 8
    assert paper_cost(10, 3, 2, 1) == 10 * (6 + 2 + 7) + 7.5  # d/m need not be whole
    assert paper_cost(16384, 2048, 1, 0) == 16384 * (4 * 2048 + 1) + 5 * 2048
    assert normalized_cost(16384, 2048, 1, 0) == 1.0
    assert normalized_cost(100, 10, 2, 1) == (100 * (20 + 2 + 7) + 25) / (100 * 41 + 50)


@pytest.mark.parametrize(("n", "d", "degree"), [(1, 1, 1), (5, 3, 2), (100, 17, 9)])
def test_phases_add_up_to_the_formula(n: int, d: int, degree: int) -> None:
    def total(**changed: bool) -> int:
        flags = {"prox": True, "weighted": False, "single": False, **changed}
        return sum(phase_model(n, d, degree, **flags).values())

    assert total() == n * (4 * d + 2 * degree + 7) + 5 * d
    assert total(prox=False) == total() - 3 * d
    assert total(weighted=True) == total() + 2 * n * degree
    assert total(single=True) == n * (4 * d + 1) + 5 * d
    assert phase_model(n, d, degree, prox=True, weighted=False, single=False)["v"] == n * (degree + 3)
    assert sum(doublings(n, d, single=False).values()) == n + d
    assert sum(doublings(n, d, single=True).values()) == d


def test_the_dual_step_has_a_figure_for_squared_loss_only() -> None:
    assert dual_model(7, "squared") == 14
    assert dual_model(7, "logistic") is None


def test_messages_of_a_star() -> None:
    sent = messages(build_network("star", 5), 100, 8)
    assert sent.count.tolist() == [8, 2, 2, 2, 2]
    assert sent.numbers.tolist() == [800, 200, 200, 200, 200]
    assert sent.bytes.tolist() == [6400, 1600, 1600, 1600, 1600]
    assert (sent.edge_numbers, sent.edge_bytes) == (400, 3200)
    assert (sent.total_count, sent.total_numbers, sent.total_bytes) == (16, 1600, 12800)
    assert sent.total_bytes == 4 * sent.edge_bytes


def test_one_agent_sends_nothing() -> None:
    sent = messages(build_network("complete", 1), 100, 4)
    assert (sent.total_count, sent.total_bytes, sent.edge_bytes) == (0, 0, 0)


def test_weights_count_where_they_differ() -> None:
    assert not is_weighted(build_network("ring", 6))
    assert not is_weighted(build_network("ring", 6, weights="metropolis"))  # all weights are 1/3
    assert is_weighted(build_network("lattice", 9, weights="metropolis"))
    assert not is_weighted(build_network("complete", 1))


def test_memory_of_an_agent() -> None:
    found = agent_memory(100, 3, 2, 8, first=True)
    assert found == {"design": 2400, "vectors": 3200, "inbox": 1600, "coefficients": 96, "response": 800}
    assert agent_memory(100, 3, 0, 4, first=False)["vectors"] == 800  # one agent needs neither v nor u


def test_seconds_of_a_synchronous_network() -> None:
    network = build_network("star", 3)  # the centre is agent 1
    n, sizes, link = 10, np.array([2, 5, 1]), Link(flops=1000.0, latency=0.25, bandwidth=640.0)
    spent = iteration_seconds(network, sizes, n, 8, link)
    # theta, v and u, then the rest of lambda; the centre and agent 2 are the slowest, whoever has more to do.
    before = [2 * n * d + 4 * d + n * (g + 3) + n for d, g in [(2, 2), (5, 1), (1, 1)]]
    after = [n * (2 * d + g + 3) + d for d, g in [(2, 2), (5, 1), (1, 1)]]
    assert spent.compute == pytest.approx((max(before) + max(after)) / 1000.0)
    assert spent.latency == 0.5
    assert spent.transfer == pytest.approx(2 * (2 * 10 * 8) / 640.0)
    assert spent.total == pytest.approx(spent.compute + spent.latency + spent.transfer)


@pytest.mark.parametrize(("graph", "weights"), [("star", "unit"), ("lattice", "metropolis")])
def test_seconds_of_the_fast_method(graph: str, weights: str) -> None:
    """The slowest agent by the model of operations; agent 1 answers when it has heard its neighbours."""
    network, n, sizes, link = build_network(graph, 9, weights=weights), 10, [2, 5, 1] * 3, Link(1000.0, 0.25, 640.0)
    spent = iteration_seconds(network, sizes, n, 8, link, "fast")
    flags: Any = {"prox": True, "weighted": weights == "metropolis", "single": False, "method": "fast"}
    each = [sum(phase_model(n, d, int(g), **flags).values()) for d, g in zip(sizes, network.degrees, strict=True)]
    assert spent.compute == pytest.approx(max(each) / 1000.0)
    assert spent.latency == 0.5
    assert spent.transfer == pytest.approx((8 + 1) * 10 * 8 / 640.0)


@pytest.mark.parametrize(("method", "cost"), [("paper", paper_cost), ("fast", fast_cost)])
def test_one_agent_only_computes(method: str, cost: Any) -> None:
    spent = iteration_seconds(build_network("complete", 1), [6], 10, 8, Link(100.0, 9.0, 1.0), method)
    assert spent.compute == spent.total == pytest.approx(cost(10, 6, 1, 0) / 100.0)
    assert spent.latency == spent.transfer == 0.0


def test_weighted_edges_take_longer() -> None:
    link = Link(1.0, 0.0, 1e300)
    unit, metropolis = (build_network("lattice", 9, weights=rule) for rule in ("unit", "metropolis"))
    plain, weighted = (iteration_seconds(network, [1] * 9, 10, 8, link) for network in (unit, metropolis))
    assert weighted.compute - plain.compute == pytest.approx(2 * 10 * unit.max_degree)


@pytest.mark.parametrize("figures", [(0.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, math.inf), (math.nan, 1.0, 1.0)])
def test_impossible_links_are_refused(figures: tuple[float, float, float]) -> None:
    with pytest.raises(UsageError, match="must be"):
        Link(*figures)


def test_presets_are_ordered_from_near_to_far() -> None:
    assert list(PRESETS) == ["one-machine", "data-centre", "internet", "sensor-network"]
    rates = [link.bandwidth for link in PRESETS.values()]
    assert rates == sorted(rates, reverse=True)


def test_scale_reaches_a_million_agents() -> None:
    rows = scale_table(1000, 500, 8, PRESETS["internet"])
    assert [row.agents for row in rows if row.family == "expander"] == [10**k for k in range(2, 7)]
    first, last = rows[0], rows[4]
    assert (first.features, last.features) == (500, 10**6)
    assert first.operations == paper_cost(1000, 500, 100, 8)
    assert first.total_bytes == 100 * 2 * 8 * 1000 * 8
    assert last.normalized == pytest.approx(paper_cost(1000, 10**6, 10**6, 8) / paper_cost(1000, 10**6, 1, 0))
    assert all(0.0 < row.communication < 1.0 for row in rows)


def test_closed_forms_of_the_families_are_near_graphs_that_are_drawn() -> None:
    m = 1000
    form = geometric(m)
    radius = math.sqrt(form.degree / (math.pi * m))
    drawn = build_network(f"rgg:{radius}", m, seed=0)
    assert drawn.degrees.mean() == pytest.approx(form.degree, rel=0.15)
    assert drawn.max_degree == pytest.approx(form.max_degree, rel=0.35)
    assert drawn.spectral_gap is not None and 0.4 * form.spectral_gap < drawn.spectral_gap < form.spectral_gap
    assert LARGEST * math.log(LARGEST) - LARGEST + 1.0 == pytest.approx(1.0 / MARGIN, abs=1e-5)
    regular = build_network("regular:8", m, seed=0)
    assert regular.spectral_gap == pytest.approx(expander(m).spectral_gap, rel=0.1)
