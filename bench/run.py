"""All cases of a run, one after the other, the report saved after each: a crash loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fdglm_bench.cases import DTYPES, Case
from fdglm_bench.measure import Effort, measure_case
from fdglm_bench.scaling import Point, measure_point
from fdglm_fast.errors import DataError
from fdglm_fast.files import atomic_text, printable

Say = Callable[[str], None]
AGREE = {"f64": 1e-9, "f32": 1e-3}  # how far the rival's theta may be from the solver's


@dataclass(frozen=True)
class Plan:
    """What a run measures and how."""

    samples: int
    features: int
    schedule: str
    effort: Effort
    command: str


def run_cases(plan: Plan, cases: list[Case], save: Callable[[dict[str, Any]], None], say: Say) -> dict[str, Any]:
    """Measure the cases; `save` gets the report as it stands after each of them."""
    from fdglm_bench.data import Data, make_data

    report = _start(plan, sorted({case.dtype for case in cases}), say)
    report["cases"] = []
    data: tuple[str, Data] | None = None
    for number, case in enumerate(cases, start=1):
        if data is None or data[0] != case.dtype:
            data = None  # not two at once
            data = (case.dtype, make_data(plan.samples, plan.features, DTYPES[case.dtype]))
        row = measure_case(data[1], case, plan.schedule, plan.effort)
        report["cases"].append(row)
        _finish(report, save)
        say(f"{number}/{len(cases)}  {case}: {_line(row)}")
        if row["numpy"]["difference"] > AGREE[case.dtype]:
            say(f"warning: NumPy's iterates differ from the solver's by {row['numpy']['difference']:.2g}")
    return report


def run_scaling(
    plan: Plan, points: list[Point], threads: int, save: Callable[[dict[str, Any]], None], say: Say
) -> dict[str, Any]:
    """Measure the points of the scaling figure, like `run_cases`."""
    report = _start(plan, ["f64"], say)
    report["scaling"] = []
    for number, point in enumerate(points, start=1):
        row = measure_point(point, plan.schedule, threads, plan.effort)
        report["scaling"].append(row)
        _finish(report, save)
        say(f"{number}/{len(points)}  {point}: solver {row['solver_ms']:.3g} ms, limit {row['limit_ms']:.3g} ms")
    return report


def run_overhead(plan: Plan, cases: list[Case], save: Callable[[dict[str, Any]], None], say: Say) -> dict[str, Any]:
    """Measure what checkpoints and finite checks cost in each case, like `run_cases`."""
    from fdglm_bench.data import make_data
    from fdglm_bench.overhead import measure_overhead

    report = _start(plan, sorted({case.dtype for case in cases}), say)
    report["overhead"] = []
    for number, case in enumerate(cases, start=1):
        data = make_data(plan.samples, plan.features, DTYPES[case.dtype])
        rows = measure_overhead(data, case, plan.schedule, plan.effort)
        report["overhead"] += rows
        _finish(report, save)
        shares = ", ".join(f"{row['what']} {100.0 * row['share']:.3f} %" for row in rows)
        say(f"{number}/{len(cases)}  {case}: {shares}")
    return report


def saver(path: str | None, force: bool) -> Callable[[dict[str, Any]], None]:
    """Writes a report to `path`, if there is one; a file that this run made is replaced without asking."""
    mine = force

    def save(report: dict[str, Any]) -> None:
        nonlocal mine
        if path is None:
            return
        with atomic_text(path, mine) as stream:
            json.dump(report, stream, indent=1, allow_nan=False)
            stream.write("\n")
        mine = True

    return save


def load_report(path: str) -> dict[str, Any]:
    """A report that an earlier run saved."""
    from fdglm_bench.table import case_cells, overhead_cells, scaling_cells

    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
        for row in report.get("cases", []):
            case_cells(row)
        for row in report.get("scaling", []):
            scaling_cells(row)
        for row in report.get("overhead", []):
            overhead_cells(row)
        if not (report.get("cases") or report.get("scaling") or report.get("overhead")):
            raise ValueError
    except OSError as error:
        raise DataError(f"'{printable(path)}' cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"'{printable(path)}' is not a report of fdglm bench.") from error
    assert isinstance(report, dict)
    return report


def _start(plan: Plan, dtypes: list[str], say: Say) -> dict[str, Any]:
    """Compile, and begin a report."""
    from fdglm_fast.kernels.compile import prepare

    for dtype in dtypes:
        prepare(DTYPES[dtype], "agents" if plan.schedule == "agents" else "tiles", notify=say)
    return {
        "command": plan.command,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": None,
        "samples": plan.samples,
        "features": plan.features,
        "schedule": plan.schedule,
        "rounds": plan.effort.rounds,
    }


def _finish(report: dict[str, Any], save: Callable[[dict[str, Any]], None]) -> None:
    from fdglm_bench.machine import machine_facts

    # The threading layer is known when a kernel has run.
    report["machine"] = report["machine"] or machine_facts()
    save(report)


def _line(row: dict[str, Any]) -> str:
    return (
        f"solver {row['solver_ms']:.3g} ms, {row['share_of_limit']:.2f} of the limit, "
        f"NumPy {row['numpy_ms']:.3g} ms, {row['times_numpy']:.2f} times"
    )
