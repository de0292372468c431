"""Agents on real ranks of MPI: the bits of the shared-memory engine, and nothing sent but what may be."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cli_tools import write_h5
from mpi_script import hashes, make, options_of
from mpi_tools import ask_ranks
from specimens import LOSSES, PENALTIES

from fdglm_fast.mpi.engine import RankEngine, cut_chunks
from fdglm_fast.solver import solve

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
    {"loss": "logistic", "penalty": "l1", "graph": "rgg:0.5", "agents": 16, "chunks": 7, **GIVEN},
    {"loss": "logistic", "penalty": "l1", "graph": "rgg:0.5", "agents": 16, "chunks": 3, "stretches": True, **GIVEN},
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
        ("squared", "l1", "path", {"gossip": 3}),
        ("logistic", "l1", "rgg:0.5", {"stretches": True}),
        ("logistic", "none", "ring", {"gossip": 2, "placement": 5, "agents": 12}),
        ("huber:0.7", "l1", "star", {"chunks": 4}),
        ("squared", "none", "rgg:0.5", {"chunks": 7, "stretches": True, "agents": 16, "placement": 2}),
        ("squared", "l1", "lattice", {"chunks": 4, "agents": 36}),  # some wait for other ranks, some do not
    )
]


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_fast_method_has_the_same_bits(ranks: int) -> None:
    """45 iterations: looks, restarts, changes of the weight."""
    assert_same(FAST, ranks)


def test_two_threads_on_each_of_two_ranks() -> None:
    """Enough samples for several groups of tiles, and both types; and agents that wait for the other rank beside agents
    that do not, agent 1 among these, with sums that they share."""
    case = {"loss": "logistic", "penalty": "l1", "graph": "rgg:0.5", "agents": 16, "shape": (3037, 40), **GIVEN}
    cut = {**case, "chunks": 9}
    mixed = {"method": "fast", "loss": "logistic", "penalty": "none", "graph": "rgg", "agents": 64, "seed": 0}
    mixed |= {"shape": (517, 128), "chunks": 3, "stretches": True}
    assert_same([case, {**case, "dtype": "float32"}, cut, {**cut, "method": "fast"}, mixed], 2, RANK_THREADS="2")


@pytest.mark.parametrize(
    ("size", "groups", "threads", "chunks"),
    [(1, 64, 1, 1), (20, 64, 1, 2), (60, 64, 1, 5), (900, 64, 1, 8), (900, 64, 2, 8), (900, 10, 4, 2), (70, 3, 9, 1)],
)
def test_how_many_chunks_an_iteration_is_cut_into(size: int, groups: int, threads: int, chunks: int) -> None:
    """A chunk is worth its messages (10 bytes here), and has a group for each thread."""
    engine = SimpleNamespace(most_chunks=8, chunk_bytes=10)
    found = RankEngine._best_chunks(engine, size, groups, threads)  # type: ignore[arg-type]
    assert found == chunks
    cut = cut_chunks(groups, 2, 2 * groups, found, 2)
    assert min(chunk.stop_group - chunk.first_group for chunk in cut) >= min(threads, groups)
    assert [chunk.first for chunk in cut[1:]] == [chunk.stop for chunk in cut[:-1]] and cut[-1].stop == 2 * groups


def test_one_agent_on_one_rank() -> None:
    assert_same([{"loss": "huber:0.7", "penalty": "l1", "graph": "complete", "agents": 1, "shape": (80, 9)}], 1)


# Whatever else leaves a rank, by the name it is counted under: numbers for the run as a whole, or one for each agent;
# vectors over the samples are the last three.
COMMON = {
    "conjugate of the loss", "conjugate of the penalty", "dual scale", "losses and ||loss'(0)|| at zero", "next look",
    "norm of X", "not finite", "number of chunks", "penalty and residual", "penalty at zero", "scale of z",
    "sums of losses",
    "loss'(z)", "sum of X theta", "X q of a norm",
}  # fmt: skip
NAMES = {
    "paper": COMMON | {"||X||_F^2, to estimate R", "||y||, to estimate R"},
    "fast": COMMON | {"norms of the blocks", "size of a move", "distances of a period", "lambda of agent 1"},
}


@pytest.fixture(scope="module")
def spied_case(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The squared loss, whose derivative at zero is -y; R is estimated, and the first iterations are measured too."""
    folder = tmp_path_factory.mktemp("spied")
    case = {"loss": "squared", "penalty": "l2", "graph": "rgg:0.5", "agents": 12, "shape": (130, 96), "R": None}
    case |= {"iterations": 30, "record": "every:1", "file": str(folder / "all.h5")}
    specimen = make(case)
    write_h5(Path(case["file"]), X=specimen.X, y=specimen.y)
    for j, columns in enumerate(specimen.blocks):
        y = {"y": specimen.y} if j == 0 else {}
        write_h5(folder / f"agent-{j + 1}.h5", X=specimen.X[:, columns], **y)
    return case


@pytest.mark.parametrize("local", [False, True], ids=["one-file", "local-data"])
@pytest.mark.parametrize("method", ["paper", "fast"])
def test_only_lambda_and_u_of_boundary_agents_are_sent(method: str, local: bool, spied_case: dict[str, Any]) -> None:
    """A spy in the place of the communicator: every row that is exchanged is lambda or u of an agent with a neighbour
    there.

    No run of eight numbers in anything else is one of a column of X, of y or of an agent's coefficients in any
    iteration, nor an affine function of one. In what is exchanged that is so for X and theta; lambda and u themselves
    are multiples of y before theta has moved, as the method has it for the squared loss.
    """
    case = {**spied_case, "method": method}
    if local:
        case["pattern"] = case["file"].replace("all", "agent-{j}")
    told = ask_ranks(3, "spied", json.dumps(case))
    for rank in told["ranks"]:
        assert rank["rows"] > 0 and rank["secrets"]["X"] > 300 and rank["secrets"]["theta"] > 300
        assert (rank["strange rows"], rank["to strangers"]) == (0, 0)
        leaks = rank["leaks"]
        assert leaks["y, exchanged"] > 0 or method == "fast"  # there not every rank sends a multiple of y
        assert {name: count for name, count in leaks.items() if name != "y, exchanged" and count} == {}
        assert set(rank["names"]) - {"theta, when the run is over"} == NAMES[method]
        assert ("theta, when the run is over" in rank["names"]) is not local
    assert sum(rank["leaks"]["y, exchanged"] for rank in told["ranks"]) > 0
    facts = told["facts"]
    sent = facts["bytes_sent"]
    vectors = ("lambda", "u", "first") if method == "fast" else ("lambda", "u")
    assert sum(sent[kind] for kind in vectors) == sum(rank["bytes"] for rank in told["ranks"])
    each = facts["bytes_per_iteration"] // 2
    if method == "paper":  # lambda once more, before the first iteration
        assert (sent["u"], sent["lambda"]) == (30 * each, 31 * each)
    # 130 samples are padded to 160; an agent's row goes once to a rank, whatever the number of edges
    assert facts["bytes_per_iteration"] * 130 <= facts["model_bytes_per_iteration"] * 160


def test_the_spy_can_tell() -> None:
    """It finds what the test above must not: a secret in an object, as whole numbers, scaled, turned and shifted."""
    from mpi_spy import Spy, arrays_in, count_alike, secret_runs

    class Comm:
        rank, size = 0, 1

        def bcast(self, value: Any, root: int) -> Any:
            return value

    rng = np.random.default_rng(0)
    y, spy = rng.standard_normal(40), Spy(Comm())
    secrets = secret_runs([y])

    def seen(value: Any) -> int:
        spy.bcast(value, 0)
        return sum(count_alike(each, secrets) for each in arrays_in(spy.heard[-1][1]))

    assert seen(y) == 5
    assert seen({"a": [3.0 - 1e-5 * y[3:17]]}) == 1
    assert seen((np.ldexp(y, 40).astype(np.int64).reshape(5, 8), 1)) == 5
    assert seen([float(one) for one in y]) == 5
    assert seen(y + 1e-3 * rng.standard_normal(40)) == 0
    assert seen(rng.standard_normal(4000)) == 0
