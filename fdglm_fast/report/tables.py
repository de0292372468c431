"""The tables of a report: what each run, network and family came to."""

from __future__ import annotations

from typing import Any

import numpy as np

from fdglm_fast.report.axes import UNITS, bytes_sent, network_of, operations
from fdglm_fast.report.claims import Verdict
from fdglm_fast.report.drawing import small_drawing
from fdglm_fast.report.study import RELATIVE_ERROR, Study
from fdglm_fast.report.table import Cell, Column, Table, whole
from fdglm_fast.runs import PAPER, SINGLE, Run

_WHO = (Column("graph", "network"), Column("agents", "m", whole))
_SEED = Column("seed", "seed")


def _who(run: Run) -> dict[str, Cell]:
    return {"graph": run.graph, "agents": run.agents, "seed": run.seed, "method": run.method}


def _methods(study: Study) -> tuple[Column, ...]:
    """A column for the method where there is more than the paper's."""
    return () if study.methods == [PAPER] else (Column("method", "method"),)


def _paper(study: Study) -> Study:
    """The runs of the paper's method, of which the theorem and the cost model speak."""
    return study.only(PAPER)


def _number(value: Any) -> float | None:
    """A finite number, or None."""
    return float(value) if isinstance(value, (int, float)) and np.isfinite(value) else None


def _cells(study: Study) -> list[tuple[str, int]]:
    alone = [(SINGLE, 1)] if study.single else []
    return alone + [(graph, m) for graph in study.families for m in study.sizes(graph)]


def _ordered(study: Study) -> list[Run]:
    return [run for graph, m in _cells(study) for run in study.cell(graph, m)]


# --- errors -------------------------------------------------------------------------------------------------


def summary_table(study: Study) -> Table:
    """For each network and size: the measure at T and at 32 units of operations, median and range over the seeds."""
    rows: list[dict[str, Cell]] = []
    for part, graph, m in [(each, *cell) for each in _parts(study) for cell in _cells(each)]:
        runs, T = part.cell(graph, m), part.iterations
        row: dict[str, Cell] = {"graph": graph, "agents": m, "seeds": len(runs)}
        row["method"], row["iteration"] = runs[0].method, T
        for name, spots in (("final", [float(T)] * len(runs)), ("units", _equal_cost(runs))):
            values = [study.value(run, t) for run, t in zip(runs, spots, strict=True)]
            known = bool(np.isfinite(values).all())
            row[name] = float(np.median(values)) if known else None
            row[f"{name}_low"], row[f"{name}_high"] = (min(values), max(values)) if known else (None, None)
        row["operations"] = _number(float(np.median([operations(run) for run in runs])))
        row["bytes"] = _number(np.median([bytes_sent(run) or np.nan for run in runs])) if m > 1 else 0.0
        rows.append(row)
    what, several = study.measure.name, len(study.methods) > 1
    columns = (
        *_WHO,
        *_methods(study),
        Column("seeds", "runs"),
        *((Column("iteration", "T", whole),) if several else ()),
        Column("final", f"{what} at iteration {'T' if several else study.iterations}"),
        Column("final_low", "least"),
        Column("final_high", "most"),
        Column("units", f"{what} at {UNITS} units"),
        Column("units_low", "least"),
        Column("units_high", "most"),
        Column("operations", "units an iteration"),
        Column("bytes", "bytes an iteration", whole),
    )
    note = (
        f"Median, least and most over the seeds. A unit of operations per agent is an iteration of one agent; {UNITS} "
    )
    note += "of them are compared. – where a run is too short for that."
    return Table("summary", "Errors by network and size", columns, rows, note)


def _parts(study: Study) -> list[Study]:
    """The study method by method: each is compared where its own runs have all arrived."""
    return [study.only(method) for method in study.methods]


def _equal_cost(runs: list[Run]) -> list[float]:
    return [UNITS / operations(run) for run in runs]


def best_table(study: Study) -> Table:
    """The best number of agents of each family, by iterations and by operations."""
    rows: list[dict[str, Cell]] = []
    for part, graph in [(each, family) for each in _parts(study) for family in each.families]:
        row: dict[str, Cell] = {"graph": graph, "sizes": ", ".join(str(m) for m in part.sizes(graph))}
        row["method"], row["iteration"] = part.first.method, part.iterations
        for name in ("final", "units"):
            found = {}
            for m in part.sizes(graph):
                runs = part.cell(graph, m)
                spots = _equal_cost(runs) if name == "units" else [float(part.iterations)] * len(runs)
                found[m] = float(np.median([study.value(run, t) for run, t in zip(runs, spots, strict=True)]))
            known = {m: value for m, value in found.items() if np.isfinite(value)}
            best = min(known, key=lambda m: known[m]) if known else None
            row[name], row[f"{name}_value"] = best, None if best is None else known[best]
        rows.append(row)
    what, several = study.measure.name, len(study.methods) > 1
    columns = (
        Column("graph", "network"),
        *_methods(study),
        *((Column("iteration", "T", whole),) if several else ()),
        Column("final", f"best m at iteration {'T' if several else study.iterations}", whole),
        Column("final_value", what),
        Column("units", f"best m at {UNITS} units of operations", whole),
        Column("units_value", what),
        Column("sizes", "sizes measured"),
    )
    return Table("best", "Best number of agents", columns, rows, "By the median over the seeds; one agent is left out.")


# --- theory and networks --------------------------------------------------------------------------------------


def bound_table(study: Study) -> Table:
    """What the theorem guarantees beside what was measured, at the end and at the worst record."""
    rows: list[dict[str, Cell]] = []
    for run in _ordered(_paper(study)):
        best = _number(run.report.get("objective", {}).get("reference"))
        objective, bound = run.column("objective_average"), run.column("bound")
        gap = objective - (np.nan if best is None else best)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = gap / bound
        known = np.isfinite(share)
        rows.append(
            {
                **_who(run),
                "iterations": run.iterations,
                "gap": _number(gap[-1]),
                "bound": _number(bound[-1]),
                "times": _number(bound[-1] / gap[-1]) if gap[-1] > 0.0 else None,
                "worst_share": float(share[known].max()) if known.any() else None,
                "why_not": run.report.get("bound_why_not") if not np.isfinite(bound[-1]) else None,
            }
        )
    columns = (
        *_WHO,
        _SEED,
        Column("iterations", "T", whole),
        Column("gap", "measured gap"),
        Column("bound", "theorem's bound"),
        Column("times", "bound / gap"),
        Column("worst_share", "largest gap / bound"),
        Column("why_not", "no bound because", wide=True),
    )
    note = "L(average) - L* at the end beside the corrected bound of Theorem 1. The largest gap / bound is over all "
    note += "records, and must not exceed 1."
    return Table("bound", "The theorem's bound and the measured gap", columns, rows, note)


def network_table(study: Study) -> Table:
    """The numbers of each network that decide how fast it can be, with a drawing."""
    rows: list[dict[str, Cell]] = []
    pictures = []
    seen = set()
    for run in _ordered(study):
        place = (run.graph, run.agents, run.seed)
        if run.agents == 1 or place in seen:  # two methods on one network
            continue
        seen.add(place)
        graph = run.report["graph"]
        norm, gap = _number(graph.get("laplacian_norm")), _number(graph.get("spectral_gap"))
        rows.append(
            {
                **_who(run),
                "attempt": graph.get("attempt"),
                "edges": graph.get("edges"),
                "max_degree": run.max_degree,
                "laplacian_norm": norm,
                "spectral_gap": gap,
                "condition": norm / gap if norm and gap else None,
            }
        )
        network = network_of(run)
        pictures.append("" if network is None else small_drawing(network))
    columns = (
        *_WHO,
        _SEED,
        Column("attempt", "attempt"),
        Column("edges", "edges", whole),
        Column("max_degree", "max degree", whole),
        Column("laplacian_norm", "‖L‖"),
        Column("spectral_gap", "spectral gap"),
        Column("condition", "‖L‖ / gap"),
    )
    note = (
        "The agent that holds the response is marked. Of many edges an even selection is drawn; attempt counts redraws "
    )
    note += "until the network was connected."
    return Table("networks", "Networks", columns, rows, note, pictures)


# --- claims and runs ------------------------------------------------------------------------------------------


def claims_table(verdicts: list[Verdict]) -> Table:
    """The claims of the paper's section 4 and whether they hold."""
    rows: list[dict[str, Cell]] = [
        {
            "claim": each.claim,
            "status": each.status,
            "seeds": each.seeds or None,
            "figures": each.figures or None,
            "measured_as": each.measured_as,
        }
        for each in verdicts
    ]
    columns = (
        Column("claim", "claim", wide=True),
        Column("status", "status"),
        Column("seeds", "seeds"),
        Column("figures", "log10 errors", wide=True),
        Column("measured_as", "measured as", wide=True),
    )
    note = "Judged on medians over the seeds; the column seeds tells for how many of them, each alone, the claim holds."
    return Table("claims", "The paper's claims", columns, rows, note, stacked=True)


def run_table(study: Study) -> Table:
    """Every run with its file, its end and its time."""
    rows: list[dict[str, Cell]] = []
    for run in _ordered(study):
        report, time = run.report, run.report.get("time", {})
        error, objective = report.get("relative_error", {}), report.get("objective", {})
        rows.append(
            {
                **_who(run),
                "iterations": run.iterations,
                "stop_reason": report["stop_reason"],
                "error_average": _number(error.get("average")),
                "error_last": _number(error.get("last")),
                "objective_average": _number(objective.get("average")),
                "residual_average": _number(report.get("residual", {}).get("average")),
                "seconds": _number(time.get("iterate")),
                "per_iteration_ms": _number(time.get("per_iteration_ms")),
                "threads": report.get("threads"),
                "file": run.name,
            }
        )
    columns = (
        *_WHO,
        _SEED,
        *_methods(study),
        Column("iterations", "iterations", whole),
        Column("stop_reason", "ended by"),
        Column("error_average", f"{RELATIVE_ERROR.name}, average"),
        Column("error_last", "last iterate"),
        Column("objective_average", "objective, average"),
        Column("residual_average", "residual, average"),
        Column("seconds", "seconds"),
        Column("per_iteration_ms", "ms / iteration"),
        Column("threads", "threads"),
        Column("file", "file"),
    )
    return Table("runs", "Runs", columns, rows)
