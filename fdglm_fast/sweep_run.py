"""Doing the runs of a sweep, one after the other in this process or in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fdglm_fast.errors import FdglmError
from fdglm_fast.existing import content_of
from fdglm_fast.job import Loaded, Watch, check, load, run_loaded
from fdglm_fast.sweep import Cell, Plan, Run, folder_lock, survey

if TYPE_CHECKING:
    from fdglm_fast.evaluate import Point


def _nothing(*ignored: Any) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class SweepWatch:
    """Whom a sweep tells what it does. A place is where a run happens: 0, or the number of a process.

    `started(place, cell)`, `advanced(place, iteration, point)` and `ended(place, run)`; `stop` is asked between calls
    of the kernels.
    """

    say: Callable[[str], None] = _nothing
    loading: Callable[[int, int], None] | None = None
    surveyed: Callable[[list[Run]], None] = _nothing
    started: Callable[[int, Cell], None] = _nothing
    advanced: Callable[[int, int, Point | None], None] = _nothing
    ended: Callable[[int, Run], None] = _nothing
    stop: Callable[[], bool] = field(default=lambda: False)


def sweep(plan: Plan, watch: SweepWatch | None = None, *, processes: int = 1, force: bool = False) -> list[Run]:
    """Do what is missing; the runs in the order of the plan. Runs that were not reached stay `open`."""
    watch = watch or SweepWatch()
    check(replace(plan.job, agents=1), plan.options)
    with folder_lock(plan.folder):
        content = content_of(plan.job)
        runs = survey(plan, content, force)
        watch.surveyed(runs)
        waiting = [run.cell for run in runs if run.status == "open"]
        if not waiting:
            return runs
        # A file that splits its columns itself is loaded for that number of agents, which cannot be changed later.
        loaded = load(
            replace(plan.job, agents=content.split or 1),
            plan.options,
            Watch(watch.say, watch.loading),
            hashed=True,
            sweep=True,
        )
        done = {run.cell: run for run in _each(plan, loaded, waiting, watch, processes)}
        return [done.get(run.cell, run) for run in runs]


def _each(plan: Plan, loaded: Loaded, waiting: list[Cell], watch: SweepWatch, processes: int) -> Iterator[Run]:
    if processes > 1 and len(waiting) > 1:
        from fdglm_fast.sweep_workers import run_in_processes

        yield from run_in_processes(plan, loaded, waiting, watch, min(processes, len(waiting)))
        return
    for cell in waiting:
        if watch.stop():
            return
        watch.started(0, cell)
        run = run_cell(plan, loaded, cell, lambda *how: watch.advanced(0, *how), watch.stop)
        if run is None:
            return
        watch.ended(0, run)
        yield run


def run_cell(
    plan: Plan,
    loaded: Loaded,
    cell: Cell,
    progress: Callable[[int, Point | None], None],
    interrupted: Callable[[], bool],
) -> Run | None:
    """One run, saved as it ends; None when it was interrupted. Whatever goes wrong with it is its own affair."""
    from fdglm_fast.result import as_json, save_result
    from fdglm_fast.stopping import BREAKDOWNS, StopReason, exit_code

    path = plan.path(cell)
    options = replace(plan.options, progress=progress, interrupted=interrupted)
    try:
        outcome = run_loaded(loaded, cell.job(plan.job), options)
        reason = outcome.result.stop_reason
        if reason is StopReason.INTERRUPTED:
            return None
        report = as_json(outcome, plan.tags, plan.command)
        code = exit_code(reason, plan.options.tol is not None)
        if reason in BREAKDOWNS:
            why = f"the iterates are not finite any more, or grow, after iteration {outcome.result.iterations}."
            return Run(cell, path, "failed", code, why, report)
        save_result(path, outcome, report, force=True)
        return Run(cell, path, "done", code, report=report)
    except FdglmError as error:
        return Run(cell, path, "failed", error.exit_code, str(error))
    except MemoryError:
        return Run(cell, path, "failed", 3, "there is not enough memory.")
