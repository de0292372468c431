"""A grid of runs: numbers of agents, networks and seeds, on one problem; a file for each, and what is there is kept.

A result appears whole, right after its run, under a name that tells m, the network and the seed. Its fingerprint tells
whether it is the one that is wanted, so that a sweep that was cut off goes on where it was.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fdglm_fast.errors import UsageError
from fdglm_fast.existing import Content, Existing, State, look, mark_of, refuse_other
from fdglm_fast.files import printable
from fdglm_fast.graph_spec import parse_spec
from fdglm_fast.graphs import RANDOM
from fdglm_fast.job import Job
from fdglm_fast.options import Options

SUFFIX = ".h5"


@dataclass(frozen=True)
class Cell:
    """A point of the grid; one agent has no network, and a network that is not drawn has no seed."""

    agents: int
    graph: str | None = None
    seed: int | None = None

    @property
    def label(self) -> str:
        words = [f"m = {self.agents}"] + ([printable(self.graph, 60)] if self.graph else [])
        return ", ".join(words + ([] if self.seed is None else [f"seed {self.seed}"]))

    @property
    def file_name(self) -> str:
        """m0064_er-0.1_seed2.h5, m0064_star.h5, m0001_single.h5."""
        if self.graph is None:
            return f"m{self.agents:04d}_single{SUFFIX}"
        word = re.sub(r"[^A-Za-z0-9.]+", "-", self.graph)[:60]
        if parse_spec(self.graph).path is not None:  # different paths must not meet under one name
            word += "-" + hashlib.sha256(self.graph.encode()).hexdigest()[:8]
        drawn = "" if self.seed is None else f"_seed{self.seed}"
        return f"m{self.agents:04d}_{word}{drawn}{SUFFIX}"

    def job(self, template: Job) -> Job:
        return replace(template, agents=self.agents, graph=self.graph or "complete", seed=self.seed or 0)


@dataclass(frozen=True)
class Preset:
    """What a sweep takes unless told otherwise; `least` is the smallest m of a network."""

    agents: tuple[int, ...]
    graphs: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    iterations: int = 5000
    record: str = "log:60"
    reference: bool = False
    least: Mapping[str, int] = field(default_factory=dict)


# Section 4 of the paper: random graphs only where they are connected with high probability.
PAPER = Preset(
    agents=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    graphs=("complete", "star", "er:0.5", "er:0.1", "lattice", "rgg"),
    seeds=(0, 1, 2),
    record="log:120",
    reference=True,
    least={"er:0.5": 8, "er:0.1": 32, "lattice": 4, "rgg": 32},
)
PLAIN = Preset(agents=(), graphs=("complete",))


def grid(
    agents: Sequence[int], graphs: Sequence[str], seeds: Sequence[int], least: Mapping[str, int] | None = None
) -> list[Cell]:
    """The cells, by m and then as the networks are listed: one agent once, networks that are not drawn once."""
    cells: dict[Cell, None] = {}
    for m in sorted(set(agents)):
        if m < 1:
            raise UsageError(f"the number of agents must be at least 1, not {m}.")
        if m == 1:
            cells[Cell(1)] = None
            continue
        for graph in graphs:
            if m < (least or {}).get(graph, 2):
                continue
            drawn = parse_spec(graph).name in RANDOM
            for seed in seeds if drawn else [None]:
                cells[Cell(m, graph, seed)] = None
    if not cells:
        raise UsageError("the sweep has no runs: no network is used for these numbers of agents.")
    return list(cells)


@dataclass(frozen=True)
class Plan:
    """A sweep: the job and the options of every run, the cells, the folder; `command` and `tags` go into results."""

    job: Job
    options: Options
    cells: tuple[Cell, ...]
    folder: str
    command: str | None = None
    tags: dict[str, str] = field(default_factory=dict)

    def path(self, cell: Cell) -> str:
        """What is not the default of method, gossip and weights is part of the name: a folder has room for all."""
        method, gossip, weights = self.options.method, self.options.gossip, self.job.weights
        kind = "" if method == "paper" else f"_{method}"
        kind += "" if gossip == 1 else f"_gossip{gossip}"
        kind += "" if weights == "unit" else f"_{weights}"
        return os.path.join(self.folder, cell.file_name.removesuffix(SUFFIX) + kind + SUFFIX)


@dataclass(frozen=True)
class Run:
    """What became of a cell: `done` now, `kept` from before, `failed` (why), or `open`; `code` is its exit code."""

    cell: Cell
    path: str
    status: str
    code: int = 0
    why: str | None = None
    report: dict[str, Any] | None = None


def survey(plan: Plan, content: Content, force: bool) -> list[Run]:
    """What is there already: finished runs are kept, the others open. UsageError where something else is in the way."""
    found = []
    for cell in plan.cells:
        path = plan.path(cell)
        seen = look(path, mark_of(cell.job(plan.job), plan.options, content, sweep=True))
        if seen.state is State.OTHER and not force:
            raise refuse_other(path)
        found.append(kept(plan, cell, seen) if seen.state is State.DONE else Run(cell, path, "open"))
    return found


def kept(plan: Plan, cell: Cell, seen: Existing) -> Run:
    from fdglm_fast.stopping import StopReason, exit_code

    assert seen.run is not None
    code = exit_code(StopReason(seen.run["stop_reason"]), plan.options.tol is not None)
    return Run(cell, plan.path(cell), "kept", code, report=seen.run)


@contextmanager
def folder_lock(folder: str) -> Iterator[None]:
    """The folder, made where it is not there, held against another sweep; what a killed one left behind is removed."""
    import fcntl

    shown = printable(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(f"the folder '{shown}' cannot be used: {os.strerror(error.errno or 0)}.") from error
    try:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"the folder '{shown}' cannot be written.")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"another sweep is writing into '{shown}'.") from error
        except OSError:  # a file system without locks
            yield
            return
        _clear(folder)
        yield
    finally:
        os.close(handle)


def _clear(folder: str) -> None:
    """Remove half-written results; nobody writes into a folder that is locked."""
    for path in Path(folder).glob(f".m[0-9]*.tmp{SUFFIX}"):
        with suppress(OSError):
            path.unlink()
