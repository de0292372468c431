"""What the options of `fdglm solve` do: the problem and its split, the network, the steps, the schedule."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from cli_tools import SAMPLE, coefficients, solve, write_h5, write_problem

from fdglm_fast.network import build_network


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the sample, whose reference is cached beside it."""
    path = tmp_path_factory.mktemp("options")
    shutil.copy(SAMPLE, path / "sample.h5")
    return path


# --- the problem ------------------------------------------------------------------------------------------


def test_groups_and_other_names_are_found(tmp_path: Path) -> None:
    X, y = write_problem(tmp_path / "plain.h5")
    write_h5(tmp_path / "nested.h5", a__b__design=X, a__b__answer=y[:, np.newaxis], X=np.ones((2, 2)))
    common = ["--agents", 3, "--iterations", 30, "--out"]
    solve(tmp_path / "plain.h5", *common, tmp_path / "1.h5")
    address = f"{tmp_path / 'nested.h5'}::/a/b"
    report = solve(address, "--x", "design", "--y", "answer", *common, tmp_path / "2.h5")
    assert report["data"]["path"] == address and report["data"]["n"] == 40
    np.testing.assert_array_equal(coefficients(tmp_path / "1.h5"), coefficients(tmp_path / "2.h5"))


def test_integers_and_labels_are_converted(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.integers(-3, 4, (30, 4)), rng.integers(0, 2, 30)
    write_h5(tmp_path / "whole.h5", X=X, y=y)
    write_h5(tmp_path / "float.h5", X=X.astype(float), y=2.0 * y - 1.0)
    common = ["--agents", 2, "--loss", "logistic", "--iterations", 30, "--out"]
    assert solve(tmp_path / "whole.h5", *common, tmp_path / "1.h5")["data"]["dtype"] == "float64"
    solve(tmp_path / "float.h5", *common, tmp_path / "2.h5")
    np.testing.assert_array_equal(coefficients(tmp_path / "1.h5"), coefficients(tmp_path / "2.h5"))


def test_partition_dataset_assigns_the_columns(tmp_path: Path) -> None:
    X, y = write_problem(tmp_path / "plain.h5")
    owner = np.array([2, 0, 1, 0, 0, 1])
    order = np.argsort(owner, kind="stable")  # agents 0, 1, 2 own 3, 2, 1 columns: not what contiguous blocks would be
    write_h5(tmp_path / "given.h5", X=X, y=y, partition=owner)
    write_h5(tmp_path / "sorted.h5", X=X[:, order], y=y, partition=owner[order])
    common = ["--agents", 3, "--graph", "path", "--iterations", 30, "--out"]
    solve(tmp_path / "given.h5", *common, tmp_path / "1.h5")
    solve(tmp_path / "sorted.h5", *common, tmp_path / "2.h5")
    np.testing.assert_array_equal(coefficients(tmp_path / "1.h5")[order], coefficients(tmp_path / "2.h5"))


def test_group_penalty_takes_its_groups_from_the_file(tmp_path: Path) -> None:
    X, y = write_problem(tmp_path / "plain.h5")
    groups = np.array([7, 7, 3, 3, 9, 9])
    write_h5(tmp_path / "groups.h5", X=X, y=y, groups=groups)
    arguments = "--agents 3 --penalty group-l2 --reg 0.05 --iterations 60"
    report = solve(tmp_path / "groups.h5", arguments, "--out", tmp_path / "r.h5")
    theta = coefficients(tmp_path / "r.h5", "last")
    norms = sum(math.sqrt(2) * np.linalg.norm(theta[groups == g]) for g in (3, 7, 9))
    wanted = np.mean((X @ theta - y) ** 2) / 2 + 0.05 * norms
    assert report["objective"]["last"] == pytest.approx(wanted, rel=1e-12)


def test_one_agent_ignores_the_graph(tmp_path: Path) -> None:
    X, y = write_problem(tmp_path / "p.h5")
    steps = ["--sigma", 3.0, "--tau", 2.0, "--iterations", 25, "--out", tmp_path / "r.h5"]
    report = solve(tmp_path / "p.h5", "--agents", 1, "--graph", "nonsense:99", *steps)
    assert report["graph"]["spec"] is None and report["graph"]["edges"] == 0
    assert report["graph"]["spectral_gap"] is None and report["steps"]["delta"] is None
    assert report["graph"]["laplacian_norm"] == 0 and report["steps"]["D"] == 0
    n, s, t = 40, 3.0 / 40, 2.0 / 40
    theta, lam = np.zeros(6), np.zeros(n)
    for _ in range(25):  # the single-agent baseline: the iteration with v fixed at zero
        before, theta = theta, theta - t * X.T @ lam
        lam = (lam + s * X @ (2 * theta - before) - s * y) / (1 + s)
    np.testing.assert_allclose(coefficients(tmp_path / "r.h5", "last"), theta, rtol=1e-12, atol=1e-14)


def test_types(tmp_path: Path) -> None:
    with h5py.File(SAMPLE, "r") as file:
        write_h5(tmp_path / "small.h5", X=file["X"][...].astype(np.float32), y=file["y"][...])
    common = ["--agents", 4, "--graph", "ring", "--iterations", 50, "--out"]
    assert solve(tmp_path / "small.h5", *common, tmp_path / "f32.h5")["data"]["dtype"] == "float32"
    assert solve(tmp_path / "small.h5", "--dtype f64", *common, tmp_path / "f64.h5")["data"]["dtype"] == "float64"
    away = np.abs(coefficients(tmp_path / "f32.h5") - coefficients(tmp_path / "f64.h5")).max()
    assert 0 < away < 1e-4


def test_duality_gap_bounds_the_distance_to_the_optimum(folder: Path) -> None:
    arguments = "--agents 4 --penalty elastic-net:0.5 --reg 0.1 --iterations 400 --reference --record log:6"
    for record in (report := solve(folder / "sample.h5", arguments))["trace"]:
        for which in ("average", "last"):
            away = record[f"objective_{which}"] - report["objective"]["reference"]
            assert record[f"gap_{which}"] >= away - 1e-12
    assert report["duality_gap"]["last"] < report["trace"][0]["gap_last"] / 20


# --- steps, network, schedule -----------------------------------------------------------------------------


def test_tight_steps(folder: Path) -> None:
    steps = solve(folder / "sample.h5", "--agents 4 --graph ring --steps tight --iterations 5")["steps"]
    with h5py.File(SAMPLE, "r") as file:
        largest = max(np.linalg.norm(file["X"][:, 12 * j : 12 * j + 12], 2) for j in range(4))
    assert steps["rule"] == "tight"
    assert steps["sigma"] * steps["tau"] == pytest.approx(400**2 / (largest**2 + 4.0**2), rel=1e-9)


def test_given_constants_are_recorded(folder: Path) -> None:
    arguments = "--agents 4 --graph ring --chi 40 --laplacian-norm 5 --spectral-gap 1 --radius 3 --iterations 5"
    steps = solve(folder / "sample.h5", arguments)["steps"]
    assert (steps["chi"], steps["D"], steps["delta"], steps["R"]) == (40, 5, 1, 3)
    assert {steps["sources"][name] for name in ("chi", "D", "delta", "R")} == {"given"}


@pytest.mark.parametrize(
    "constant, reason", [("--chi=29", "||X||"), ("--laplacian-norm=3", "||L||"), ("--spectral-gap=2.1", "gap")]
)
def test_no_bound_from_constants_that_are_none(folder: Path, constant: str, reason: str) -> None:
    arguments = "--agents 4 --graph ring --loss huber:1 --reference --iterations 5 --force-steps"
    report = solve(folder / "sample.h5", arguments, constant)
    assert report["bound"] is None and reason in report["bound_why_not"]


def test_a_primal_weight_is_held_and_part_of_the_result(folder: Path, tmp_path: Path) -> None:
    common = (folder / "sample.h5", "--agents 4 --graph ring --method fast --skip-existing --out", tmp_path / "1.h5")
    for weight in (2.0, 0.5):  # another weight is another run, which a finished result does not stand for
        report = solve(*common, "--force", "--primal-weight", weight)
        assert report["steps"]["weight"] == weight and report["stop_reason"] == "tolerance"
    assert solve(*common, "--force")["steps"]["weight"] not in (2.0, 0.5)


def test_seeds_reproduce_and_attempts_are_recorded(folder: Path, tmp_path: Path) -> None:
    seed = next(s for s in range(100) if build_network("er:0.3", 8, s).attempt > 0)
    common = ["--agents", 8, "--graph", "er:0.3", "--iterations", 20, "--out"]
    first = solve(folder / "sample.h5", "--seed", seed, *common, tmp_path / "1.h5")
    solve(folder / "sample.h5", "--seed", seed, *common, tmp_path / "2.h5")
    assert first["graph"]["attempt"] == build_network("er:0.3", 8, seed).attempt > 0
    np.testing.assert_array_equal(coefficients(tmp_path / "1.h5"), coefficients(tmp_path / "2.h5"))


def test_weights_of_a_graph_file(folder: Path) -> None:
    path = folder / "edges.txt"
    path.write_text("# three agents\n0 1 2.5\n1 2 0.25\n")
    L = np.array([[2.5, -2.5, 0], [-2.5, 2.75, -0.25], [0, -0.25, 0.25]])
    common = ["--agents", 3, "--graph", f"file:{path}", "--iterations", 5, "--weights"]
    graph = solve(folder / "sample.h5", *common, "file")["graph"]
    values = np.linalg.eigvalsh(L)
    assert graph["laplacian_norm"] == pytest.approx(values[2], rel=1e-9)
    assert graph["spectral_gap"] == pytest.approx(values[1], rel=1e-6)
    third = solve(folder / "sample.h5", *common, "metropolis")["graph"]
    assert third["laplacian_norm"] == pytest.approx(1.0) and third["weights"] == "metropolis"


def test_compression_leaves_the_answer(folder: Path, tmp_path: Path) -> None:
    common = ["--agents", 4, "--graph", "star", "--iterations", 100, "--reference", "--out"]
    plain = solve(folder / "sample.h5", *common, tmp_path / "1.h5")
    small = solve(folder / "sample.h5", "--compress", "on", *common, tmp_path / "2.h5")
    assert small["compressed"] is True and plain["compressed"] is False and small["data"]["n"] == 400
    assert small["objective"]["last"] == pytest.approx(plain["objective"]["last"], rel=1e-10)
    for which in ("average", "last"):
        first, second = (coefficients(tmp_path / f"{k}.h5", which) for k in (1, 2))
        np.testing.assert_allclose(first, second, atol=1e-10)


def test_schedules_and_threads_give_the_same_bits(folder: Path, tmp_path: Path) -> None:
    ways = [["--schedule", "tiles", "--threads", 1], ["--schedule", "agents"]]
    for k, way in enumerate(ways):
        arguments = ["--agents", 7, "--graph", "ring", "--iterations", 40, *way, "--out", tmp_path / f"{k}.h5"]
        assert solve(folder / "sample.h5", *arguments)["schedule"] == way[1]
    np.testing.assert_array_equal(coefficients(tmp_path / "0.h5"), coefficients(tmp_path / "1.h5"))
