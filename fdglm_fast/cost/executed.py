"""What the compiled kernels really do: their own tally, at full size without running at full size.

An iteration of the fused kernels executes a number of operations that is affine in the number of row tiles: every tile
does the same, and what theta needs besides does not depend on the tiles. (Nor does it depend on the groups in which
tiles are summed up: a group begins by storing instead of adding, and is added itself later, so that their number
cancels out.) Two runs, with two and with three tiles, on the real columns and network, give the count for any number of
tiles. Samples of padding are computed with, and so they count.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.setting import Setting

if TYPE_CHECKING:
    from fdglm_fast.engine import Engine

FEW, MORE = 2, 3


@dataclass(frozen=True, eq=False)
class Executed:
    """Operations of one iteration by phase and agent; `shared` are neighbour sums that several agents use."""

    phases: dict[str, npt.NDArray[np.int64]]
    shared: int
    padded_rows: int  # samples that were computed with


def executed(setting: Setting, notify: Callable[[str], None] | None = None) -> Executed:
    """The tally of one iteration for all of the setting's samples."""
    from fdglm_fast.kernels.arrays import tile_count, tile_rows

    B, tiles = tile_rows(setting.dtype), tile_count(setting.n, setting.dtype)
    few, more = (tally(setting, count * B, notify) for count in (FEW, MORE))
    found = {phase: few[phase] + (tiles - FEW) * (more[phase] - few[phase]) for phase in few}
    shared = int(found.pop("shared").sum())
    return Executed(found, shared, tiles * B)


def tally(setting: Setting, rows: int, notify: Callable[[str], None] | None = None) -> dict[str, npt.NDArray[np.int64]]:
    """Operations of one iteration with `rows` samples, as the kernels note them; X is zero, which does not matter."""
    from fdglm_fast.engine import Engine, set_threads
    from fdglm_fast.halpern import FastEngine
    from fdglm_fast.kernels.period import K
    from fdglm_fast.local_steps import LocalSteps
    from fdglm_fast.memory import require_memory
    from fdglm_fast.problem import Problem, empty_tiles
    from fdglm_fast.steps import StepSizes

    set_threads(1, 0)
    needed = setting.dtype.itemsize * rows * (setting.d + 4 * setting.agents)
    require_memory(needed, "counting what the kernels execute")
    response = np.arange(rows) % 2.0  # fits every loss
    tiles = empty_tiles(rows, setting.d, setting.dtype)
    groups = setting.groups
    problem = Problem.from_tiles(tiles, response, setting.partition, setting.loss, setting.penalty, groups=groups)
    engine: Engine
    if setting.method == "fast":
        local = LocalSteps(np.ones(setting.d), np.ones(setting.agents), np.ones(setting.agents), 1.0)
        engine = FastEngine(problem, setting.network, local, schedule="tiles", tally=True)
        engine.snapshot()["period"][K] = 1  # an iteration like most others: neither a look nor a restart
    else:
        steps = StepSizes("given", 1.0, 1.0, 1.0, 1.0, 1.0, None, 1.0, 1.0)
        engine = Engine(problem, setting.network, steps, schedule="tiles", tally=True)
    _advance(engine, setting.dtype.name, notify)
    return engine.executed()


def _advance(engine: Engine, dtype: str, notify: Callable[[str], None] | None) -> None:
    """One iteration. Tallying kernels are compiled apart from the others, by one process at a time."""
    from fdglm_fast.kernels.compile import cache_folder, cache_lock, empty_cache

    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        engine.advance(1)
        return
    folder = cache_folder()
    marker = folder / f"{dtype}-tally.ready"
    with cache_lock(folder):
        if notify and not marker.exists():
            notify(f"compiling kernels ({dtype}-tally), once for this version; later runs load them from {folder}")
        try:
            engine.advance(1)
        except Exception:  # a spoiled cache can raise anything
            empty_cache(folder)
            engine.advance(1)
        with contextlib.suppress(OSError):
            marker.touch()
