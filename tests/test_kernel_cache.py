"""Compiled kernels on disk: damaged files, processes that start together, and that nothing is compiled twice."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from cli_tools import coefficients, command_line, environment, fdglm, solve, write_problem

from fdglm_fast.job import Job, run
from fdglm_fast.kernels import evaluate, iterate, pack, penalties
from fdglm_fast.kernels._jit import cache_folder, source_hash
from fdglm_fast.kernels.arrays import most_threads
from fdglm_fast.kernels.compile import _READY, _is_readable, prepare
from fdglm_fast.network import build_network
from fdglm_fast.options import Options
from fdglm_fast.problem import Problem
from fdglm_fast.solver import solve as solve_problem

ARGUMENTS = "--agents 3 --graph ring --penalty l1 --reg 0.01 --iterations 30"
compiled = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A problem, and its solution from the cache that everybody uses."""
    path = tmp_path_factory.mktemp("problem") / "p.h5"
    write_problem(path)
    solve(path, ARGUMENTS, "--out", path.with_name("wanted.h5"))
    return path


def private_copy(folder: Path) -> Path:
    """A cache of our own with all that is in everybody's; the kernels' folder in it."""
    kernels = folder / "fdglm" / source_hash()
    shutil.copytree(cache_folder(), kernels, ignore=shutil.ignore_patterns("*.tmp.*"))
    return kernels


DAMAGE = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "noise": lambda content: np.random.default_rng(len(content)).bytes(len(content)),
}


@compiled
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_cache_is_mended(problem: Path, tmp_path: Path, suffix: str, damage: str) -> None:
    """The files of one kernel are spoiled; the run compiles that kernel again, and is right."""
    kernels = private_copy(tmp_path)
    victims = list(kernels.rglob(f"pack.pack-*{suffix}"))
    assert victims
    for path in victims:
        path.write_bytes(DAMAGE[damage](path.read_bytes()))
    others = {path: path.stat().st_mtime_ns for path in kernels.rglob("iterate.*.nb?")}
    out = tmp_path / "r.h5"
    done = fdglm("solve", problem, ARGUMENTS, "--out", out, "--quiet", XDG_CACHE_HOME=str(tmp_path))
    assert done == (0, "", "")
    np.testing.assert_array_equal(coefficients(out), coefficients(problem.with_name("wanted.h5")))
    assert (kernels / "float64-tiles.ready").exists() and any(_is_readable(path) for path in victims)
    assert {path: path.stat().st_mtime_ns for path in kernels.rglob("iterate.*.nb?")} == others


@compiled
def test_processes_that_start_together_with_an_empty_cache(problem: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"{k}.h5" for k in range(3)]
    processes = [
        subprocess.Popen(
            command_line("solve", problem, ARGUMENTS, "--quiet", "--out", out),
            env=environment(XDG_CACHE_HOME=str(tmp_path)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for out in outputs
    ]
    for process in processes:
        said, _ = process.communicate(timeout=600)
        assert (process.returncode, said) == (0, b"")
    for out in outputs:
        for which in ("average", "last"):
            wanted = coefficients(problem.with_name("wanted.h5"), which)
            np.testing.assert_array_equal(coefficients(out, which), wanted)


@compiled
def test_predictions_compile_under_the_lock_too(problem: Path, tmp_path: Path) -> None:
    words = ("predict", problem.with_name("wanted.h5"), problem, "--json")
    cold, warm = (fdglm(*words, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2))
    assert cold == warm and cold.code == 0
    assert (tmp_path / "fdglm" / source_hash() / "values.ready").exists()


def kernels() -> dict[str, Any]:
    """Every compiled routine that Python code calls, by name."""
    modules = (evaluate, iterate, pack, penalties)
    found = {f"{m.__name__}.{name}": value for m in modules for name, value in vars(m).items()}
    return {name: value for name, value in found.items() if hasattr(value, "nopython_signatures")}


LOSSES = ["squared", "huber:1", "absolute", "quantile:0.3", "logistic", "hinge", "squared-hinge", "poisson"]
PENALTIES = ["none", "l1", "l2", "elastic-net:0.5", "group-l2", "nonneg", "box:-1:1"]
GRAPHS = [("complete", 4, "unit"), ("star", 5, "metropolis"), ("rgg:0.9", 4, "unit"), ("regular:2", 5, "metropolis")]


def solve_one(loss: str, penalty: str, graph: str, agents: int, weights: str) -> None:
    rng = np.random.default_rng(agents)
    X = rng.standard_normal((70, 10))
    y = rng.integers(0, 2, 70) if loss != "squared" else rng.standard_normal(70)
    weighted = penalty not in ("none", "nonneg", "box:-1:1")
    groups = np.arange(10) % agents
    model = {"loss": loss, "penalty": penalty, "reg": 0.1 if weighted else 0.0, "groups": groups}
    problem = Problem.from_arrays(X, y, agents=agents, owner=groups, **model)
    network = build_network(graph, agents, 1, weights) if agents > 1 else None
    solve_problem(problem, network, options=Options(iterations=3, record="every:1", tol=1e-9))


def check_that_nothing_is_compiled() -> None:
    """After `prepare`, no loss, penalty or graph needs a kernel for other types of arguments."""
    prepare("float64", "tiles")
    before = {name: len(routine.nopython_signatures) for name, routine in kernels().items()}
    assert before["fdglm_fast.kernels.iterate.iterate_tiles"] == 1 and before["fdglm_fast.kernels.pack.pack"] == 1
    for loss in LOSSES:
        for penalty in PENALTIES:
            solve_one(loss, penalty, "ring", 4, "unit")
    for graph, agents, weights in [*GRAPHS, ("complete", 1, "unit")]:
        solve_one("squared", "l2", graph, agents, weights)
    assert {name: len(routine.nopython_signatures) for name, routine in kernels().items()} == before


def check_that_the_chosen_schedule_is_prepared(path: str) -> None:
    """With two threads and one tile of samples `auto` means agents, and their kernels are compiled under the lock."""
    outcome = run(Job(path, 3), Options(iterations=1, threads=2))
    assert outcome.result.schedule == "agents" and "float64-agents" in _READY


def in_a_new_process(call: str) -> None:
    command = [sys.executable, "-c", f"import test_kernel_cache as t; t.{call}"]
    done = subprocess.run(command, cwd=Path(__file__).parent, env=environment(), capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr.decode()


@compiled
def test_after_preparing_nothing_is_compiled() -> None:
    in_a_new_process("check_that_nothing_is_compiled()")


@compiled
@pytest.mark.skipif(most_threads() < 2, reason="needs two threads")
def test_the_schedule_that_auto_chooses_is_prepared(tmp_path: Path) -> None:
    write_problem(tmp_path / "p.h5", n=20)
    in_a_new_process(f"check_that_the_chosen_schedule_is_prepared({str(tmp_path / 'p.h5')!r})")
