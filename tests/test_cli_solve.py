"""`fdglm solve` in real processes: its JSON, its files, and what its options do to the numbers."""

from __future__ import annotations

import csv
import itertools
import json
import math
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from cli_tools import SAMPLE, coefficients, fdglm, snapshot, solve, strict_json

from fdglm_fast import __version__
from fdglm_fast.network import build_network

REAL = (int, float)
# Every key that the issue lists, with the types of its value in a run with several agents and a reference.
KEYS: dict[str, Any] = {
    "data": {"path": str, "n": int, "d": int, "dtype": str},
    "agents": int,
    "graph": {
        "spec": str,
        "edges": int,
        "max_degree": int,
        "laplacian_norm": REAL,
        "spectral_gap": REAL,
        "attempt": int,
    },
    "loss": str,
    "penalty": str,
    "steps": {
        "rule": str,
        "sigma": REAL,
        "tau": REAL,
        "rho": REAL,
        "chi": REAL,
        "D": REAL,
        "delta": REAL,
        "R": REAL,
    },
    "iterations": int,
    "stop_reason": str,
    "objective": {"average": REAL, "last": REAL, "reference": REAL},
    "relative_error": {"average": REAL, "last": REAL},
    "residual": {"average": REAL, "last": REAL},
    "bound": REAL,
    "trace": list,
    "time": {
        "load": REAL,
        "setup": REAL,
        "compile": REAL,
        "iterate": REAL,
        "checkpoint": REAL,
        "per_iteration_ms": REAL,
    },
    "threads": int,
    "version": str,
}
RECORD = (
    "iteration",
    "objective_average",
    "objective_last",
    "relative_error_average",
    "relative_error_last",
    "seconds",
)


def check_keys(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key, kind in wanted.items():
        assert key in found, key
        if isinstance(kind, dict):
            check_keys(found[key], kind)
        else:
            assert isinstance(found[key], kind) and not isinstance(found[key], bool), (key, found[key])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the sample, whose reference is cached beside it."""
    path = tmp_path_factory.mktemp("solve")
    shutil.copy(SAMPLE, path / "sample.h5")
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> dict[str, Any]:
    """One run whose bound is in force at its end, with every output."""
    arguments = "--agents 6 --graph er:0.5 --seed 4 --iterations 3000 --reference --tag who=me --tag a=b=c"
    outputs = ["--out", folder / "result.h5", "--trace", folder / "trace.csv"]
    done = fdglm("solve", folder / "sample.h5", arguments, *outputs, "--json")
    assert done.code == 0, done
    assert done.out.count("\n") == 1, "one line, one object"
    assert all(line.startswith("fdglm: ") for line in done.err.splitlines())
    report: dict[str, Any] = strict_json(done.out)
    return report


# --- JSON -------------------------------------------------------------------------------------------------


def test_json_has_every_key_of_its_type(run: dict[str, Any], folder: Path) -> None:
    check_keys(run, KEYS)
    assert run["data"]["path"] == str(folder / "sample.h5") and run["data"]["dtype"] == "float64"
    assert (run["data"]["n"], run["data"]["d"]) == (400, 48)
    assert (run["agents"], run["loss"], run["penalty"], run["version"]) == (6, "squared", "none", __version__)
    assert (run["iterations"], run["stop_reason"]) == (3000, "iterations")
    assert run["tags"] == {"who": "me", "a": "b=c"}


def test_json_agrees_with_the_network(run: dict[str, Any]) -> None:
    network = build_network("er:0.5", 6, 4)
    graph = run["graph"]
    assert graph["edges"] == len(network.edges) and graph["max_degree"] == network.max_degree
    assert graph["laplacian_norm"] == pytest.approx(network.laplacian_norm)
    assert graph["spectral_gap"] == pytest.approx(network.spectral_gap)
    assert graph["attempt"] == network.attempt


def test_trace_records(run: dict[str, Any]) -> None:
    trace = run["trace"]
    for record in trace:
        assert set(RECORD) <= set(record)
        assert all(isinstance(record[name], REAL) for name in RECORD)
    when = [record["iteration"] for record in trace]
    assert when[0] == 1 and when[-1] == 3000 and when == sorted(set(when)) and len(when) > 40
    assert all(b["seconds"] >= a["seconds"] for a, b in itertools.pairwise(trace))
    for name in ("objective", "relative_error", "residual"):
        assert run[name]["average"] == trace[-1][f"{name}_average"]
        assert run[name]["last"] == trace[-1][f"{name}_last"]
    assert run["bound"] == trace[-1]["bound"] and trace[0]["bound"] is None  # too early for the theorem


def test_numbers_are_those_of_the_coefficients(run: dict[str, Any], folder: Path) -> None:
    with h5py.File(SAMPLE, "r") as file:
        X, y = file["X"][...], file["y"][...]
    best = float(np.mean((X @ np.linalg.lstsq(X, y)[0] - y) ** 2) / 2)
    zero = float(np.mean(y**2) / 2)
    assert run["objective"]["reference"] == pytest.approx(best, rel=1e-12)
    for which in ("average", "last"):
        theta = coefficients(folder / "result.h5", which)
        value = float(np.mean((X @ theta - y) ** 2) / 2)
        assert run["objective"][which] == pytest.approx(value, rel=1e-12)
        assert run["relative_error"][which] == pytest.approx((value - best) / (zero - best), rel=1e-6)
    assert run["objective"]["average"] - best <= run["bound"]


def test_theorem_steps_follow_their_formula(run: dict[str, Any]) -> None:
    steps, n, m = run["steps"], 400, 6
    chi, D, delta, R, rho = (steps[name] for name in ("chi", "D", "delta", "R", "rho"))
    with h5py.File(SAMPLE, "r") as file:
        assert chi == pytest.approx(np.linalg.norm(file["X"][...], 2), rel=1e-9)
    assert rho == pytest.approx(math.sqrt(2)) and steps["sources"]["R"] == "reference"
    sigma = math.sqrt(m) * n**1.5 * rho / ((chi + D) * R * math.sqrt(1 + 2 * chi**2 / delta**2))
    assert steps["sigma"] == pytest.approx(sigma)
    assert steps["tau"] == pytest.approx(n**2 / ((chi + D) ** 2 * sigma))


def test_what_is_unknown_is_null(folder: Path) -> None:
    report = solve(folder / "sample.h5", "--agents", 3, "--iterations", 20)
    assert report["objective"]["reference"] is None and report["bound"] is None
    assert report["relative_error"] == {"average": None, "last": None}
    assert report["trace"][-1]["relative_error_average"] is None and report["trace"][-1]["bound"] is None
    assert report["duality_gap"] == {"average": None, "last": None}  # no penalty, no dual point
    assert "--reference" in report["bound_why_not"]
    assert report["steps"]["sources"]["R"].startswith("estimate")
    assert report["graph"]["spec"] == "complete"


# --- files ------------------------------------------------------------------------------------------------


def test_result_file(run: dict[str, Any], folder: Path) -> None:
    with h5py.File(folder / "result.h5", "r") as file:
        assert file.attrs["format"] == "fdglm-result"
        assert file["theta_average"].shape == file["theta_last"].shape == (48,)
        assert json.loads(file["run"].asstr()[()]) == run
        assert file["feature_names"].asstr()[0] == "sensor1_channel1"
        for name in run["trace"][0]:
            stored = file[f"trace/{name}"][...]
            wanted = np.array([math.nan if r[name] is None else r[name] for r in run["trace"]], dtype=float)
            np.testing.assert_array_equal(stored, wanted)


def test_result_file_has_what_is_needed_to_run_again(run: dict[str, Any], folder: Path) -> None:
    with h5py.File(folder / "result.h5", "r") as file:
        stored = json.loads(file["run"].asstr()[()])
    assert set(stored["versions"]) >= {"python", "numba", "numpy", "scipy", "h5py"}
    options = stored["options"]
    assert options["seed"] == 4 and options["record"] == "log:60" and options["x"] == "X"
    again = ["--agents", options["agents"], "--graph", options["graph"], "--seed", options["seed"]]
    again += ["--sigma", stored["steps"]["sigma"], "--tau", stored["steps"]["tau"]]
    out = folder / "again.h5"
    solve(options["data"], *again, "--iterations", options["iterations"], "--out", out)
    for which in ("average", "last"):
        np.testing.assert_array_equal(coefficients(out, which), coefficients(folder / "result.h5", which))


def test_trace_file(run: dict[str, Any], folder: Path) -> None:
    with open(folder / "trace.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == list(run["trace"][0])
    read = [{name: float(text) if text else None for name, text in row.items()} for row in rows]
    assert read == run["trace"]  # every digit


def test_reference_is_cached_beside_the_data(run: dict[str, Any], folder: Path) -> None:
    cache = folder / "sample.h5.reference.h5"
    before = cache.read_bytes()
    again = fdglm("solve", folder / "sample.h5", "--agents 2 --iterations 5 --reference --json")
    assert again.code == 0 and "centrally" not in again.err
    assert strict_json(again.out)["objective"]["reference"] == run["objective"]["reference"]
    assert cache.read_bytes() == before
    other = fdglm("solve", folder / "sample.h5", "--agents 2 --iterations 5 --reference --penalty l2 --reg 1 --json")
    assert "centrally" in other.err
    assert strict_json(other.out)["objective"]["reference"] > run["objective"]["reference"]


def test_outputs_are_replaced_when_forced(folder: Path) -> None:
    out, trace = folder / "old.h5", folder / "old.csv"
    out.write_text("old")
    trace.write_text("old")
    solve(folder / "sample.h5", "--agents 2 --iterations 3 --force", "--out", out, "--trace", trace)
    assert coefficients(out).shape == (48,) and trace.read_text().startswith("iteration,")


# --- recording, printing ----------------------------------------------------------------------------------


def test_record_rules_do_not_change_the_iterates(folder: Path) -> None:
    found = {}
    for rule in ("every:7", "log:4"):
        out = folder / f"{rule}.h5"
        arguments = ["--agents", 4, "--graph", "ring", "--iterations", 20, "--record", rule, "--out", out]
        report = solve(folder / "sample.h5", *arguments)
        found[rule] = [record["iteration"] for record in report["trace"]]
    assert found == {"every:7": [7, 14, 20], "log:4": [1, 3, 7, 20]}
    for which in ("average", "last"):
        np.testing.assert_array_equal(*[coefficients(folder / f"{rule}.h5", which) for rule in found])


def test_quiet_prints_nothing_and_without_outputs_nothing_is_written(folder: Path) -> None:
    before = snapshot(folder)
    assert fdglm("solve", folder / "sample.h5", "--agents 2 --iterations 5 --quiet") == (0, "", "")
    assert snapshot(folder) == before


def test_quiet_with_json_prints_json_only(folder: Path) -> None:
    done = fdglm("solve", folder / "sample.h5", "--agents 2 --iterations 5 --quiet --json --compress on")
    assert done.code == 0 and done.err == "" and strict_json(done.out)["iterations"] == 5


def test_summary_in_a_pipe(folder: Path) -> None:
    done = fdglm("solve", "sample.h5", "--agents 5 --graph star --iterations 40 --reference", cwd=folder)
    assert done.code == 0 and "\x1b" not in done.out + done.err and "━" not in done.out + done.err
    assert max(map(len, done.out.splitlines())) <= 80
    for words in ("400 samples x 48 features", "5 on star", "4 edges", "all 40 iterations done", "relative error"):
        assert words in done.out
    assert all(line.startswith("fdglm: ") for line in done.err.splitlines())
