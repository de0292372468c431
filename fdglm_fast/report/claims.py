"""The claims of section 4 of the paper, each checked against measured runs.

All numbers are log10 of the relative error of the ergodic average, at the last iteration that all runs have reached
(T), or at 32 units of operations per agent (one unit is an iteration of a single agent). A claim is judged on the
medians over the seeds of the random networks, and again with each seed alone, which is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from fdglm_fast.report.axes import UNITS, operations
from fdglm_fast.report.study import Study
from fdglm_fast.runs import Run

HOLDS, FAILS, MISSING = "holds", "does not hold", "not measured"
SAME = 0.01  # differences of log10 below this are none: star and complete are one network for two agents
CLOSE = 0.5  # "very similarly": half a power of ten
COMPARABLE = 1.0  # "comparable": a power of ten

Values = dict[int, float]  # by number of agents


@dataclass(frozen=True)
class Verdict:
    """A claim, how it was measured, whether it holds, the figures, and for how many of the seeds it holds."""

    claim: str
    measured_as: str
    status: str
    figures: str
    seeds: str


@dataclass(frozen=True)
class _Finding:
    """Whether a claim holds for one choice of networks (None: runs are missing), and the figures."""

    holds: bool | None
    figures: str


class _Sight:
    """The measurements as a claim sees them: medians over the seeds, or one seed alone."""

    def __init__(self, study: Study, seed: int | None) -> None:
        self.study, self.seed = study, seed
        self.drawn = False  # whether a random network was looked at

    def final(self, graph: str) -> Values:
        """log10 of the error at T, by number of agents."""
        T = float(self.study.iterations)
        return self._each(graph, lambda run: float(self.study.logarithm(run, np.array([T]))[0]))

    def at_units(self, graph: str) -> Values:
        """log10 of the error at 32 units of operations, by number of agents."""
        return self._each(graph, lambda run: float(self.study.logarithm(run, np.array([UNITS / operations(run)]))[0]))

    def units_to(self, graph: str, agents: int, target: float) -> float | None:
        """Units of operations until log10 of the error is at `target` or below; None where it never is."""
        found = [_first_below(run, self.study, target) for run in self._runs(graph, agents)]
        known = [units for units in found if units is not None]
        return float(np.median(known)) if found and len(known) == len(found) else None

    def _runs(self, graph: str, agents: int) -> list[Run]:
        runs = self.study.cell(graph, agents)
        self.drawn |= any(run.seed is not None for run in runs)
        return [run for run in runs if self.seed is None or run.seed is None or run.seed == self.seed]

    def _each(self, graph: str, measure: Callable[[Run], float]) -> Values:
        found = {m: [measure(run) for run in self._runs(graph, m)] for m in self.study.sizes(graph)}
        values = {m: float(np.median(each)) for m, each in found.items() if each}
        return {m: value for m, value in values.items() if np.isfinite(value)}


def _first_below(run: Run, study: Study, target: float) -> float | None:
    t = study.reached(run, target)
    return None if t is None else t * operations(run)


# --- the claims ---------------------------------------------------------------------------------------------


def _complete_fastest(sight: _Sight) -> _Finding:
    complete = sight.final("complete")
    worse = []
    others = {graph: sight.final(graph) for graph in sight.study.families if graph != "complete"}
    compared = sorted(m for m in complete if any(m in values for values in others.values()))
    for m in compared:
        best, name = min((values[m], graph) for graph, values in others.items() if m in values)
        if best < complete[m] - SAME:
            worse.append(f"m = {m}: {name} {best:.2f} against {complete[m]:.2f}")
    if not compared:
        return _Finding(None, "")
    sizes = ", ".join(str(m) for m in compared)
    text = f"first (or equal) at {len(compared) - len(worse)} of {len(compared)} sizes (m = {sizes})"
    return _Finding(not worse, "; ".join([text, *worse]))


def _best_at(sight: _Sight, graph: str, agents: int) -> _Finding:
    values = sight.final(graph)
    around = [m for m in values if m < agents], [m for m in values if m > agents]
    if agents not in values or not all(around):
        return _Finding(None, "")
    best = min(values, key=lambda m: values[m])
    text = _sequence(values)
    if best != agents:
        text = f"best at {best} ({values[best]:.2f} against {values[agents]:.2f} at {agents}); {text}"
        below = {m: value for m, value in values.items() if m <= agents}
        if min(below, key=lambda m: below[m]) == agents:
            text += f"; among m <= {agents} it is best at {agents}"
    return _Finding(best == agents, text)


def _degrades(sight: _Sight) -> _Finding:
    dense, sparse = sight.final("er:0.5"), sight.final("er:0.1")
    common = sorted(set(dense) & set(sparse))
    if not common:
        return _Finding(None, "")
    pairs = ", ".join(f"{m}: {dense[m]:.2f} and {sparse[m]:.2f}" for m in common)
    return _Finding(all(sparse[m] > dense[m] for m in common), f"p = 0.5 and p = 0.1 by m: {pairs}")


def _similar(sight: _Sight) -> _Finding:
    rgg, er = sight.final("rgg"), sight.final("er:0.1")
    common = sorted(set(rgg) & set(er))
    if not common:
        return _Finding(None, "")
    largest = max(common, key=lambda m: abs(rgg[m] - er[m]))
    pairs = ", ".join(f"{m}: {rgg[m]:.2f} and {er[m]:.2f}" for m in common)
    difference = abs(rgg[largest] - er[largest])
    text = f"largest difference {difference:.2f}, at m = {largest}; rgg and er:0.1 by m: {pairs}"
    return _Finding(difference <= CLOSE, text)


def _worse_with_more(sight: _Sight, graph: str) -> _Finding:
    values = sight.final(graph)
    if len(values) < 2:
        return _Finding(None, "")
    sizes = sorted(values)
    better = [m for k, m in pairwise(sizes) if values[m] < values[k] - SAME]
    text = _sequence(values) + (
        "" if not better else f"; better than the size before it: {', '.join(map(str, better))}"
    )
    return _Finding(not better, text)


def _comparable(sight: _Sight, graph: str, agents: int) -> _Finding:
    alone, several = sight.at_units("single"), sight.at_units(graph)
    if 1 not in alone or agents not in several:
        return _Finding(None, "")
    difference = several[agents] - alone[1]
    text = f"{several[agents]:.2f} against {alone[1]:.2f}: {10.0**difference:.2g} times the error of the single agent"
    needed = sight.units_to(graph, agents, alone[1])
    if needed is not None:
        text += f"; it has the single agent's error after {needed:.3g} units, {needed / UNITS:.2f} times the operations"
    return _Finding(difference <= COMPARABLE, text)


_AT_T = "smallest error at T"
_GROWS = "error at T grows with every m"
_AT_UNITS = f"error at {UNITS} units at most {10**COMPARABLE:g} times the single agent's"
_EQUAL = "is comparable to the single agent at equal operations per agent"

# The claim in words, how it is measured, and who judges it.
_CLAIMS: tuple[tuple[str, str, Callable[[_Sight], _Finding]], ...] = (
    (
        "The complete graph converges faster than any other for a fixed number of agents",
        "smallest error at T among the families, for every m",
        _complete_fastest,
    ),
    ("The complete graph performs best at 64 agents", _AT_T, partial(_best_at, graph="complete", agents=64)),
    ("Erdős–Rényi, p = 0.5, performs best at 128 agents", _AT_T, partial(_best_at, graph="er:0.5", agents=128)),
    ("Erdős–Rényi, p = 0.1, performs best at 256 agents", _AT_T, partial(_best_at, graph="er:0.1", agents=256)),
    ("Convergence degrades as p decreases", "larger error at T with p = 0.1 than with 0.5, for every m", _degrades),
    (
        "The random geometric graph performs very similarly to Erdős–Rényi, p = 0.1",
        f"errors at T within {CLOSE:g} in log10, for every m",
        _similar,
    ),
    ("Star: increasingly worse with more agents", _GROWS, partial(_worse_with_more, graph="star")),
    ("Lattice: increasingly worse with more agents", _GROWS, partial(_worse_with_more, graph="lattice")),
    (f"Erdős–Rényi, p = 0.1, with 256 agents {_EQUAL}", _AT_UNITS, partial(_comparable, graph="er:0.1", agents=256)),
    (f"Random geometric with 256 agents {_EQUAL}", _AT_UNITS, partial(_comparable, graph="rgg", agents=256)),
)


def check_claims(study: Study) -> list[Verdict]:
    """Every claim of the paper, in its order."""
    return list(_verdicts(study))


def _verdicts(study: Study) -> Iterator[Verdict]:
    for claim, measured_as, examine in _CLAIMS:
        sight = _Sight(study, None)
        finding = examine(sight)
        if finding.holds is None:
            yield Verdict(claim, measured_as, MISSING, "", "")
            continue
        alone = [examine(_Sight(study, seed)).holds for seed in study.seeds] if sight.drawn else []
        judged = [each for each in alone if each is not None]
        seeds = f"{sum(judged)} of {len(judged)}" if judged else ""
        yield Verdict(claim, measured_as, HOLDS if finding.holds else FAILS, finding.figures, seeds)


def _sequence(values: Values) -> str:
    return "by m: " + ", ".join(f"{m}: {values[m]:.2f}" for m in sorted(values))
