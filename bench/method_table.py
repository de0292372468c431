"""The benchmark of methods as a table: medians over the seeds, ratios, and a verdict for each case."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from statistics import median
from typing import Any

from fdglm_bench.method_cases import DESIGNS, GRAPHS, METHODS, MODELS
from fdglm_bench.method_runs import TARGETS

COSTS = ("iterations", "bytes", "seconds")
FEWER, LESS, SLOWER = 0.2, 0.1, 1.25  # at most: share of the iterations, share of the bytes, times the milliseconds
LOSS = 1.2  # the most that adapting the weight may cost, as a factor of the iterations with a weight of one
NOT_JUDGED = "paper does not reach 1e-4"

Row = dict[str, Any]


def rows_of(runs: list[dict[str, Any]]) -> list[Row]:
    """A row for each model, design, network and size, with the methods side by side."""
    cases: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        cases[run["model"], run["design"], run["graph"], run["agents"]][run["method"]].append(run)
    return [_row(case, cases[case]) for case in sorted(cases, key=_order)]


def _order(case: tuple[Any, ...]) -> tuple[Any, ...]:
    model, design, graph, agents = case
    places = [_place(names, name) for names, name in ((list(MODELS), model), (DESIGNS, design), (GRAPHS, graph))]
    return (*places, agents)


def _place(names: Any, name: str) -> tuple[int, str]:
    return (names.index(name) if name in names else len(names)), name


def _row(case: tuple[Any, ...], by_method: dict[str, list[dict[str, Any]]]) -> Row:
    row: Row = dict(zip(("model", "design", "graph", "agents"), case, strict=True))
    for method in METHODS:
        runs = by_method.get(method, [])
        fine = [run for run in runs if "failed" not in run]
        row[f"{method}_seeds"], row[f"{method}_failed"] = len(runs), len(runs) - len(fine)
        row[f"{method}_ms"] = median(run["ms_per_iteration"] for run in fine) if fine else None
        row[f"{method}_least_error"] = median(run["least_error"] for run in fine) if fine else None
        for target in TARGETS:
            for cost in COSTS:
                row[f"{method}_{cost}_{target:g}"] = _median(runs, f"{target:g}", cost)
    row["ms_ratio"] = _ratio(row["fast_ms"], row["paper_ms"])
    for target in TARGETS:
        for cost in COSTS:
            name = f"{cost}_{target:g}"
            row[f"{name}_ratio"] = _ratio(row[f"fast_{name}"], row[f"paper_{name}"])
    row["weight_ratio"] = _weight_ratio(row)
    row["verdict"] = _verdict(row)
    return row


def _weight_ratio(row: Row) -> float | None:
    """Iterations of fast over those with a weight of one, the worst of the targets that the latter reaches."""
    known = [(row[f"fast_iterations_{t:g}"], row[f"fixed_iterations_{t:g}"]) for t in TARGETS]
    if row["fast_seeds"] == 0:
        return None
    return max((math.inf if fast is None else fast / fixed for fast, fixed in known if fixed), default=None)


def _median(runs: list[dict[str, Any]], target: str, cost: str) -> float | None:
    """Over the seeds; None where one of them does not reach the target, or failed."""
    reached = [run["to"][target] for run in runs if "failed" not in run]
    known = [each[cost] for each in reached if each is not None]
    return float(median(known)) if known and len(known) == len(runs) else None


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _verdict(row: Row) -> str:
    """Whether the other method needs at most a fifth of the iterations, where the paper's gets to 1e-4 at all."""
    if row["fast_seeds"] == 0 or row["paper_seeds"] == 0:
        return "one method only"
    if row["fast_failed"] or row["paper_failed"]:
        failed = [f"{name} {row[f'{name}_failed']}" for name in ("paper", "fast") if row[f"{name}_failed"]]
        return f"failed: {', '.join(failed)}"
    if row["paper_iterations_0.0001"] is None:
        return NOT_JUDGED
    ratio = row["iterations_0.0001_ratio"]
    return "holds" if ratio is not None and ratio <= FEWER else "does not hold"


def _sizes(runs: list[Row]) -> str:
    """The sizes that were run, with the agents where they differ."""
    found: dict[tuple[int, int, int], set[int]] = {}
    for run in runs:
        size = run["size"]
        found.setdefault((size["samples"], size["features"], size["iterations"]), set()).add(run["agents"])
    words = []
    for (n, d, most), agents in found.items():
        whom = f" ({', '.join(str(m) for m in sorted(agents))} agents)" if len(found) > 1 else ""
        words.append(f"n = {n}, d = {d}, at most {most} iterations{whom}")
    return "; ".join(words)


def conclusions(rows: list[Row]) -> list[str]:
    """The claims of the issue over all cases, each in a sentence with its figures."""
    judged = [row for row in rows if row["verdict"] in ("holds", "does not hold")]
    held = sum(row["verdict"] == "holds" for row in judged)
    said = [
        f"{held} of {len(judged)} cases where the paper's method reaches 1e-4 take at most a fifth of its iterations."
    ]
    ratios = [row["bytes_0.0001_ratio"] for row in judged if row["bytes_0.0001_ratio"] is not None]
    if ratios:
        middle = median(ratios)
        said.append(
            f"Bytes to 1e-4, median share of the paper's: {middle:.3g} ({_yes(middle <= LESS)}, at most {LESS})."
        )
    times = [row["ms_ratio"] for row in rows if row["ms_ratio"] is not None]
    if times:
        over = sum(value > SLOWER for value in times)
        said.append(
            f"Time of an iteration, median {median(times):.3g} times the paper's, largest {max(times):.3g}; "
            f"{over} of {len(times)} cases above {SLOWER}."
        )
    weighed = [row["weight_ratio"] for row in rows if row["weight_ratio"] is not None]
    if weighed:
        over = sum(value > LOSS for value in weighed)
        said.append(
            f"The adapted weight loses to a weight of one by more than 20 % in {over} of {len(weighed)} cases "
            f"(iterations to the worst target: median {median(weighed):.3g} times, largest {max(weighed):.3g})."
        )
    return said


def _yes(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def failures(runs: list[dict[str, Any]]) -> list[str]:
    """Every run that failed, and why."""
    names = ("model", "design", "graph", "agents", "seed", "method")
    return [f"{', '.join(str(run[name]) for name in names)}: {run['failed']}" for run in runs if "failed" in run]


def as_csv(rows: list[Row]) -> str:
    stream = io.StringIO()
    if rows:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
    return stream.getvalue()


def as_markdown(rows: list[Row], runs: list[dict[str, Any]]) -> str:
    """What a person reads: iterations of both methods to each target, the shares, the verdicts, the failures."""
    head = ["model", "columns", "network", "m"]
    head += [f"to {target:g}: paper" for target in TARGETS] + [f"fast, {target:g}" for target in TARGETS]
    head += ["iterations", "bytes", "seconds", "ms/iteration", "fast / w=1", "verdict"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        cells = [row["model"], row["design"], row["graph"], str(row["agents"])]
        cells += [_cell(row[f"{method}_iterations_{t:g}"], ".0f") for method in ("paper", "fast") for t in TARGETS]
        cells += [_cell(row[f"{cost}_0.0001_ratio"], ".3g") for cost in COSTS]
        cells += [_cell(row["ms_ratio"], ".3g"), _cell(row["weight_ratio"], ".3g"), row["verdict"]]
        lines.append(f"| {' | '.join(cells)} |")
    about = (
        f"{_sizes(runs)}; medians "
        "over the seeds, – where a seed does not get there. Shares are fast / paper, to 1e-4. The paper's method is "
        "given the better of its average and its last iterate. fast / w=1: iterations over those with the weight held "
        "at one, the worst of the targets."
    )
    bad = failures(runs)
    listed = [f"## Failures ({len(bad)})", "", *(f"- {line}" for line in bad)] if bad else ["No run failed."]
    return "\n".join([about, "", *conclusions(rows), "", *lines, "", *listed, ""])


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
