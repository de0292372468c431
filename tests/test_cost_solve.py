"""The figures that `solve` carries: cost in its JSON, operations and bytes in its trace."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from fdglm_cli.solve import command
from fdglm_fast.cost.model import normalized_cost, paper_cost
from fdglm_fast.cost.run import run_cost
from fdglm_fast.network import build_network
from fdglm_fast.problem import Problem

N, D = 40, 9


@pytest.fixture
def data(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["X"] = rng.standard_normal((N, D))
        file["y"] = rng.standard_normal(N)
    return str(path)


def solved(*arguments: str) -> dict:  # type: ignore[type-arg]
    result = CliRunner().invoke(command, [*arguments, "--iterations", "6", "--record", "every:2", "--json", "--quiet"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


@pytest.mark.parametrize("compress", ["off", "on"])
def test_figures_of_a_star(data: str, compress: str) -> None:
    found = solved(data, "--agents", "4", "--graph", "star", "--penalty", "l1", "--reg", "0.1", "--compress", compress)
    sizes, degrees = [3, 2, 2, 2], [3, 1, 1, 1]
    flops = sum(N * (4 * d + 2 * g + 7) + 5 * d for d, g in zip(sizes, degrees, strict=True)) + 2 * N
    assert found["compressed"] is (compress == "on")
    assert found["cost"] == {
        "flops_per_agent_iteration": paper_cost(N, D, 4, 3),
        "flops_total": 6 * flops,
        "normalized_ops_per_iteration": normalized_cost(N, D, 4, 3),
        "normalized_ops_total": 6 * normalized_cost(N, D, 4, 3),
        "messages_per_iteration": 12,
        "bytes_per_iteration": 12 * N * 8,
        "exchanges_per_iteration": 2,
        "rounds_per_iteration": 2,
        "exchanges": 12,
        "bytes_total": 6 * 12 * N * 8,
        "looks": 0,
        "restarts": 0,
    }
    assert [record["iteration"] for record in found["trace"]] == [2, 4, 6]
    for record in found["trace"]:
        assert record["ops_per_agent"] == pytest.approx(record["iteration"] * normalized_cost(N, D, 4, 3))
        assert record["bytes_sent"] == record["iteration"] * 12 * N * 8


def test_one_agent_completes_one_iteration_a_unit(data: str) -> None:
    found = solved(data, "--agents", "1")
    assert found["cost"]["normalized_ops_per_iteration"] == 1.0
    assert found["cost"]["flops_total"] == 6 * (N * (4 * D + 1) + 2 * D + 2 * N)  # no penalty, squared loss
    assert found["cost"]["messages_per_iteration"] == found["cost"]["bytes_per_iteration"] == 0
    assert [record["ops_per_agent"] for record in found["trace"]] == [2.0, 4.0, 6.0]
    assert [record["bytes_sent"] for record in found["trace"]] == [0, 0, 0]


def test_weights_and_single_precision() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)).astype(np.float32)
    problem = Problem.from_arrays(X, np.sign(rng.standard_normal(N)), agents=9, loss="logistic")
    unit, metropolis = (build_network("lattice", 9, weights=rule) for rule in ("unit", "metropolis"))
    plain, weighted = run_cost(problem, unit), run_cost(problem, metropolis)
    assert plain.flops == sum(N * (4 + 2 * int(g) + 7) + 2 for g in unit.degrees)
    assert weighted.flops - plain.flops == 2 * N * int(unit.degrees.sum())
    assert plain.exchanges * plain.bytes == 4 * len(unit.edges) * N * 4
