"""Counted against modelled operations, for the agent of largest degree in each network of a study."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fdglm_fast.cost.model import is_weighted, paper_cost, phase_model
from fdglm_fast.cost.polynomial import Polynomial
from fdglm_fast.errors import FdglmError
from fdglm_fast.partition import contiguous
from fdglm_fast.report.axes import network_of, operations
from fdglm_fast.report.study import Study
from fdglm_fast.report.table import Cell, Column, Table, whole
from fdglm_fast.runs import PAPER, Run


@dataclass(frozen=True)
class Counter:
    """The polynomials that counting numbers gave, by (weighted edges, one agent); `failed` says why there are none."""

    totals: dict[tuple[bool, bool], Polynomial | None]
    failed: str | None = None

    def __call__(self, n: int, d_j: int, degree: int, kind: tuple[bool, bool]) -> int | None:
        total = self.totals.get(kind)
        return None if total is None else int(total(n, d_j, degree))


def count_study(study: Study) -> Counter:
    """Count the updates of the study's loss and penalty, in a process of their own, which takes a second or two."""
    from fdglm_fast.cost.fitting import Kind, fit_kinds

    report = study.first.report
    wanted = sorted({_kind(run) for run in study.runs if run.method == PAPER})
    if not wanted:
        return Counter({})
    kinds = [Kind(report["penalty"], report["loss"], weighted, single) for weighted, single in wanted]
    try:
        fits, _ = fit_kinds(kinds)
    except FdglmError as error:
        return Counter({}, str(error))
    return Counter({kind: fit.total() for kind, fit in zip(wanted, fits, strict=True)})


def _kind(run: Run) -> tuple[bool, bool]:
    """(weighted edges, one agent)."""
    network = network_of(run)
    return network is not None and is_weighted(network), run.agents == 1


def operation_table(study: Study, counter: Counter) -> Table:
    """For the agent of largest degree: the paper's formula, the model for this penalty, and the count."""
    penalty = study.first.report["penalty"].partition(":")[0]
    rows: list[dict[str, Cell]] = []
    study = study.only(PAPER)  # the formula, the model and the counted updates are the paper's
    for graph, m in [("single", 1)] * bool(study.single) + [(g, m) for g in study.families for m in study.sizes(g)]:
        for run in study.cell(graph, m):
            kind, largest = _kind(run), int(contiguous(run.d, run.agents).sizes.max())
            flags = {"prox": penalty != "none", "weighted": kind[0], "single": kind[1], "penalty": penalty}
            model = sum(phase_model(run.n, largest, run.max_degree, **flags).values())
            counted = counter(run.n, largest, run.max_degree, kind)
            rows.append(
                {
                    "graph": run.graph,
                    "agents": run.agents,
                    "seed": run.seed,
                    "max_degree": run.max_degree,
                    "paper": paper_cost(run.n, run.d, run.agents, run.max_degree),
                    "model": model,
                    "counted": counted,
                    "difference": None if counted is None else counted - model,
                    "normalized": operations(run),
                    "executed_rows": _rows(run),
                }
            )
    columns = (
        Column("graph", "network"),
        Column("agents", "m", whole),
        Column("seed", "seed"),
        Column("max_degree", "max degree", whole),
        Column("paper", "paper's formula", whole),
        Column("model", "model, this penalty", whole),
        Column("counted", "counted", whole),
        Column("difference", "counted - model", whole),
        Column("normalized", "units an iteration"),
        Column("executed_rows", "rows computed with", whole),
    )
    note = (
        "Operations of one iteration of the agent with the most neighbours and columns; the paper's formula has d/m "
        "columns and soft thresholding (3 operations a column), the model the penalty that was used. Counted: the "
        "solver's updates run on counting numbers, fitted exactly and evaluated here."
    )
    if counter.failed:
        note += f" Nothing was counted: {counter.failed}"
    return Table("counts", "Counted and modelled operations", columns, rows, note)


def _rows(run: Run) -> int:
    """Samples that the run computed with: fewer than n where [X y] was compressed, which the model does not assume."""
    return int(np.minimum(run.n, run.d + 1)) if run.report.get("compressed") else run.n
