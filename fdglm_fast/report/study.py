"""Runs that belong together: one problem and one rule of steps, on different networks of different sizes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.runs import SINGLE, Run

Array = npt.NDArray[np.float64]

# The order of the paper; other families follow by name.
FAMILIES = ("complete", "star", "er:0.5", "er:0.1", "lattice", "rgg")
FLOOR = 1e-17  # below it a measurement is rounding (an error may even come out negative), and has no logarithm


@dataclass(frozen=True)
class Measure:
    """What the vertical axis shows: a column of the trace, and what it is called."""

    column: str
    name: str
    symbol: str
    start: float | None  # its value before the first iteration, where that is known
    note: str


RELATIVE_ERROR = Measure(
    "relative_error_average",
    "relative error",
    "(L_t - L*) / (L_0 - L*)",
    1.0,
    "Relative error of the ergodic average, (L_t - L*) / (L_0 - L*), with L* from the centralised reference.",
)
RESIDUAL = Measure(
    "residual_average",
    "optimality residual",
    "residual of the average",
    None,
    "Not every run knows the optimum (--reference computes it), so the optimality residual of the ergodic average "
    "is shown in the place of the relative error.",
)


@dataclass(frozen=True, eq=False)
class Study:
    """The runs of one problem; `left_out` names runs that another one of the same network and seed replaces."""

    title: str
    runs: list[Run]
    left_out: list[str] = field(default_factory=list)

    @cached_property
    def measure(self) -> Measure:
        known = [np.isfinite(run.column(RELATIVE_ERROR.column)).all() for run in self.runs]
        return RELATIVE_ERROR if all(known) else RESIDUAL

    @cached_property
    def families(self) -> list[str]:
        """The networks that occur, without the single agent."""
        found = {run.graph for run in self.runs if run.agents > 1}
        return [name for name in FAMILIES if name in found] + sorted(found - set(FAMILIES))

    @cached_property
    def agents(self) -> list[int]:
        """The numbers of agents that occur, without one."""
        return sorted({run.agents for run in self.runs if run.agents > 1})

    def sizes(self, graph: str) -> list[int]:
        """The numbers of agents for which a network was measured."""
        return sorted({run.agents for run in self.runs if run.graph == graph})

    def cell(self, graph: str, agents: int) -> list[Run]:
        """The runs of one network and size, one a seed."""
        return [run for run in self.runs if run.graph == graph and run.agents == agents]

    @property
    def single(self) -> Run | None:
        found = self.cell(SINGLE, 1)
        return found[0] if found else None

    @property
    def seeds(self) -> list[int]:
        return sorted({run.seed for run in self.runs if run.seed is not None})

    @property
    def first(self) -> Run:
        return self.runs[0]

    @cached_property
    def iterations(self) -> int:
        """The last iteration that every run has reached: where they are compared."""
        return min(run.iterations for run in self.runs)

    def value(self, run: Run, iteration: float) -> float:
        """The measure after so many iterations, between two records by its logarithm against log t."""
        return float(10.0 ** self.logarithm(run, np.array([iteration]))[0])

    def logarithm(self, run: Run, iterations: Array) -> Array:
        """log10 of the measure at the given iterations; NaN outside what was recorded."""
        t = run.column("iteration")
        y = np.log10(np.maximum(run.column(self.measure.column), FLOOR))
        known = np.isfinite(y)
        if not known.any():
            return np.full(len(iterations), np.nan)
        t, y = t[known], y[known]
        near = np.where(np.isclose(iterations, t[-1], rtol=1e-9), t[-1], iterations)  # not outside by rounding
        near = np.where(np.isclose(near, t[0], rtol=1e-9), t[0], near)
        with np.errstate(divide="ignore"):
            return np.asarray(np.interp(np.log(near), np.log(t), y, left=np.nan, right=np.nan))


def studies(runs: list[Run]) -> list[Study]:
    """The runs sorted into studies; a single agent counts for every study of its problem."""
    single, several = defaultdict(list), defaultdict(list)
    for run in runs:
        if run.agents == 1:
            single[_problem(run)].append(run)
        else:
            key = (*_problem(run), run.report["graph"].get("weights"))
            several[key].append(run)
    groups = [(key[:-1], key[-1], single.get(key[:-1], []) + found) for key, found in several.items()]
    lonely = [key for key in single if key not in {key[:-1] for key in several}]
    groups += [(key, None, single[key]) for key in lonely]
    return [_study(key, weights, found, len(groups) > 1) for key, weights, found in groups]


def _problem(run: Run) -> tuple[Any, ...]:
    """What two runs must share to be compared."""
    report = run.report
    content = report["data"].get("hash") or report["data"].get("path")
    model = (report["loss"], report["penalty"], report.get("reg"), report.get("method", "paper"))
    return (content, run.n, run.d, run.dtype, *model, report.get("steps", {}).get("rule"))


def _study(key: tuple[Any, ...], weights: str | None, runs: list[Run], several: bool) -> Study:
    """One run for each network, size and seed: the longest, and then the first by name."""
    chosen: dict[tuple[str, int, int | None], Run] = {}
    left_out = []
    for run in runs:
        cell = (run.graph, run.agents, run.seed)
        other = chosen.get(cell)
        if other is None:
            chosen[cell] = run
        else:
            longer, shorter = (run, other) if run.iterations > other.iterations else (other, run)
            chosen[cell] = longer
            left_out.append(f"{shorter.name} ({shorter.label}): {longer.name} is shown for the same network.")
    _, n, d, dtype, loss, penalty, reg, method, rule = key
    words = f"{loss} loss" + ("" if penalty == "none" else f", penalty {penalty} with weight {reg:g}")
    title = f"{words}; {n} samples x {d} features, {dtype}"
    if several:
        title += f"; {method} method, {rule} steps" + ("" if weights in (None, "unit") else f", {weights} weights")
    return Study(title, list(chosen.values()), left_out)
