"""What being careful costs: the same run with and without checkpoints, and with and without looks at the iterates.

Two figures each, because a difference of two times of some seconds is known to a percent at best: `difference` is with
against without, interleaved, the best of several rounds; `share` is the time spent on it, taken inside the run, divided
by the time of the run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fdglm_bench.cases import Case
from fdglm_bench.clock import repetitions, settle
from fdglm_bench.data import Data, steps_for
from fdglm_bench.measure import Effort, fill_engine, new_engine
from fdglm_fast.checkpoint import SHARE
from fdglm_fast.engine import Engine, set_threads
from fdglm_fast.network import Network, build_network
from fdglm_fast.options import Given, Options
from fdglm_fast.solver import Result, solve
from fdglm_fast.stopping import FINITE_EVERY

EVERY = 1.0  # seconds between checkpoints; a user's default is a minute
CHECKPOINT_BLOCKS = 80  # a run with checkpoints is this many blocks of time long
FINITE_SHARE = 0.01  # of the time that looks at the iterates may take


def measure_overhead(data: Data, case: Case, schedule: str, effort: Effort) -> list[dict[str, Any]]:
    """Two rows: checkpoints and finite checks."""
    from threadpoolctl import threadpool_limits

    threads = set_threads(case.threads, data.X.nbytes)
    network = build_network(case.graph if case.agents > 1 else "complete", case.agents)
    engine = new_engine(data, network, steps_for(data, network), schedule, threads)
    fill_engine(engine)
    about = {"agents": case.agents, "graph": case.graph, "dtype": case.dtype, "threads": threads}
    with threadpool_limits(1, user_api="blas"):
        block = repetitions(engine.advance, effort.block_seconds, most=10**6)
        checkpoints = _checkpoints(data, network, engine, CHECKPOINT_BLOCKS * block, effort.rounds)
        finite = _finite_checks(engine, max(1, 2 * block // FINITE_EVERY), 2 * effort.rounds)
    return [{**about, **checkpoints}, {**about, **finite}]


def _checkpoints(data: Data, network: Network, engine: Engine, iterations: int, rounds: int) -> dict[str, Any]:
    """A whole solve with a checkpoint every `EVERY` seconds and at its end, against one without."""
    steps = Given(chi=steps_for(data, network).chi, R=data.radius, force=True)
    problem = data.problem.with_agents(network.agents)

    def run(path: str | None) -> tuple[float, Result]:
        options = Options(
            iterations=iterations,
            record=f"every:{iterations}",
            steps=steps,
            schedule=engine.schedule,
            threads=engine.threads,
            checkpoint=path,
            checkpoint_every=EVERY,
        )
        began = time.perf_counter()
        result = solve(problem, network, options=options)
        return time.perf_counter() - began - result.seconds["setup"], result

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "checkpoint.h5"))
        cautious, plain = _interleaved(lambda: run(path), lambda: run(None), rounds)
        size = Path(path).stat().st_size
    seconds, result = min(cautious, key=lambda pair: pair[0])
    return {
        "what": "checkpoints",
        "iterations": iterations,
        "every_s": EVERY,
        "bytes": size,
        "writing_s": result.seconds["checkpoint"],
        **_compared(seconds, min(time for time, _ in plain)),
        "share": result.seconds["checkpoint"] / seconds,
        "allowed": SHARE,
    }


def _finite_checks(engine: Engine, calls: int, rounds: int) -> dict[str, Any]:
    """Calls of `FINITE_EVERY` iterations with a look after each, as the loop has it, against calls without."""
    looking = 0.0

    def checked() -> float:
        nonlocal looking
        began, looking = time.perf_counter(), 0.0
        for _ in range(calls):
            engine.advance(FINITE_EVERY)
            before = time.perf_counter()
            _look(engine)
            looking += time.perf_counter() - before
        return time.perf_counter() - began

    def unchecked() -> float:
        began = time.perf_counter()
        for _ in range(calls):
            engine.advance(FINITE_EVERY)
        return time.perf_counter() - began

    cautious, plain = _interleaved(lambda: (checked(), looking), unchecked, rounds)
    seconds, spent = min(cautious)
    return {
        "what": "finite checks",
        "iterations": calls * FINITE_EVERY,
        "looking_s": spent,
        **_compared(seconds, min(plain)),
        "share": spent / seconds,
        "allowed": FINITE_SHARE,
    }


def _look(engine: Engine) -> None:
    """What the loop does to notice a breakdown, and to have a good state to fall back to."""
    engine.is_finite()
    if not engine.problem.loss.smooth:
        engine.duals()
    _ = engine.average, engine.last


def _interleaved(careful: Callable[[], Any], plain: Callable[[], Any], rounds: int) -> tuple[list[Any], list[Any]]:
    found: tuple[list[Any], list[Any]] = [], []
    for number in range(rounds):
        pairs = list(zip((careful, plain), found, strict=True))
        for work, results in pairs if number % 2 == 0 else reversed(pairs):
            settle()
            results.append(work())
    return found


def _compared(careful: float, plain: float) -> dict[str, float]:
    return {"with_s": careful, "without_s": plain, "difference": careful / plain - 1.0}
