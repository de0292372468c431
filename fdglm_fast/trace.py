"""What a run records, and when."""

from __future__ import annotations

import csv
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, TextIO

import numpy as np

from fdglm_fast.errors import UsageError

MOST_RECORDS = 1_000_000  # they are kept in memory


@dataclass(frozen=True)
class Record:
    """One line of the trace; `average` is the ergodic average of theta, `last` the last iterate."""

    iteration: int
    objective_average: float
    objective_last: float
    relative_error_average: float | None
    relative_error_last: float | None
    residual_average: float
    residual_last: float
    gap_average: float | None
    gap_last: float | None
    bound: float | None  # what the theorem guarantees for objective_average - reference
    seconds: float  # spent iterating, without the measuring
    ops_per_agent: float  # by the model, in the paper's unit: iterations of a single agent
    bytes_sent: int  # by all agents together

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Record:
        """The record that `as_json` gave; an objective that was not finite comes back as NaN."""
        never = ("objective_average", "objective_last", "residual_average", "residual_last")
        known: dict[str, Any] = {k: math.nan if v is None and k in never else v for k, v in values.items()}
        return cls(**known)

    def as_json(self) -> dict[str, float | int | None]:
        return {key: _finite(value) for key, value in asdict(self).items()}


def _finite(value: float | int | None) -> float | int | None:
    return None if value is None or not math.isfinite(value) else value


def record_points(rule: str, iterations: int) -> list[int]:
    """When the trace is taken: `log:K` (about K iterations, evenly in the logarithm) or `every:K`; the last too."""
    name, _, text = rule.partition(":")
    whole = text.isascii() and text.isdecimal() and len(text) <= 18
    k = int(text) if whole else 0
    if name not in ("log", "every") or k < 1:
        raise UsageError(f"--record takes log:K or every:K with a whole number K >= 1, not '{rule}'.")
    if (k if name == "log" else iterations // k) > MOST_RECORDS:
        raise UsageError(f"--record {rule} would take more than {MOST_RECORDS} records; choose another K.")
    if name == "every":
        points = set(range(k, iterations + 1, k))
    elif k == 1:
        points = set()
    else:
        points = {round(x) for x in np.geomspace(1.0, iterations, k)}
    return sorted(points | {iterations})


def write_csv(records: list[Record], stream: TextIO) -> None:
    """The trace as CSV, one line a record; unknown is empty."""
    write_rows([record.as_json() for record in records], stream)


def write_rows(records: list[dict[str, float | int | None]], stream: TextIO) -> None:
    """The same from the JSON of the records."""
    names = [f.name for f in fields(Record)]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for values in records:
        writer.writerow(["" if values[name] is None else repr(values[name]) for name in names])
