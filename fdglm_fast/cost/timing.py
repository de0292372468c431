"""Seconds of an iteration on a network that this machine does not have.

The model is a synchronous network of equal agents, two steps to an iteration, each ended by an exchange:

    compute theta_j+, v_j+ and u_j,  send u_j to every neighbour,  wait for theirs
    compute lambda_j+,               send lambda_j+ to every neighbour,  wait for theirs

An agent has one link, which is full duplex: its messages leave one after the other, and the last arrives a latency
after it has left, so that an exchange takes an agent latency + deg_j n itemsize / bandwidth. All wait for the slowest
agent in each step and in each exchange, and nothing overlaps:

    seconds = (max_j ops'_j + max_j ops''_j)/flops + 2 latency + 2 Delta n itemsize / bandwidth

In the fast method what is sent depends on the agent's own vectors alone, but for agent 1's, which its neighbours wait
for: they send to it first, and it answers while they send to the others. That is one exchange and the time of one
vector, in two rounds:

    seconds = max_j ops_j/flops + 2 latency + (Delta + 1) n itemsize / bandwidth
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.model import (
    EXCHANGES,
    FAST_EXCHANGES,
    FAST_LAMBDA,
    FAST_V,
    FOLLOW,
    MOVE,
    ROUNDS,
    SOFT_THRESHOLD,
    is_weighted,
)
from fdglm_fast.errors import UsageError

if TYPE_CHECKING:
    from fdglm_fast.network import Network


@dataclass(frozen=True)
class Link:
    """An agent: operations a second, seconds for a message to arrive, bytes a second that leave over its link."""

    flops: float
    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        for name, value in (("flops", self.flops), ("bandwidth", self.bandwidth)):
            if not (math.isfinite(value) and value > 0.0):
                raise UsageError(f"--{name} must be a positive number, not {value}.")
        if not (math.isfinite(self.latency) and self.latency >= 0.0):
            raise UsageError(f"--latency must be zero or more, not {self.latency}.")


# Rates are of matrix-vector products, which wait for memory: far below what the arithmetic units could do.
PRESETS: dict[str, Link] = {
    # A core each: the fused kernel does 4 n d operations at n = 16384, d = 2048 in 8.8 ms on two cores, 8e9/s a core;
    # a barrier between threads takes about a microsecond, and a core copies from another's memory at about 10 GB/s.
    "one-machine": Link(flops=8e9, latency=1e-6, bandwidth=1e10),
    # A server each: 100 GB/s of memory at half an operation a byte (4 operations for each 8 bytes of X);
    # 50 microseconds for a message through the operating system and a switch; 10 Gbit/s Ethernet.
    "data-centre": Link(flops=50e9, latency=5e-5, bandwidth=1.25e9),
    # A desktop computer each (20 GB/s); 50 ms one way, as between distant homes or continents; 100 Mbit/s upstream.
    "internet": Link(flops=1e10, latency=5e-2, bandwidth=1.25e7),
    # A microcontroller each, some 200 MHz with a floating-point unit and two cycles an operation; radio of
    # IEEE 802.15.4, 250 kbit/s at best, with about 10 ms to get hold of the channel.
    "sensor-network": Link(flops=1e8, latency=1e-2, bandwidth=31250.0),
}


@dataclass(frozen=True)
class IterationTime:
    """Seconds of one iteration, total = compute + latency + transfer."""

    total: float
    compute: float
    latency: float
    transfer: float


def iteration_seconds(
    network: Network, sizes: npt.ArrayLike, n: int, itemsize: int, link: Link, method: str = "paper"
) -> IterationTime:
    """Seconds of an iteration on a network whose agent j has sizes[j] columns; a penalty is counted as in the paper."""
    columns = np.asarray(sizes, dtype=np.float64)
    degrees = np.asarray(network.degrees, dtype=np.float64)
    return synchronous_seconds(n, columns, degrees, itemsize, link, weighted=is_weighted(network), method=method)


def exchange_seconds(
    operations: float, exchanges: float, rounds: float, max_degree: float, n: int, itemsize: int, link: Link
) -> IterationTime:
    """Seconds of an iteration of the fast method: `operations` of the slowest agent, exchanges of n-vectors, rounds.

    A round that is no exchange of all is agent 1's, and takes the time of one vector.
    """
    compute = operations / link.flops
    transfer = (exchanges * max_degree + rounds - exchanges) * n * itemsize / link.bandwidth
    waiting = rounds * link.latency
    return IterationTime(compute + waiting + transfer, compute, waiting, transfer)


def synchronous_seconds(
    n: int,
    columns: npt.NDArray[np.float64],
    degrees: npt.NDArray[np.float64],
    itemsize: int,
    link: Link,
    *,
    weighted: bool = False,
    method: str = "paper",
) -> IterationTime:
    """The same from the columns and the degrees of the agents, which need not be whole numbers."""
    theta = (2.0 * n + 1.0 + SOFT_THRESHOLD) * columns
    fast = method == "fast"
    if fast:
        theta = theta + (MOVE + FOLLOW) * columns
    if columns.size == 1:
        own = 1.0 + MOVE + FOLLOW if fast else 1.0
        compute = float(theta[0] + n * (2.0 * columns[0] + own) + columns[0]) / link.flops
        return IterationTime(compute, compute, 0.0, 0.0)
    terms = degrees * (2.0 if weighted else 1.0)
    if fast:
        ops = theta + n * (2.0 * columns + terms + FAST_V + FAST_LAMBDA) + columns
        return exchange_seconds(float(ops.max()), FAST_EXCHANGES, ROUNDS, float(degrees.max()), n, itemsize, link)
    first = theta + n * (terms + 3.0) + n  # theta, v, and u, which has to be sent
    second = n * (2.0 * columns + terms + 3.0) + columns
    compute = float(first.max() + second.max()) / link.flops
    transfer = EXCHANGES * float(degrees.max()) * n * itemsize / link.bandwidth
    waiting = EXCHANGES * link.latency
    return IterationTime(compute + waiting + transfer, compute, waiting, transfer)
