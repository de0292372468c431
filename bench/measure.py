"""One case: bandwidth, solver and rival in one process, interleaved, the best of several rounds."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from fdglm_bench.bandwidth import Bandwidth, limit_seconds
from fdglm_bench.cases import DTYPES, Case
from fdglm_bench.clock import repetitions, time_block
from fdglm_bench.data import Data, fast_steps_for, ordinary_duals, steps_for
from fdglm_bench.tune import Tuned, Tuner
from fdglm_fast.engine import Engine, set_threads
from fdglm_fast.halpern import FastEngine
from fdglm_fast.kernels.period import CHECK
from fdglm_fast.network import Network, build_network
from fdglm_fast.steps import StepSizes

CHECKED = 5  # iterations after which solver and rival are compared


@dataclass(frozen=True)
class Effort:
    """How long to measure: rounds, and seconds in a block."""

    rounds: int
    block_seconds: float = 0.1
    tries: int = 3  # of each variant of the rival


def measure_case(data: Data, case: Case, schedule: str, effort: Effort) -> dict[str, Any]:
    """A row of the table, with what it was made from."""
    from threadpoolctl import threadpool_limits

    threads = set_threads(case.threads, data.X.nbytes)
    network = build_network(case.graph if case.agents > 1 else "complete", case.agents)
    steps = steps_for(data, network)
    engine = new_engine(data, network, steps, schedule, threads)
    with threadpool_limits(threads, user_api="blas"):
        tuner = Tuner(data, network, steps, effort.tries)
        tuned = tuner.tune()
        difference = _difference(engine, tuned)
        fast = FastEngine(engine.problem, network, fast_steps_for(data, network), schedule=schedule, threads=threads)
        times = _rounds(data, engine, fast, tuned, effort)
    return {
        "agents": case.agents,
        "graph": case.graph,
        "dtype": case.dtype,
        "threads": threads,
        "schedule": engine.schedule,
        **_summary(data, case, times),
        "numpy": {
            **tuned.variant.describe(),
            "passes_ms": tuned.passes_ms,
            "exchange_ms": tuned.exchange_ms,
            "difference": difference,
        },
    }


def new_engine(data: Data, network: Network, steps: StepSizes, schedule: str, threads: int) -> Engine:
    """The solver at its start."""
    problem = data.problem.with_agents(network.agents)
    return Engine(problem, network, steps, schedule=schedule, threads=threads)


def fill_engine(engine: Engine) -> None:
    """Ordinary numbers in lambda; the samples that only pad the last tile stay zero."""
    lam = engine.state.lam
    tiles, m, B = lam.shape
    values = ordinary_duals((m, tiles * B))
    values[:, engine.problem.tiles.rows :] = 0.0
    lam[:] = values.reshape(m, tiles, B).transpose(1, 0, 2)


def _difference(engine: Engine, tuned: Tuned) -> float:
    """max |theta - theta of NumPy| / max |theta| after a few iterations from the start; both are then filled."""
    engine.advance(CHECKED)
    tuned.rival.advance(CHECKED)
    found = np.abs(engine.last - tuned.rival.theta).max() / np.abs(engine.last).max()
    fill_engine(engine)
    tuned.rival.lam[:] = ordinary_duals(tuned.rival.lam.shape)
    return float(found)


def _rounds(data: Data, engine: Engine, fast: Engine, tuned: Tuned, effort: Effort) -> dict[str, list[float]]:
    """Bytes a second, and seconds an iteration of both methods and of the rival, by round."""
    bandwidth = Bandwidth(data.problem.tiles.X)
    of_solver = repetitions(engine.advance, effort.block_seconds)
    of_rival = repetitions(tuned.rival.advance, effort.block_seconds)
    of_fast = max(CHECK, of_solver - of_solver % CHECK)  # whole rounds of looks at the residual
    while fast.effort.restarts == 0:  # the first one loads its kernel and touches the anchor's memory
        fast.advance(CHECK)
    times: dict[str, list[float]] = {"bandwidth": [], "solver": [], "fast": [], "numpy": []}
    for _ in range(effort.rounds):
        times["bandwidth"].append(bandwidth.measure(of_solver))
        times["solver"].append(time_block(engine.advance, of_solver))
        times["fast"].append(time_block(fast.advance, of_fast))
        times["numpy"].append(time_block(tuned.rival.advance, of_rival))
    return times


def _summary(data: Data, case: Case, times: dict[str, list[float]]) -> dict[str, Any]:
    bandwidth, solver, rival = max(times["bandwidth"]), min(times["solver"]), min(times["numpy"])
    itemsize = np.dtype(DTYPES[case.dtype]).itemsize
    limit = limit_seconds(data.n, data.d, case.agents, itemsize, bandwidth)
    return {
        "bandwidth_gb_s": bandwidth / 1e9,
        "limit_ms": 1e3 * limit,
        "solver_ms": 1e3 * solver,
        "share_of_limit": limit / solver,
        "fast_ms": 1e3 * min(times["fast"]),
        "fast_times_paper": min(times["fast"]) / solver,
        "fast_times_paper_median": median(f / s for f, s in zip(times["fast"], times["solver"], strict=True)),
        "numpy_ms": 1e3 * rival,
        "times_numpy": rival / solver,
        "rounds": {
            "bandwidth_gb_s": [value / 1e9 for value in times["bandwidth"]],
            "solver_ms": [1e3 * value for value in times["solver"]],
            "fast_ms": [1e3 * value for value in times["fast"]],
            "numpy_ms": [1e3 * value for value in times["numpy"]],
        },
    }
