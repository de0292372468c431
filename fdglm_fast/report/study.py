"""Runs that belong together: one problem, on different networks of different sizes, by one method or several.

Runs of the paper's method with different rules of steps are different studies; other methods are in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fdglm_fast.runs import PAPER, SINGLE, Run

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
    """The runs of one problem; `left_out` names runs that another of the same network, seed and method replaces."""

    title: str
    runs: list[Run]
    left_out: list[str] = field(default_factory=list)

    @cached_property
    def measure(self) -> Measure:
        known = [np.isfinite(run.column(RELATIVE_ERROR.column)).all() for run in self.runs]
        return RELATIVE_ERROR if all(known) else RESIDUAL

    @cached_property
    def methods(self) -> list[str]:
        """The methods that occur, the paper's first."""
        return sorted({run.method for run in self.runs}, key=lambda name: (name != PAPER, name))

    def only(self, method: str) -> Study:
        """The runs of one method."""
        return replace(self, runs=[run for run in self.runs if run.method == method], left_out=[])

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
        """The run of one agent; the paper's where there are several."""
        found = sorted(self.cell(SINGLE, 1), key=lambda run: self.methods.index(run.method))
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

    def reached(self, run: Run, level: float) -> float | None:
        """The iteration of the first record whose log10 of the measure is at `level` or below; None where none is."""
        t = run.column("iteration")
        low = np.flatnonzero(self.logarithm(run, t) <= level)
        return float(t[low[0]]) if low.size else None

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
    """The runs sorted into studies; a single agent counts for every study of its problem, whatever the weights."""
    groups: dict[_Key, list[Run]] = {}
    # Networks of the paper's method say which studies there are; then other methods, then single agents join them.
    for run in sorted(runs, key=lambda run: (run.agents == 1, run.method != PAPER)):
        fitting = [key for key in groups if _belongs(run, key)]
        for key in fitting or [_key(run)]:
            groups.setdefault(key, []).append(run)
    several = len(groups) > 1
    return [_study(key, sorted(found, key=lambda run: run.agents > 1), several) for key, found in groups.items()]


class _Key(NamedTuple):
    """What the runs of a study share: data, size, type and model; the rule of the paper's steps; the weights."""

    problem: tuple[Any, ...]
    rule: str | None
    weights: str | None


def _key(run: Run) -> _Key:
    rule = run.report.get("steps", {}).get("rule") if run.method == PAPER else None
    return _Key(_problem(run), rule, run.report["graph"].get("weights") if run.agents > 1 else None)


def _belongs(run: Run, key: _Key) -> bool:
    """Whether a run has its place in a study: one agent has no weights, and only the paper's method a rule of steps."""
    own = _key(run)
    return (
        own.problem == key.problem
        and (run.method != PAPER or key.rule in (None, own.rule))
        and (run.agents == 1 or own.weights == key.weights)
    )


def _problem(run: Run) -> tuple[Any, ...]:
    """What two runs must share to be compared."""
    report = run.report
    content = report["data"].get("hash") or report["data"].get("path")
    return (content, run.n, run.d, run.dtype, report["loss"], report["penalty"], report.get("reg"))


def _study(key: _Key, runs: list[Run], several: bool) -> Study:
    """One run for each network, size, seed and method: the longest, and then the first by name."""
    chosen: dict[tuple[str, int, int | None, str], Run] = {}
    left_out = []
    for run in runs:
        cell = (run.graph, run.agents, run.seed, run.method)
        other = chosen.get(cell)
        if other is None:
            chosen[cell] = run
        else:
            longer, shorter = (run, other) if run.iterations > other.iterations else (other, run)
            chosen[cell] = longer
            left_out.append(f"{shorter.name} ({shorter.label}): {longer.name} is shown for the same network.")
    _, n, d, dtype, loss, penalty, reg = key.problem
    words = f"{loss} loss" + ("" if penalty == "none" else f", penalty {penalty} with weight {reg:g}")
    study = Study(f"{words}; {n} samples x {d} features, {dtype}", list(chosen.values()), left_out)
    if not several:
        return study
    how = " and ".join(study.methods) + (" methods" if len(study.methods) > 1 else " method")
    how += f", {key.rule} steps" if key.rule else ""
    how += "" if key.weights in (None, "unit") else f", {key.weights} weights"
    return replace(study, title=f"{study.title}; {how}")
