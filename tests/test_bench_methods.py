"""The benchmark of methods: its problems, its runs as files, and what its table makes of them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fdglm_bench.method_cases import DESIGNS, MODELS, Case, Size, Task, _draw, cases_of, make_problem
from fdglm_bench.method_runs import TARGETS, Plan, read_runs, run_case, run_task
from fdglm_bench.method_table import NOT_JUDGED, as_csv, as_markdown, conclusions, failures, rows_of
from fdglm_bench.methods import main
from fdglm_fast.network import build_network
from fdglm_fast.options import Options
from fdglm_fast.solver import solve

SMALL = Size(samples=40, features=8, iterations=300)


def test_the_whole_grid_has_names_of_its_own() -> None:
    tasks = [Task(model, design, seed) for model in MODELS for design in DESIGNS for seed in (0, 1, 2)]
    names = {
        case.file_name
        for task in tasks
        for case in cases_of(task, (16, 64, 256), ("star", "er:0.1", "rgg"), ("paper", "fast"))
    }
    assert len(names) == len(tasks) * 18 and not any("/" in name or ":" in name for name in names)


def test_columns_of_each_design() -> None:
    size = Size(samples=2000, features=12)
    plain, correlated, scaled = (_draw(Task("least-squares", design, 3), MODELS["least-squares"], size)[0]
                                 for design in DESIGNS)  # fmt: skip
    assert np.corrcoef(correlated, rowvar=False)[0, 1] == pytest.approx(0.9, abs=0.03)
    assert abs(np.corrcoef(plain, rowvar=False)[0, 1]) < 0.1
    factors = (scaled / plain)[0]
    np.testing.assert_allclose(scaled, plain * factors, rtol=1e-12)
    assert factors.max() / factors.min() > 10.0 and factors.min() >= 10**-1.5 and factors.max() <= 10**1.5


@pytest.mark.parametrize("model", MODELS)
def test_every_model_can_be_made_and_run_by_both_methods(model: str) -> None:
    ready = make_problem(Task(model, "gaussian", 0), SMALL)
    assert ready.problem.compressed == (MODELS[model].loss == "squared")
    if MODELS[model].sparse:
        assert 0 < np.count_nonzero(np.abs(ready.reference.theta) > 1e-12) < 8  # neither all nor nothing
    found = {how: run_case(ready, Case(model, "gaussian", "ring", 4, 0, how), SMALL) for how in ("paper", "fast")}
    assert all("failed" not in each and each["iterations"] <= 300 for each in found.values()), found
    assert found["fast"]["least_error"] < found["paper"]["least_error"] < 1.0


def test_a_run_ends_at_the_last_target() -> None:
    """One network where the paper's method gets there within 20,000 iterations, which it need not use up."""
    ready = make_problem(Task("least-squares", "gaussian", 0), SMALL)
    case = Case("least-squares", "gaussian", "complete", 2, 0, "paper")
    found = run_case(ready, case, Size(40, 8, 20_000))
    reached = [found["to"][f"{target:g}"] for target in TARGETS]
    assert all(reached) and found["iterations"] < 20_000
    assert [each["iterations"] for each in reached] == sorted(each["iterations"] for each in reached)
    assert found["least_error"] <= 1e-8 and reached[2]["iterations"] <= found["iterations"]
    per_iteration = {each["bytes"] / each["iterations"] for each in reached}
    assert per_iteration == {2 * 2 * 40 * 8.0}  # two agents send lambda and u, 40 numbers of 8 bytes


def test_a_network_that_cannot_be_drawn_is_a_finding() -> None:
    ready = make_problem(Task("least-squares", "gaussian", 0), SMALL)
    found = run_case(ready, Case("least-squares", "gaussian", "er:0.001", 8, 0, "paper"), SMALL)
    assert "connected" in found["failed"]


def test_runs_are_kept(tmp_path: Path) -> None:
    plan = Plan(str(tmp_path), SMALL, (2, 4), ("ring",), ("paper",))
    task = Task("huber", "gaussian", 0)
    assert len(plan.missing(task)) == 2
    assert run_task(plan, task) == (2, 0)
    assert plan.missing(task) == [] and run_task(plan, task)[0] == 0
    assert [run["agents"] for run in read_runs(str(tmp_path))] == [2, 4]
    (tmp_path / plan.missing(Task("huber", "gaussian", 1))[0].file_name).write_text("{}")
    assert len(plan.missing(Task("huber", "gaussian", 1))) == 1


# --- the table ----------------------------------------------------------------------------------------------


def made(method: str, iterations: list[int | None], *, seed: int = 0, ms: float = 1.0, **more: Any) -> dict[str, Any]:
    """A run that reached the targets after so many iterations, at 100 bytes (paper) or 50 an iteration."""
    width = 100 if method == "paper" else 50
    to = {
        f"{t:g}": None if k is None else {"iterations": k, "bytes": k * width, "seconds": k * ms / 1e3}
        for t, k in zip(TARGETS, iterations, strict=True)
    }
    case = Case("lasso", "gaussian", more.pop("graph", "star"), 16, seed, method).as_json()
    return {**case, "size": vars(SMALL), "to": to, "iterations": 20_000, "least_error": 1e-5, "ms_per_iteration": ms,
            **more}  # fmt: skip


def test_medians_ratios_and_verdicts() -> None:
    paper = [made("paper", [1000 + 500 * seed, 9000, None], seed=seed) for seed in range(3)]
    fast = [made("fast", [100 + 50 * seed, 200, 300], seed=seed, ms=1.2) for seed in range(3)]
    (row,) = rows_of([*paper, *fast])
    assert row["paper_iterations_0.0001"] == 1500 and row["fast_iterations_0.0001"] == 150
    assert row["iterations_0.0001_ratio"] == pytest.approx(0.1) and row["bytes_0.0001_ratio"] == pytest.approx(0.05)
    assert row["ms_ratio"] == pytest.approx(1.2) and row["verdict"] == "holds"
    assert row["paper_iterations_1e-08"] is None and row["iterations_1e-08_ratio"] is None
    said = " ".join(conclusions([row]))
    assert "1 of 1 cases" in said and "0.05 (holds" in said and "0 of 1 cases above 1.25" in said


@pytest.mark.parametrize(
    ("fast", "fixed", "ratio"),
    [
        ([100, 200, 300], [100, 160, 400], 1.25),
        ([120, 200, 300], [100, None, None], 1.2),
        ([100, 200, None], [1000, 2000, 3000], float("inf")),
        ([100, 200, 300], [None, None, None], None),
    ],
)
def test_what_the_weight_is_worth(fast: list[int | None], fixed: list[int | None], ratio: float | None) -> None:
    """The worst of the targets that a weight of one reaches, and how many cases lose."""
    runs = [made("fast", fast), made("fixed", fixed)]
    (row,) = rows_of(runs)
    assert row["weight_ratio"] == ratio and row["verdict"] == "one method only"
    said = " ".join(conclusions([row]))
    assert (f"in {int(ratio > 1.2)} of 1 cases" in said) if ratio else ("weight of one" not in said)
    assert rows_of(runs[1:])[0]["weight_ratio"] is None and "| – |" in as_markdown([row], runs)


def test_fixed_is_fast_with_a_weight_of_one() -> None:
    ready = make_problem(Task("lasso", "gaussian", 0), SMALL)
    network = build_network("ring", 4)
    found = run_case(ready, Case("lasso", "gaussian", "ring", 4, 0, "fixed"), SMALL)
    same = Options(method="fast", primal_weight=1.0, iterations=SMALL.iterations, tol=1e-13, record="log:240")
    expected = solve(ready.problem.with_agents(4), network, reference=ready.reference, options=same)
    done = [record for record in expected.trace if record.iteration <= found["iterations"]]
    assert found["least_error"] == min(record.relative_error_last for record in done)


@pytest.mark.parametrize(
    ("paper", "fast", "verdict"),
    [
        ([1000, None, None], [201, None, None], "does not hold"),
        ([1000, None, None], [None, None, None], "does not hold"),
        ([1000, None, None], [200, None, None], "holds"),
        ([None, None, None], [200, None, None], NOT_JUDGED),
    ],
)
def test_verdicts(paper: list[int | None], fast: list[int | None], verdict: str) -> None:
    (row,) = rows_of([made("paper", paper), made("fast", fast)])
    assert row["verdict"] == verdict


def test_a_seed_that_does_not_get_there_is_not_left_out() -> None:
    runs = [made("paper", [1000, 2000, None], seed=0), made("paper", [1000, None, None], seed=1)]
    (row,) = rows_of(runs)
    assert row["paper_iterations_0.0001"] == 1000 and row["paper_iterations_1e-06"] is None
    assert row["verdict"] == "one method only"


def test_failures_are_listed() -> None:
    runs = [made("paper", [1000, None, None]), made("fast", [10, 20, 30], failed="it broke")]
    (row,) = rows_of(runs)
    assert row["verdict"] == "failed: fast 1" and row["fast_iterations_0.0001"] is None
    assert failures(runs) == ["lasso, gaussian, star, 16, 0, fast: it broke"]
    text = as_markdown([row], runs)
    assert "## Failures (1)" in text and "it broke" in text and "| failed: fast 1 |" in text


def test_csv_and_markdown() -> None:
    runs = [made("paper", [1000, None, None]), made("fast", [100, 200, None]), made("paper", [7, 8, 9], graph="ring")]
    rows = rows_of(runs)
    assert [row["graph"] for row in rows] == ["star", "ring"]
    read = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert read[0]["paper_iterations_1e-06"] == "" and read[0]["fast_iterations_1e-06"] == "200.0"
    lines = [line for line in as_markdown(rows, runs).splitlines() if line.startswith("|")]
    assert len(lines) == 4 and len({line.count("|") for line in lines}) == 1


def test_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = "--samples 40 --features 8 --iterations 60 --agents 4 --graphs ring --seeds 0 --methods paper --jobs 1"
    words = [str(tmp_path), *size.split(), "--models", "least-squares", "--designs", "gaussian", "scaled"]
    assert main(words) == 0
    runs = sorted((tmp_path / "runs").glob("*.json"))
    assert len(runs) == 2 and (tmp_path / "methods.md").read_text(encoding="utf-8").startswith("n = 40, d = 8")
    before = [path.stat().st_mtime_ns for path in runs]
    assert main([*words, "--table"]) == 0 and main(words) == 0
    assert [path.stat().st_mtime_ns for path in runs] == before
    assert json.loads(runs[0].read_text(encoding="utf-8"))["method"] == "paper"
    assert "cases where" in capsys.readouterr().out
