"""Methods beside each other: what each needs, on the same network, until the error is small."""

from __future__ import annotations

import math

import numpy as np

from fdglm_fast.report.axes import BYTES, ITERATIONS, OPERATIONS, SECONDS, Axis
from fdglm_fast.report.study import Study
from fdglm_fast.report.table import Cell, Column, Table, plain, whole
from fdglm_fast.runs import PAPER, SINGLE, Run

TARGETS = (1e-4, 1e-6, 1e-8)
COSTS: dict[str, Axis] = {"iterations": ITERATIONS, "operations": OPERATIONS, "bytes": BYTES}


def reached(study: Study, run: Run, target: float) -> float | None:
    """The iteration of the first record at which the average or the last iterate is at `target` or below."""
    average = study.measure.column
    best = np.fmin(run.column(average), run.column(average.removesuffix("average") + "last"))
    low = np.flatnonzero(best <= target)
    return float(run.column("iteration")[low[0]]) if low.size else None


def spent(study: Study, run: Run, axis: Axis, target: float) -> float | None:
    """What a run has spent on an axis until then."""
    iteration, width = reached(study, run, target), axis.width(run)
    if iteration is None or width is None or not math.isfinite(width):
        return None
    return iteration * width


def method_table(study: Study) -> Table | None:
    """Each network that another method than the paper's was run on too, at each target; None where there is none."""
    others = [name for name in study.methods if name != PAPER]
    rows = [row for other in others for row in _rows(study, other)]
    if not rows:
        return None
    columns = [Column("graph", "network"), Column("agents", "m", whole), Column("seed", "seed")]
    columns += [Column("method", "method"), Column("target", study.measure.name)]
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


def _rows(study: Study, other: str) -> list[dict[str, Cell]]:
    """A row for every network, seed and target that both methods were run for."""
    found: list[dict[str, Cell]] = []
    places = [(SINGLE, 1)] + [(graph, m) for graph in study.families for m in study.sizes(graph)]
    for graph, m in places:
        runs = {(run.seed, run.method): run for run in study.cell(graph, m)}
        for (seed, method), run in runs.items():
            paper = runs.get((seed, PAPER))
            if method == other and paper is not None:
                found += [_row(study, paper, run, target) for target in TARGETS]
    return found


def _row(study: Study, paper: Run, other: Run, target: float) -> dict[str, Cell]:
    row: dict[str, Cell] = {
        "graph": other.graph,
        "agents": other.agents,
        "seed": other.seed,
        "method": other.method,
        "target": target,
    }
    for name, axis in COSTS.items():
        first, second = spent(study, paper, axis, target), spent(study, other, axis, target)
        row[f"{name}_paper"], row[f"{name}_other"], row[f"{name}_ratio"] = first, second, _ratio(first, second)
    for name, axis in SECONDS.items():
        first, second = spent(study, paper, axis, target), spent(study, other, axis, target)
        row[f"seconds_{name}_ratio"] = _ratio(first, second)
    return row


def _ratio(first: float | None, second: float | None) -> float | None:
    return second / first if first and second is not None else None
