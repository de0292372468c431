"""The cost of an iteration against n and against d, the other held fixed: both should be straight lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fdglm_bench.bandwidth import Bandwidth, limit_seconds
from fdglm_bench.cases import NO_GRAPH
from fdglm_bench.clock import repetitions, time_block
from fdglm_bench.data import make_data, steps_for
from fdglm_bench.measure import Effort, fill_engine, new_engine
from fdglm_fast.engine import set_threads
from fdglm_fast.network import build_network

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # of n and of d; the smallest is still larger than most caches
NETWORKS = ((1, NO_GRAPH), (64, "rgg"))


@dataclass(frozen=True)
class Point:
    """One measurement: what is varied (`samples` or `features`), the size, the network."""

    varied: str
    n: int
    d: int
    agents: int
    graph: str

    def __str__(self) -> str:
        return f"n={self.n} d={self.d} m={self.agents} {self.graph}"


def scaling_points(n: int, d: int) -> list[Point]:
    """Points along both axes for each network; networks with more agents than features are left out."""
    sizes = [("samples", max(1, round(f * n)), d) for f in FACTORS]
    sizes += [("features", n, max(1, round(f * d))) for f in FACTORS]
    least = min(size for _, _, size in sizes)
    networks = [(m, graph) for m, graph in NETWORKS if m <= least]
    return [Point(varied, rows, columns, m, graph) for varied, rows, columns in sizes for m, graph in networks]


def measure_point(point: Point, schedule: str, threads: int, effort: Effort) -> dict[str, Any]:
    """Time of an iteration, float64, beside the limit of the same moment."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        data = make_data(point.n, point.d, "float64")
        network = build_network(point.graph if point.agents > 1 else "complete", point.agents)
        engine = new_engine(data, network, steps_for(data, network), schedule, set_threads(threads, data.X.nbytes))
        fill_engine(engine)
        bandwidth = Bandwidth(data.problem.tiles.X)
        count = repetitions(engine.advance, effort.block_seconds)
        speeds, seconds = [], []
        for _ in range(effort.rounds):
            speeds.append(bandwidth.measure(count))
            seconds.append(time_block(engine.advance, count))
    limit = limit_seconds(point.n, point.d, point.agents, 8, max(speeds))
    return {
        "varied": point.varied,
        "samples": point.n,
        "features": point.d,
        "agents": point.agents,
        "graph": point.graph,
        "dtype": "f64",
        "threads": engine.threads,
        "schedule": engine.schedule,
        "bandwidth_gb_s": max(speeds) / 1e9,
        "limit_ms": 1e3 * limit,
        "solver_ms": 1e3 * min(seconds),
        "share_of_limit": limit / min(seconds),
    }


@dataclass(frozen=True)
class Line:
    """The straight line a + b x that fits times best in proportion, and how far they are from it at most."""

    a: float
    b: float
    worst: float  # max |time / line - 1|

    def at(self, x: float) -> float:
        return self.a + self.b * x


def fit_line(x: list[float], times: list[float]) -> Line:
    """Least squares of the relative deviations (a + b x)/time - 1."""
    size, time = np.asarray(x, dtype=float), np.asarray(times, dtype=float)
    scale = size.max()
    design = np.column_stack((1.0 / time, size / scale / time))
    a, slope = np.linalg.lstsq(design, np.ones(len(time)), rcond=None)[0]
    fitted = a + slope * size / scale
    return Line(float(a), float(slope / scale), float(np.abs(fitted / time - 1.0).max()))


def lines_of(rows: list[dict[str, Any]]) -> list[tuple[str, int, str, Line]]:
    """For each axis and network of a report: what was varied, agents, graph, and the line through its times."""
    found = []
    for varied, agents, graph in dict.fromkeys((row["varied"], row["agents"], row["graph"]) for row in rows):
        mine = [row for row in rows if (row["varied"], row["agents"], row["graph"]) == (varied, agents, graph)]
        if len(mine) > 1:
            line = fit_line([row[varied] for row in mine], [row["solver_ms"] for row in mine])
            found.append((varied, agents, graph, line))
    return found
