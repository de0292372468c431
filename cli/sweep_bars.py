"""What a person sees of a sweep: a bar over the runs and one for each run in progress, or a line for each run."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from fdglm_cli.terminal import new_bar, say, say_above

if TYPE_CHECKING:
    from rich.progress import Progress

    from fdglm_fast.evaluate import Point
    from fdglm_fast.sweep import Cell, Run


class SweepBars:
    """Bars on a terminal; elsewhere a line when a run ends. Silent where not `wanted`, but for failures."""

    def __init__(self, wanted: bool, iterations: int) -> None:
        self._wanted, self._iterations = wanted, iterations
        self._all = self._kept = self._ended = 0
        self._began = time.perf_counter()
        self._bar: Progress | None = None
        self._runs: Any = None
        self._places: dict[int, Any] = {}
        if wanted and sys.stderr.isatty():
            self._bar = new_bar()

    def __enter__(self) -> SweepBars:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, line: str) -> None:
        if not self._wanted:
            return
        if self._bar:
            say_above(self._bar, line)
        else:
            say(line)

    def loading(self, done: int, total: int) -> None:
        if self._bar:
            task = self._places.setdefault(-1, None)
            if task is None:
                task = self._places[-1] = self._bar.add_task("rows loaded", total=total)
            self._bar.update(task, completed=done, visible=done < total)

    def surveyed(self, runs: list[Run]) -> None:
        self._all, self._kept = len(runs), sum(run.status == "kept" for run in runs)
        self._ended = self._kept
        if self._kept:
            self.say(f"{self._kept} of {self._all} runs are there already")
        if self._bar:
            self._runs = self._bar.add_task("runs", total=self._all, completed=self._kept)

    def started(self, place: int, cell: Cell) -> None:
        if not self._bar:
            return
        if place not in self._places:
            self._places[place] = self._bar.add_task(cell.label, total=self._iterations)
        self._bar.reset(self._places[place], description=cell.label, total=self._iterations)

    def advanced(self, place: int, iteration: int, point: Point | None) -> None:
        if self._bar:
            self._bar.update(self._places[place], completed=iteration)

    def ended(self, place: int, run: Run) -> None:
        self._ended += 1
        if self._bar:
            self._bar.update(self._runs, completed=self._ended)
        if run.status == "failed":
            line = f"error: {run.cell.label}: {run.why}"
            self.say(line) if self._wanted else say(line)
        elif not self._bar:
            self.say(f"[{self._ended}/{self._all}] {run.cell.label}: {_outcome(run)}")


def _outcome(run: Run) -> str:
    report = run.report or {}
    error, residual = report["relative_error"]["average"], report["residual"]["average"]
    name, value = ("relative error", error) if error is not None else ("residual", residual)
    measured = f"{name} {value:.3e}" if value is not None else f"{name} unknown"  # at a fit of zero
    return f"{measured} after {report['iterations']} iterations, {report['time']['solve']:.2f} s"
