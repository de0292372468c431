"""What the figures show, without how they are drawn: panels of curves, their axes and their legend."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fdglm_fast.cost.timing import PRESETS, Link
from fdglm_fast.graph_spec import parse_spec
from fdglm_fast.report.axes import BYTES, ITERATIONS, OPERATIONS, SECONDS, UNITS, Axis
from fdglm_fast.report.curves import Curve, curve
from fdglm_fast.report.palette import levels
from fdglm_fast.report.study import Study
from fdglm_fast.runs import PAPER, SINGLE, Run

SINGLE_LABEL = "single agent"


@dataclass(frozen=True, eq=False)
class Line:
    """A curve with its name and its place in the sequence of colours; None is the single agent's.

    `dotted` lines are of another method than the paper's.
    """

    label: str
    level: int | None
    curve: Curve
    dotted: bool = False

    @property
    def key(self) -> Key:
        return Key(self.label, self.level, self.dotted)


class Key(NamedTuple):
    """An entry of the legend."""

    label: str
    level: int | None
    dotted: bool = False


@dataclass(frozen=True)
class Scale:
    """An axis of a panel: from `low` to `high`, with a text at every tick; logarithms where `log`."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high end."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True, eq=False)
class Panel:
    """One family of networks. `level` is where the single agent ends, when it has no place on the axis."""

    title: str
    lines: list[Line]
    x: Scale
    y: Scale
    level: float | None = None


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels with the same axes, and the legend they share."""

    name: str
    title: str
    caption: str
    panels: list[Panel]

    @property
    def legend(self) -> list[Key]:
        """All lines, the single agent first, then by the number of agents."""
        found = {line.key for panel in self.panels for line in panel.lines}
        if any(panel.level is not None for panel in self.panels):
            found.add(Key(SINGLE_LABEL, None))
        return sorted(found, key=lambda key: (-1 if key.level is None else key.level, key.label))


def family_title(graph: str) -> str:
    """A family in words."""
    words = {"complete": "Complete", "star": "Star", "lattice": "2-D lattice", "ring": "Ring", "path": "Path"}
    if graph in words:
        return words[graph]
    name, _, parameter = graph.partition(":")
    if name == "er":
        return f"Erdős–Rényi, p = {parameter}"
    if name == "rgg":
        return f"Random geometric, r = {parse_spec(graph).parameter:g}"
    return graph[:60]


def figures(study: Study) -> Iterator[Figure]:
    """All figures of a study."""
    what, several = study.measure.name, " Line: median over the seeds; band: their range." if _several(study) else ""
    yield _figure(
        study,
        ITERATIONS,
        "Figure 1: convergence by iterations",
        f"log10 of the {what} of {_whose(study)} against iterations; the single agent in every panel.{several}",
    )
    units, own = _units(study), _own_costs(study)
    yield _figure(
        study,
        OPERATIONS,
        "Figure 2: convergence at equal operations per agent",
        f"The same against operations per agent, in units of one iteration of a single agent, which ends at {units:g} "
        f"iterations. Iteration t of m agents sits at t [n(4d/m + 2Δ + 7) + 5d/m] / [n(4d + 1) + 5d]{own}.{several}",
        units,
    )
    yield _figure(
        study,
        BYTES,
        "Convergence by bytes sent",
        "The same against the bytes that all agents together have sent: λ and u to every neighbour, 4 n numbers an "
        f"edge and iteration{own}. A single agent sends nothing; its end is the dashed line.{several}",
    )
    for name, axis in SECONDS.items():
        link = PRESETS[name]
        yield _figure(
            study,
            axis,
            f"Convergence by modelled seconds: {name.replace('-', ' ')}",
            f"The same against modelled seconds on equal agents that {_link(link)}.{several}",
        )


def _whose(study: Study) -> str:
    """Which coefficients are measured: other methods than the paper's have no average but their answer."""
    others = [name for name in study.methods if name != PAPER]
    if not others:
        return "the ergodic average"
    answer = f"the last iterate ({', '.join(others)}, dotted)"
    return f"the ergodic average (paper) and {answer}" if PAPER in study.methods else answer


def _own_costs(study: Study) -> str:
    others = [name for name in study.methods if name != PAPER]
    return f" (paper; {', '.join(others)}: as its runs state)" if others else ""


def _link(link: Link) -> str:
    """A preset of the time model in words."""
    return (
        f"do {link.flops:.3g} operations a second, with {link.latency:.3g} s of latency and {link.bandwidth:.3g} bytes "
        "a second over the link of each, in step with each other"
    )


def _several(study: Study) -> bool:
    kinds = [study.only(method) for method in study.methods]
    return any(len(kind.cell(graph, m)) > 1 for kind in kinds for graph in kind.families for m in kind.sizes(graph))


def _units(study: Study) -> float:
    """Where the cost figure ends: at the paper's 32 units, or where a shorter single agent does."""
    return float(min(UNITS, study.single.iterations)) if study.single else float(UNITS)


def _figure(study: Study, axis: Axis, title: str, caption: str, limit: float | None = None) -> Figure:
    place = levels(study.agents)
    found: list[tuple[str, list[Line]]] = []
    alone = _lines(study, study.cell(SINGLE, 1), axis, limit, SINGLE_LABEL, None)
    for graph in study.families or [SINGLE]:
        lines = list(alone)
        for m in study.sizes(graph) if graph != SINGLE else []:
            lines += _lines(study, study.cell(graph, m), axis, limit, f"{m} agents", place[m])
        if lines:
            found.append((family_title(graph) if graph != SINGLE else "Single agent", lines))
    end = None
    if axis is BYTES and study.single:
        end = float(np.log10(study.value(study.single, study.single.iterations)))
    every = [line.curve for _, lines in found for line in lines]
    if not every:
        return Figure(axis.name, title, caption, [])
    x, y = _x_scale(axis, every, limit), _y_scale(study, every, end)
    return Figure(axis.name, title, caption, [Panel(name, lines, x, y, end) for name, lines in found])


def _lines(study: Study, runs: list[Run], axis: Axis, limit: float | None, label: str, level: int | None) -> list[Line]:
    """A line for each method that the runs are of."""
    found = []
    for method in study.methods:
        drawn = curve(study, [run for run in runs if run.method == method], axis, limit)
        if drawn is not None:
            other = method != PAPER
            found.append(Line(f"{label}, {method}" if other else label, level, drawn, other))
    return found


# --- scales -------------------------------------------------------------------------------------------------


def _y_scale(study: Study, curves: list[Curve], end: float | None) -> Scale:
    """Whole powers of ten that hold every curve."""
    lows = [float((c.y if c.low is None else c.low).min()) for c in curves] + ([] if end is None else [end])
    highs = [float((c.y if c.high is None else c.high).max()) for c in curves]
    low, high = math.floor(min(lows)), math.ceil(max(highs) - 0.05)  # a hair above a power of ten is no new one
    high = max(high, low + 1)
    step = max(1, math.ceil((high - low) / 8))
    ticks = tuple((float(k), _minus(k)) for k in range(high, low - 1, -step))
    return Scale(f"log10 {study.measure.name}", float(low), float(high), ticks)


def _x_scale(axis: Axis, curves: list[Curve], limit: float | None) -> Scale:
    last = max(float(c.x[-1]) for c in curves)
    if not axis.log:
        high = limit or last
        return Scale(axis.label, 0.0, high, tuple((v, f"{v:g}") for v in _round_ticks(high)))
    first = min(float(c.x[0]) for c in curves)
    low, high = math.floor(math.log10(first)), math.ceil(math.log10(last))
    high = max(high, low + 1)
    step = max(1, math.ceil((high - low) / 5))
    ticks = tuple((10.0**k, f"1e{k}") for k in range(low, high + 1, step))
    return Scale(axis.label, 10.0**low, 10.0**high, ticks, log=True)


def _round_ticks(high: float) -> list[float]:
    """Four to six ticks at 1, 2 or 5 times a power of ten (8 for the paper's 32), from zero."""
    if high == UNITS:
        return [0.0, 8.0, 16.0, 24.0, 32.0]
    power = 10.0 ** math.floor(math.log10(high))
    step = next(s * power for s in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0) if high / (s * power) <= 5.0)
    return [k * step for k in range(int(high / step + 1e-9) + 1)]


def _minus(k: int) -> str:
    return f"−{-k}" if k < 0 else str(k)
