"""Curves of the runs of a cell against an axis: the median over the seeds, and the range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdglm_fast.report.axes import Axis
from fdglm_fast.report.study import Study
from fdglm_fast.runs import Run

Array = npt.NDArray[np.float64]
POINTS = 100  # of a curve that has to be resampled; a screen shows no more


@dataclass(frozen=True, eq=False)
class Curve:
    """log10 of the measure, `y`, at places x; `low` and `high` where there are several seeds."""

    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None


def curve(study: Study, runs: list[Run], axis: Axis, limit: float | None = None) -> Curve | None:
    """The curve of a cell up to `limit`; None where the axis does not know the runs, or nothing was recorded."""
    known = [(run, width) for run in runs if (width := axis.width(run)) is not None and width > 0.0]
    if not known:
        return None
    places = _places(known, axis, limit)
    if places is None:
        return None
    lines = np.array([_line(study, run, places / width) for run, width in known])
    keep = np.isfinite(lines).all(axis=0)
    if not keep.any():
        return None
    x, lines = places[keep], lines[:, keep]
    y = np.median(lines, axis=0)
    return Curve(x, y) if len(known) == 1 else Curve(x, y, lines.min(axis=0), lines.max(axis=0))


def _line(study: Study, run: Run, iterations: Array) -> Array:
    """log10 of the measure; before the first record, the value at the start where it is known."""
    line = study.logarithm(run, iterations)
    start = study.measure.start
    if start is not None:
        line[iterations == 0.0] = np.log10(start)
    return line


def _places(known: list[tuple[Run, float]], axis: Axis, limit: float | None) -> Array | None:
    """Where the curve is drawn: at the records, if one run or equal widths have them; else evenly in the logarithm."""
    records = [run.column("iteration") for run, _ in known]
    widths = {width for _, width in known}
    same = len(widths) == 1 and all(np.array_equal(t, records[0]) for t in records)
    if same and len(records[0]) <= 2 * POINTS:
        x = records[0] * widths.pop()
    else:
        first = max(t[0] * width for t, (_, width) in zip(records, known, strict=True))
        last = min(t[-1] * width for t, (_, width) in zip(records, known, strict=True))
        if first > last:
            return None
        x = np.geomspace(first, last, POINTS)
        x[0], x[-1] = first, last  # not beyond the records by rounding
    if limit is not None:
        x = x[x <= limit] if x[-1] <= limit else np.append(x[x < limit], limit)
    return x if axis.log else np.append(0.0, x)
