"""Agents on real ranks of MPI: the bits of the shared-memory engine, and nothing sent but what may be."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from mpi_script import hashes, make, options_of
from mpi_tools import ask_ranks
from specimens import LOSSES, PENALTIES

from fdglm_fast.solve import solve

GRAPHS = ("rgg:0.5", "er:0.1", "star")
# With the constants given a solve has few reductions, each of which is slow where ranks outnumber cores.
GIVEN = {"chi": 60.0, "R": 0.5}
MUST: list[dict[str, Any]] = [
    {"loss": loss, "penalty": "l1", "graph": graph, "agents": m, **GIVEN}
    for m in (16, 64)
    for graph in GRAPHS
    for loss in ("squared", "logistic", "huber:0.7")
]
# Every loss and penalty, every way of adding neighbours, scattered columns, random placements.
OTHERS: list[dict[str, Any]] = [
    *({"loss": loss, "penalty": "l2", "graph": "er:0.6", "agents": 7, **GIVEN} for loss in LOSSES),
    *({"loss": "logistic", "penalty": penalty, "graph": "ring", "agents": 5, **GIVEN} for penalty in PENALTIES),
    {"loss": "squared", "penalty": "l1", "graph": "complete", "agents": 9, "placement": 1, **GIVEN},
    {"loss": "huber:0.7", "penalty": "l1", "graph": "er:0.9", "agents": 12, "placement": 2, **GIVEN},
    {"loss": "squared", "penalty": "group-l2", "graph": "rgg:0.5", "agents": 24, "placement": 3, "scattered": True},
    {"loss": "logistic", "penalty": "l1", "graph": "rgg:0.5", "agents": 10, "weights": "metropolis", **GIVEN},
    {"loss": "absolute", "penalty": "none", "graph": "star", "agents": 6, "placement": 4, "rule": "tight", "R": None},
    {"loss": "poisson", "penalty": "l2", "graph": "path", "agents": 5, "R": None},
]


@cache
def on_threads(text: str) -> dict[str, str]:
    """The same case on the shared-memory engine."""
    case = json.loads(text)
    specimen = make(case)
    with np.errstate(over="ignore", invalid="ignore"):
        result = solve(specimen.problem, specimen.network, options=options_of(case, threads=1))
    return hashes(result, [result.theta_average, result.theta_last])


def assert_same(cases: list[dict[str, Any]], ranks: int, **changes: str) -> None:
    found = ask_ranks(ranks, "bits", json.dumps(cases), **changes)
    for case, told in zip(cases, found, strict=True):
        assert told == on_threads(json.dumps(case)), case


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_bits_of_the_shared_memory_engine(ranks: int) -> None:
    assert_same(MUST, ranks)


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_loss_penalty_and_graph_on_any_placement(ranks: int) -> None:
    assert_same(OTHERS, ranks)


FAST: list[dict[str, Any]] = [
    {"loss": loss, "penalty": penalty, "graph": graph, "agents": 7, "method": "fast", **more}
    for loss, penalty, graph, more in (
        ("squared", "l1", "ring", {}),
        ("logistic", "l2", "er:0.9", {"placement": 2}),
        ("huber:0.7", "group-l2", "star", {"scattered": True}),
        ("absolute", "none", "rgg:0.5", {"weights": "metropolis"}),
        ("squared", "elastic-net:0.3", "complete", {"dtype": "float32"}),
    )
]


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_fast_method_has_the_same_bits(ranks: int) -> None:
    """45 iterations: looks, restarts, changes of the weight."""
    assert_same(FAST, ranks)


def test_two_threads_on_each_of_two_ranks() -> None:
    """Enough samples for several groups of tiles, and both types."""
    case = {"loss": "logistic", "penalty": "l1", "graph": "rgg:0.5", "agents": 16, "shape": (3037, 40), **GIVEN}
    assert_same([case, {**case, "dtype": "float32"}], 2, RANK_THREADS="2")


def test_one_agent_on_one_rank() -> None:
    assert_same([{"loss": "huber:0.7", "penalty": "l1", "graph": "complete", "agents": 1, "shape": (80, 9)}], 1)


def test_only_lambda_and_u_of_boundary_agents_are_sent() -> None:
    """A spy in the place of the communicator: every row that is sent is lambda or u of an agent with a neighbour there.

    Neither a run of four numbers of a column or of y, nor an agent's coefficients, are in anything else that is sent.
    """
    case = {"loss": "huber:0.7", "penalty": "l2", "graph": "rgg:0.5", "agents": 12, "iterations": 5, "shape": (130, 48)}
    told = ask_ranks(3, "spied", json.dumps({**case, **GIVEN}))
    known = {
        "checkpoint due", "conjugate of the loss", "conjugate of the penalty", "dual scale", "interrupted",
        "loss'(z)", "next look", "norm of loss'(0)", "not finite", "number of chunks", "penalty and residual",
        "scale of the residual", "scale of z", "sum of X theta", "sums of losses", "theta, when the run is over",
        "time is up", "X q of a norm", "norm of X",
    }  # fmt: skip
    for rank in told["ranks"]:
        assert rank["rows"] > 0 and rank["secrets"]["X"] > 1000
        assert (rank["strange rows"], rank["to strangers"]) == (0, 0)
        assert rank["leaks"] == {"X": 0, "y": 0, "theta": 0}
        assert set(rank["names"]) <= known
    assert sum(rank["secrets"]["y"] for rank in told["ranks"]) == 127 and told["ranks"][0]["secrets"]["theta"] > 0
    facts = told["facts"]
    sent = facts["bytes_sent"]
    assert sent["lambda"] + sent["u"] == sum(rank["bytes"] for rank in told["ranks"])
    # lambda once more, before the first iteration
    each = facts["bytes_per_iteration"] // 2
    assert (sent["u"], sent["lambda"]) == (5 * each, 6 * each)
    # 130 samples are padded to 160; an agent's row goes once to a rank, whatever the number of edges
    assert facts["bytes_per_iteration"] * 130 <= facts["model_bytes_per_iteration"] * 160


def test_the_spy_can_tell() -> None:
    from mpi_spy import Spy, windows

    class Comm:
        rank, size = 0, 1

        def bcast(self, value: Any, root: int) -> Any:
            return value

    y, spy = np.arange(10.0), Spy(Comm())
    spy.bcast(y[2:8], 0)
    assert any(word in spy.heard[0][1] for word in windows(y))
    assert not any(word in spy.heard[0][1] for word in windows(y + 0.5))
