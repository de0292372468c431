"""The fast method against its oracle: T, the reflected Halpern iteration, restarts and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import naive
import numpy as np
import pytest
from naive_fast import Oracle
from specimens import LOSSES, PENALTIES, Specimen, specimen
from test_oracle import GRAPHS, by_agent, network_of

from fdglm_fast.halpern import FastEngine
from fdglm_fast.kernels.period import next_weight
from fdglm_fast.local_steps import local_steps
from fdglm_fast.team import Team

ITERATIONS = 90
TOLERANCE = 1e-9  # restarts compare sums; a difference in the last bits grows a little from one to the next


@pytest.fixture(autouse=True)
def fewer_halvings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive, "HALVINGS", 60)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


def oracle(case: Specimen) -> Oracle:
    return Oracle(case.X, case.y.tolist(), case.blocks, case.edges, case.loss, case.penalty)


def assert_close(actual: Any, expected: Any, what: str) -> None:
    away, scale = np.abs(np.asarray(actual) - expected).max(), np.abs(expected).max()
    assert away <= TOLERANCE * max(scale, 1e-3), f"{what}: {away:.3g} away, of {scale:.3g}"


def check(case: Specimen, schedule: str = "tiles") -> int:
    """T(z), lambda and u = L^(1/2) v on the way and at the end; the number of restarts."""
    expected = oracle(case).run(ITERATIONS, next_weight)
    engine = FastEngine(case.problem, case.network, local_steps(Team(case.problem), case.network), schedule=schedule)
    for t in (1, 2, 11, 12, 40, ITERATIONS):
        engine.advance(t - engine.iteration)
        new, z, restarts = expected[t - 1]
        assert engine.period.restarts == restarts
        assert_close(case.problem.in_user_order(engine.last), new.theta, f"theta, iteration {t}")
        assert_close(by_agent(engine.state.lam, case.problem.n), z.lam, f"lambda, iteration {t}")
    return int(expected[-1][2])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("index", range(len(PENALTIES)), ids=list(PENALTIES))
def test_every_loss_and_penalty(loss: str, index: int, folder: Path) -> None:
    """Each pair on one of the graphs."""
    graphs = list(GRAPHS)
    graph = graphs[(index + list(LOSSES).index(loss)) % len(graphs)]
    check(specimen(loss, list(PENALTIES)[index], network_of(graph, folder)))


@pytest.mark.parametrize("schedule", ["tiles", "agents"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_graph(graph: str, schedule: str, folder: Path) -> None:
    assert check(specimen("squared", "l1", network_of(graph, folder)), schedule) >= 1
