"""Runs of the benchmark of methods: each is a small JSON file, written as it ends, so that a second call goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fdglm_bench.method_cases import Case, Ready, Size, Task, cases_of, make_problem
from fdglm_fast.errors import FdglmError
from fdglm_fast.files import atomic_text
from fdglm_fast.options import Options

if TYPE_CHECKING:
    from fdglm_fast.evaluate import Point
    from fdglm_fast.solver import Result
    from fdglm_fast.trace import Record

TARGETS = (1e-4, 1e-6, 1e-8)
RECORD = "log:240"  # over 20,000 iterations a record is 4 % further than the one before
TOLERANCE = 1e-13  # out of reach, where a method has a tolerance of its own: runs end at the last target
STRETCH, STRETCHES = 200, 3  # iterations without a record, and how often, for the time of one


@dataclass(frozen=True)
class Plan:
    """What every process needs to know."""

    folder: str
    size: Size
    agents: tuple[int, ...]
    graphs: tuple[str, ...]
    methods: tuple[str, ...]

    def missing(self, task: Task) -> list[Case]:
        cases = cases_of(task, self.agents, self.graphs, self.methods)
        return [case for case in cases if not os.path.exists(self.path(case))]

    def path(self, case: Case) -> str:
        return os.path.join(self.folder, case.file_name)


def run_tasks(plan: Plan, tasks: list[Task], jobs: int, say: Callable[[str], None]) -> None:
    """Do what is missing in several processes of one thread each: small problems gain nothing from more."""
    from fdglm_fast.kernels.compile import prepare

    os.makedirs(plan.folder, exist_ok=True)
    waiting = [task for task in tasks if plan.missing(task)]
    if not waiting:
        return
    prepare("float64", "tiles", reference=True, notify=say)  # once, before several processes want it
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(run_task, plan, task): task for task in waiting}
        for number, future in enumerate(as_completed(futures), start=1):
            done, failed = future.result()
            task = futures[future]
            say(f"{number}/{len(waiting)}  {task.label}: {done} runs" + (f", {failed} failed" if failed else ""))


def run_task(plan: Plan, task: Task) -> tuple[int, int]:
    """The missing runs of one problem; how many there were, and how many failed."""
    from fdglm_fast.kernels.compile import prepare

    cases = plan.missing(task)
    prepare("float64", "tiles")  # loads the kernels into this process, so that no run is timed with that
    try:
        ready = make_problem(task, plan.size)
    except FdglmError as error:
        for case in cases:
            _save(plan, case, {"failed": str(error)})
        return len(cases), len(cases)
    failed = 0
    for case in cases:
        found = run_case(ready, case, plan.size)
        failed += "failed" in found
        _save(plan, case, found)
    return len(cases), failed


def run_case(ready: Ready, case: Case, size: Size) -> dict[str, Any]:
    """One run; a network that cannot be drawn, or iterates that break down, are a finding like any other."""
    from fdglm_fast.network import build_network
    from fdglm_fast.solver import solve

    goal = Goal(ready)

    def run(**how: Any) -> Result:
        options = Options(threads=1, **_method(case.method), **how)
        return solve(ready.problem.with_agents(case.agents), network, reference=ready.reference, options=options)

    try:
        network = build_network(case.graph, case.agents, case.seed)
        result = run(iterations=size.iterations, record=RECORD, progress=goal.look, interrupted=goal.reached)
        stretches = [run(iterations=STRETCH, record=f"every:{STRETCH}") for _ in range(STRETCHES)]
    except FdglmError as error:
        return {"failed": str(error)}
    best = min(one.seconds["iterate"] / max(one.iterations, 1) for one in stretches)
    return {**_measured(result), "ms_per_iteration": 1e3 * best}


def _method(method: str) -> dict[str, Any]:
    if method == "paper":
        return {"method": "paper"}
    return {"method": "fast", "tol": TOLERANCE, **({"primal_weight": 1.0} if method == "fixed" else {})}


class Goal:
    """Ends a run at the last target: the rest of its iterations would say nothing."""

    def __init__(self, ready: Ready) -> None:
        from fdglm_fast.evaluate import Evaluator

        self._best = ready.reference.objective
        self._scale = Evaluator(ready.problem).objective_at_zero() - self._best
        self._done = False

    def look(self, iteration: int, point: Point | None) -> None:
        if point is not None and point.objective - self._best <= min(TARGETS) * self._scale:
            self._done = True

    def reached(self) -> bool:
        return self._done


def _error(record: Record) -> float:
    """The smaller of the average's and the last iterate's relative error: the paper's method gets its better one."""
    known = [e for e in (record.relative_error_average, record.relative_error_last) if e is not None]
    return min(known, default=float("inf"))


def _measured(result: Result) -> dict[str, Any]:
    """What the table needs of a run: iterations, bytes and seconds to each target."""
    to: dict[str, dict[str, float] | None] = {}
    for target in TARGETS:
        first = next((record for record in result.trace if _error(record) <= target), None)
        to[f"{target:g}"] = (
            {"iterations": first.iteration, "bytes": first.bytes_sent, "seconds": first.seconds} if first else None
        )
    broken = result.stop_reason.value == "not-finite"
    return {
        **({"failed": f"not finite after iteration {result.iterations}"} if broken else {}),
        "to": to,
        "iterations": result.iterations,
        "least_error": min(_error(record) for record in result.trace),
    }


def _save(plan: Plan, case: Case, found: dict[str, Any]) -> None:
    with atomic_text(plan.path(case), force=True) as stream:
        json.dump({**case.as_json(), "size": vars(plan.size), **found}, stream, indent=1)
        stream.write("\n")


def read_runs(folder: str) -> Iterator[dict[str, Any]]:
    """Every run that a folder holds, by the names of the files."""
    for path in sorted(Path(folder).glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))
