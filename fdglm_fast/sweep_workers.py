"""Runs of a sweep in several processes, which share the data that one has loaded.

X lies in a file without a name that all processes map, so that it is read, compressed and kept once. The processes are
started afresh: a process that has run kernels must not be forked. One that dies takes its run with it, and no more.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import DupFd
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.job import Loaded
from fdglm_fast.sweep import Cell, Plan, Run
from fdglm_fast.sweep_run import SweepWatch, run_cell

if TYPE_CHECKING:
    from fdglm_fast.evaluate import Point

LOOK_SECONDS = 0.2  # how often the question whether to stop is asked
LEAVE_SECONDS = 20.0  # what a process has to end its call of the kernels when it is told to stop
_GONE = (EOFError, OSError)  # what a pipe raises whose other end has died


@dataclass(frozen=True)
class SharedArray:
    """An array in an open file; the file's handle goes along when a process is started with it."""

    handle: int
    shape: tuple[int, ...]
    dtype: str

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self.handle), self.shape, self.dtype)

    def map(self) -> npt.NDArray[Any]:
        """The array, privately mapped: kernels are compiled for arrays that may be written."""
        mapped = mmap.mmap(self.handle, 0, access=mmap.ACCESS_COPY)
        return np.frombuffer(mapped, dtype=self.dtype).reshape(self.shape)


def _received(handle: Any, shape: tuple[int, ...], dtype: str) -> SharedArray:
    return SharedArray(handle.detach(), shape, dtype)


@dataclass(frozen=True, eq=False)
class Parcel:
    """What a process needs: the plan, the problem without X, and X."""

    plan: Plan
    bare: Loaded
    X: SharedArray

    def unpack(self) -> Loaded:
        problem = self.bare.problem
        return replace(self.bare, problem=replace(problem, tiles=problem.tiles._replace(X=self.X.map())))


def pack(plan: Plan, loaded: Loaded, file: IO[bytes], processes: int) -> Parcel:
    """A parcel whose X has been written to `file`; the processes divide the cores among them."""
    from fdglm_fast.kernels.arrays import most_threads

    X = loaded.problem.tiles.X
    X.tofile(file)
    file.flush()
    bare = replace(loaded, problem=replace(loaded.problem, tiles=loaded.problem.tiles._replace(X=None)))
    threads = plan.options.threads or max(1, most_threads() // processes)
    options = replace(plan.options, threads=threads, progress=None, interrupted=None)
    return Parcel(replace(plan, options=options), bare, SharedArray(file.fileno(), X.shape, X.dtype.str))


def work(pipe: Connection, parcel: Parcel, parent: int) -> None:
    """In a process: do the cells that come through the pipe until None comes; send progress and what became of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent says what to do
    loaded = parcel.unpack()

    def stop() -> bool:
        """During a run nothing comes through the pipe but the word to stop, or its end when the parent has died."""
        return pipe.poll() or os.getppid() != parent

    def progress(iteration: int, point: Point | None) -> None:
        pipe.send((iteration, point))

    with suppress(*_GONE):
        while (cell := pipe.recv()) is not None:
            pipe.send(run_cell(parcel.plan, loaded, cell, progress, stop))


class _Worker:
    """A process, the pipe to it, and the cell that it is at."""

    def __init__(self, place: int, parcel: Parcel, cell: Cell) -> None:
        context = multiprocessing.get_context("spawn")
        self.place, self.cell = place, cell
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, parcel, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        self.give(cell)

    def give(self, cell: Cell) -> None:
        self.cell = cell
        with suppress(OSError):  # that it has died already is noticed when it is listened to
            self.pipe.send(cell)

    def stop(self) -> None:
        """Tell the process to end, which stops its run."""
        with suppress(OSError):
            self.pipe.send(None)

    def leave(self) -> int:
        """Wait until the process has ended; its exit code."""
        self.stop()
        self._process.join(LEAVE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.pipe.close()
        return self._process.exitcode or 0

    def died(self, plan: Plan) -> Run:
        code = self.leave()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Run(self.cell, plan.path(self.cell), "failed", 1, f"its process ended with {how}.")


def run_in_processes(
    plan: Plan, loaded: Loaded, waiting: list[Cell], watch: SweepWatch, processes: int
) -> Iterator[Run]:
    """The runs as they end. After a word to stop, those in progress are given up."""
    left = deque(waiting)
    busy: dict[Connection, _Worker] = {}
    with tempfile.TemporaryFile(prefix="fdglm-") as file:
        parcel = pack(plan, loaded, file, processes)

        def start(place: int) -> None:
            watch.started(place, left[0])
            worker = _Worker(place, parcel, left.popleft())
            busy[worker.pipe] = worker

        try:
            for place in range(processes):
                start(place)
            while busy and not watch.stop():
                for pipe in wait(list(busy), LOOK_SECONDS):
                    worker = busy[pipe]  # type: ignore[index]
                    run, alive = _listen(plan, worker, watch)
                    if run is None:
                        continue
                    watch.ended(worker.place, run)
                    yield run
                    if alive and left:
                        watch.started(worker.place, left[0])
                        worker.give(left.popleft())
                        continue
                    del busy[worker.pipe]
                    if alive:
                        worker.leave()
                    elif left:
                        start(worker.place)
        finally:
            for worker in busy.values():
                worker.stop()  # all at once, before one is waited for
            for worker in busy.values():
                worker.leave()


def _listen(plan: Plan, worker: _Worker, watch: SweepWatch) -> tuple[Run | None, bool]:
    """What a process has to say: progress (None), or what became of its run; and whether it lives."""
    try:
        said = worker.pipe.recv()
    except _GONE:
        return worker.died(plan), False
    if isinstance(said, Run):
        return said, True
    if said is not None:
        watch.advanced(worker.place, *said)
    return None, True
