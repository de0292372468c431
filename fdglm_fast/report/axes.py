"""Horizontal axes: what an iteration of a run costs, in iterations, operations, bytes or modelled seconds.

The paper's method by the models of its iterations, which are all alike; another one by what the run has spent in all,
with its looks and restarts, over its iterations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from fdglm_fast.cost.model import messages, normalized_cost, paper_cost
from fdglm_fast.cost.timing import PRESETS, Link, exchange_seconds, iteration_seconds
from fdglm_fast.errors import FdglmError
from fdglm_fast.network import FITTED, Network, build_network
from fdglm_fast.partition import contiguous
from fdglm_fast.runs import PAPER, Run

UNITS = 32  # where the paper's second figure ends: what one agent spends in so many iterations


@dataclass(frozen=True)
class Axis:
    """`width` is what one iteration of a run takes on the axis; None where that is not known."""

    name: str
    label: str
    width: Callable[[Run], float | None]
    log: bool = False


@lru_cache(maxsize=4096)
def _network(spec: str, agents: int, seed: int, weights: str, chi: float | None) -> Network | None:
    try:
        return build_network(spec, agents, seed, weights, chi)
    except FdglmError:  # a graph file that is gone, or a family that this version does not know
        return None


def network_of(run: Run) -> Network | None:
    """The network of a run, built again from its description; None where that is not possible."""
    graph = run.report["graph"]
    seed, weights = graph.get("seed"), graph.get("weights")
    chi = run.report.get("steps", {}).get("chi") if weights in FITTED else None
    return _network(run.graph if run.agents > 1 else "complete", run.agents, seed or 0, weights or "unit", chi)


def stated(run: Run, name: str) -> float | None:
    """A cost as the run itself states it."""
    value = (run.report.get("cost") or {}).get(name)
    return float(value) if isinstance(value, (int, float)) else None


def each(run: Run, name: str) -> float | None:
    """A stated total, for an iteration."""
    total = stated(run, name)
    return None if total is None or run.iterations < 1 else total / run.iterations


def operations(run: Run) -> float:
    """Operations per agent, in units of one iteration of one agent: the axis of the paper's second figure."""
    if run.method != PAPER:
        own = each(run, "normalized_ops_total")
        return math.nan if own is None else own
    return normalized_cost(run.n, run.d, run.agents, run.max_degree)


def bytes_sent(run: Run) -> float | None:
    """Bytes that all agents together send."""
    if run.method != PAPER:
        return each(run, "bytes_total")
    network = network_of(run)
    return None if network is None else float(messages(network, run.n, run.itemsize).total_bytes)


def seconds_on(link: Link) -> Callable[[Run], float | None]:
    def width(run: Run) -> float | None:
        if run.method != PAPER:
            return _stated_seconds(run, link)
        network = network_of(run)
        if network is None:
            return None
        return iteration_seconds(network, contiguous(run.d, run.agents).sizes, run.n, run.itemsize, link).total

    return width


def _stated_seconds(run: Run, link: Link) -> float | None:
    """From the operations, exchanges and rounds that the run states."""
    units, exchanges = operations(run), each(run, "exchanges")
    plain, waits = stated(run, "exchanges_per_iteration"), stated(run, "rounds_per_iteration")
    if not math.isfinite(units) or exchanges is None or plain is None or waits is None:
        return None
    spent, rounds = units * paper_cost(run.n, run.d, 1, 0), exchanges + waits - plain if run.agents > 1 else 0.0
    return exchange_seconds(spent, exchanges, rounds, run.max_degree, run.n, run.itemsize, link).total


ITERATIONS = Axis("figure1", "iterations", lambda run: 1.0)
OPERATIONS = Axis("figure2", "operations per agent, in iterations of a single agent", operations)
BYTES = Axis("bytes", "bytes sent by all agents", bytes_sent, log=True)
SECONDS = {
    name: Axis(f"seconds-{name}", f"modelled seconds, {name.replace('-', ' ')}", seconds_on(link), log=True)
    for name, link in PRESETS.items()
}
