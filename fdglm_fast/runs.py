"""A folder of results, as `fdglm sweep` or a loop over `fdglm solve` leaves it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import DataError, FdglmError
from fdglm_fast.files import printable

Array = npt.NDArray[np.float64]
SINGLE = "single"  # the name of the network that one agent does not have
PAPER = "paper"  # the method of results that do not name one


@dataclass(frozen=True, eq=False)
class Run:
    """One result: where it lies and the JSON of its run."""

    name: str
    report: dict[str, Any]

    def __post_init__(self) -> None:
        """DataError where the JSON is not that of a run."""
        try:
            whole = [self.report["data"]["n"], self.report["data"]["d"], self.agents, self.iterations, self.max_degree]
            sound = all(isinstance(value, int) and value >= 0 for value in whole) and self.agents >= 1
            words = [self.report["loss"], self.report["penalty"], self.report["stop_reason"], self.dtype, self.method]
            sound = sound and all(isinstance(word, str) for word in words) and len(self.column("iteration")) > 0
            sound = sound and (self.agents == 1 or isinstance(self.report["graph"]["spec"], str))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"'{printable(self.name)}' is not the result of a run.") from error
        if not sound:
            raise DataError(f"'{printable(self.name)}' is not the result of a run.")

    @property
    def agents(self) -> int:
        return self.report["agents"]  # type: ignore[no-any-return]

    @property
    def graph(self) -> str:
        """The specification of the network, or `single`."""
        return SINGLE if self.agents == 1 else str(self.report["graph"]["spec"])

    @property
    def seed(self) -> int | None:
        """The seed of a random network; None for one that is not drawn."""
        from fdglm_fast.graph_spec import parse_spec
        from fdglm_fast.graphs import RANDOM

        if self.agents == 1:
            return None
        try:
            drawn = parse_spec(self.graph).name in RANDOM
        except FdglmError:
            return None
        return self.report["graph"].get("seed") if drawn else None

    @property
    def method(self) -> str:
        """The method, and its rounds of gossip where there are several: runs that differ in them are compared."""
        name, rounds = str(self.report.get("method", PAPER)), self.report.get("gossip") or 1
        return name if rounds == 1 else f"{name}, gossip {rounds}"

    @property
    def n(self) -> int:
        return self.report["data"]["n"]  # type: ignore[no-any-return]

    @property
    def d(self) -> int:
        return self.report["data"]["d"]  # type: ignore[no-any-return]

    @property
    def dtype(self) -> str:
        return self.report["data"]["dtype"]  # type: ignore[no-any-return]

    @property
    def itemsize(self) -> int:
        return 4 if self.dtype == "float32" else 8

    @property
    def iterations(self) -> int:
        return self.report["iterations"]  # type: ignore[no-any-return]

    @property
    def max_degree(self) -> int:
        return self.report["graph"]["max_degree"]  # type: ignore[no-any-return]

    def column(self, name: str) -> Array:
        """A column of the trace; NaN where it is unknown."""
        values = [record[name] for record in self.report["trace"]]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    @cached_property
    def label(self) -> str:
        """m, network, seed and method in a few words."""
        how = "" if self.method == PAPER else f", {self.method}"
        if self.agents == 1:
            return f"1 agent{how}"
        return f"{self.agents} agents, {self.graph}" + ("" if self.seed is None else f", seed {self.seed}") + how


@dataclass(frozen=True, eq=False)
class Folder:
    """The results of a folder, and a sentence for each file that is none."""

    path: str
    runs: list[Run]
    notes: list[str] = field(default_factory=list)


def read_folder(path: str | os.PathLike[str]) -> Folder:
    """All results `*.h5` of a folder, by agents, network and seed; DataError where there is none."""
    from fdglm_fast.result import read_result

    folder = Path(path)
    if not folder.is_dir():
        raise DataError(f"'{printable(path)}' is not a folder.")
    runs, notes = [], []
    for file in sorted(folder.glob("*.h5")):
        if file.name.startswith("."):
            continue
        try:
            runs.append(Run(file.name, read_result(str(file)).run))
        except FdglmError as error:
            notes.append(str(error))
    if not runs:
        more = f"; {notes[0]}" if notes else "."
        raise DataError(f"'{printable(path)}' holds no results of `fdglm solve` or `fdglm sweep`{more}")
    return Folder(str(path), sorted(runs, key=_order), notes)


def _order(run: Run) -> tuple[int, str, int, str]:
    return run.agents, run.graph, -1 if run.seed is None else run.seed, run.name
