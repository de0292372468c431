"""What a person sees while waiting: lines, bars, and how Ctrl-C ends a run. Everything goes to standard error."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import Progress

    from fdglm_fast.evaluate import Point


def say(line: str) -> None:
    click.echo(f"fdglm: {line}", err=True)


@contextmanager
def stop_signals(grace: float = 0.0) -> Iterator[Callable[[], bool]]:
    """Yields a question: has Ctrl-C or SIGTERM asked to stop? The second signal stops at once.

    Until the question is put for the first time there is nothing to save, and the first signal stops at once too. A
    signal that comes within `grace` seconds of the first is the same one: a rank gets it from the terminal and again
    from mpiexec.
    """
    asked = listening = False
    when = 0.0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal asked, when
        if asked and time.monotonic() - when < grace:
            return
        if asked or not listening:
            raise KeyboardInterrupt
        asked, when = True, time.monotonic()

    def question() -> bool:
        nonlocal listening
        listening = True
        return asked

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield question
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def new_bar() -> Progress:
    """Bar, count, description and time left, on standard error; it vanishes when it is stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    whole = Column(no_wrap=True)  # on a narrow terminal the bar gives way, not the numbers
    return Progress(
        BarColumn(),
        MofNCompleteColumn(table_column=whole),
        TextColumn("{task.description}"),
        TimeRemainingColumn(table_column=whole),
        console=Console(stderr=True),
        transient=True,
    )


def say_above(bar: Progress, line: str) -> None:
    """A line above a bar that is running."""
    bar.console.print(f"fdglm: {line}", style="dim", highlight=False, markup=False, soft_wrap=True)


class Bars:
    """Progress bars for loading and iterating; silent unless standard error is a terminal."""

    def __init__(self, wanted: bool, iterations: int) -> None:
        self._iterations = iterations
        self._bar: Progress | None = None
        self._tasks: dict[str, Any] = {}
        self._point: Point | None = None
        if wanted and sys.stderr.isatty():
            self._bar = new_bar()

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._bar and self._tasks:
            self._bar.stop()

    @property
    def active(self) -> bool:
        return self._bar is not None

    def say(self, line: str) -> None:
        if self._bar and self._tasks:
            say_above(self._bar, line)
        else:
            say(line)

    def loading(self, done: int, total: int) -> None:
        self._update("rows", done, total, "rows loaded")
        if self._bar and done >= total:
            self._bar.update(self._tasks["rows"], visible=False)

    def iterating(self, done: int, point: Point | None) -> None:
        self._point = point or self._point
        note = "iterations"
        if self._point:
            note = f"objective {self._point.objective:.6g}  residual {self._point.residual:.1e}"
        task = self._tasks.get("iterations")
        speed = self._bar.tasks[task].speed if self._bar and task is not None else None
        self._update("iterations", done, self._iterations, f"{note}  {speed:.0f} it/s" if speed else note)

    def _update(self, name: str, done: int, total: int, note: str) -> None:
        if not self._bar:
            return
        if not self._tasks:
            self._bar.start()
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(note, total=total)
        self._bar.update(self._tasks[name], completed=done, description=note)
