"""Methods beside each other: what each needs, on the same network, until the error is small; errors at equal cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fdglm_fast.report.axes import BYTES, ITERATIONS, OPERATIONS, SECONDS, Axis
from fdglm_fast.report.study import Array, Study
from fdglm_fast.report.table import Cell, Column, Table, plain, whole
from fdglm_fast.runs import PAPER, SINGLE, Run

TARGETS = (1e-4, 1e-6, 1e-8)
COSTS: dict[str, Axis] = {"iterations": ITERATIONS, "operations": OPERATIONS, "bytes": BYTES}
_WHO = (Column("graph", "network"), Column("agents", "m", whole), Column("seed", "seed"), Column("method", "method"))


def better(study: Study, run: Run) -> Array:
    """The measure at each record, of the average or of the last iterate, whichever is smaller."""
    average = study.measure.column
    return np.fmin(run.column(average), run.column(average.removesuffix("average") + "last"))


def reached(study: Study, run: Run, target: float) -> float | None:
    """The iteration of the first record that is at `target` or below."""
    low = np.flatnonzero(better(study, run) <= target)
    return float(run.column("iteration")[low[0]]) if low.size else None


def spent(study: Study, run: Run, axis: Axis, target: float) -> float | None:
    """What a run has spent on an axis until then."""
    iteration, width = reached(study, run, target), axis.width(run)
    if iteration is None or width is None or not math.isfinite(width):
        return None
    return iteration * width


def method_table(study: Study) -> Table | None:
    """Each network that another method than the paper's was run on too, at each target; None where there is none."""
    rows = [_row(study, *pair, target) for pair in _pairs(study) for target in TARGETS]
    if not rows:
        return None
    columns = [*_WHO, Column("target", study.measure.name)]
    for name in COSTS:
        show = plain if name == "operations" else whole
        columns.append(Column(f"{name}_paper", f"{name}, paper", show))
        columns.append(Column(f"{name}_other", f"{name}, method", show))
        columns.append(Column(f"{name}_ratio", "ratio"))
    columns += [Column(f"seconds_{name}_ratio", f"ratio of {axis.label}") for name, axis in SECONDS.items()]
    note = (
        f"What the paper's method and the other spend until the {study.measure.name} of the average or of the last "
        "iterate is at the target or below, at the first record where it is, and the other's share of the paper's. "
        "Operations are per agent, in iterations of a single agent; bytes are of all agents. – where a run does not "
        "get there."
    )
    return Table("methods", "Methods beside each other", tuple(columns), rows, note)


def equal_table(study: Study) -> Table | None:
    """The errors of the methods where they have spent the same, on every axis; None where there is one method."""
    axes = [ITERATIONS, OPERATIONS, BYTES, *SECONDS.values()]
    rows = [row for pair in _pairs(study) for axis in axes if (row := _equal(study, *pair, axis))]
    if not rows:
        return None
    columns = (
        *_WHO,
        Column("axis", "at equal"),
        Column("spent", "spent"),
        Column("paper", f"{study.measure.name}, paper"),
        Column("other", f"{study.measure.name}, method"),
    )
    note = (
        "Where the run that ends first on an axis has ended, the other is taken at its last record before that; the "
        "average or the last iterate, whichever is better."
    )
    return Table("equal", "Methods at equal cost", columns, rows, note)


def _equal(study: Study, paper: Run, other: Run, axis: Axis) -> dict[str, Cell] | None:
    widths = [axis.width(run) for run in (paper, other)]
    if not all(width and math.isfinite(width) for width in widths):
        return None
    ends = [run.iterations * (width or 0.0) for run, width in zip((paper, other), widths, strict=True)]
    row: dict[str, Cell] = {**_who(other), "axis": axis.label, "spent": min(ends)}
    for name, run, width in zip(("paper", "other"), (paper, other), widths, strict=True):
        done = np.flatnonzero(run.column("iteration") * (width or 0.0) <= min(ends) * (1.0 + 1e-9))
        value = float(better(study, run)[done[-1]]) if done.size else math.nan
        row[name] = value if math.isfinite(value) else None
    return row


def _pairs(study: Study) -> Iterator[tuple[Run, Run]]:
    """A run of the paper's method and one of another, for every network and seed that both were run for."""
    places = [(SINGLE, 1)] + [(graph, m) for graph in study.families for m in study.sizes(graph)]
    for other in (name for name in study.methods if name != PAPER):
        for graph, m in places:
            runs = {(run.seed, run.method): run for run in study.cell(graph, m)}
            for (seed, method), run in runs.items():
                paper = runs.get((seed, PAPER))
                if method == other and paper is not None:
                    yield paper, run


def _who(run: Run) -> dict[str, Cell]:
    return {"graph": run.graph, "agents": run.agents, "seed": run.seed, "method": run.method}


def _row(study: Study, paper: Run, other: Run, target: float) -> dict[str, Cell]:
    row: dict[str, Cell] = {**_who(other), "target": target}
    for name, axis in COSTS.items():
        first, second = spent(study, paper, axis, target), spent(study, other, axis, target)
        row[f"{name}_paper"], row[f"{name}_other"], row[f"{name}_ratio"] = first, second, _ratio(first, second)
    for name, axis in SECONDS.items():
        first, second = spent(study, paper, axis, target), spent(study, other, axis, target)
        row[f"seconds_{name}_ratio"] = _ratio(first, second)
    return row


def _ratio(first: float | None, second: float | None) -> float | None:
    return second / first if first and second is not None else None
