"""Internet scale on paper: cost, messages and seconds for up to a million agents, from closed forms.

    expander    a random K-regular graph, K = 8: every degree is K, and the gap lambda_2 is about K - 2 sqrt(K - 1), as
                of a Ramanujan graph
    geometric   agents at random in the unit square, joined up to a radius R. Here R^2 = 2 log m/(pi m), twice what
                keeps the graph connected: the mean degree is pi R^2 m = 2 log m. The largest of m Poisson numbers of
                that mean is about t times the mean, where t log t - t + 1 = 1/2 (Chernoff's bound at 1/m). On smooth
                functions the Laplacian acts as pi R^4 m/8 times the continuous one, whose smallest eigenvalue on the
                square is pi^2: the gap is about pi^3 R^4 m/8. (Graphs that were drawn have about half of it at a
                thousand agents and two thirds at three thousand.)

There is at least one column for each agent: with more agents than columns, d grows with m.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fdglm_fast.cost.model import EXCHANGES, paper_cost
from fdglm_fast.cost.timing import Link, synchronous_seconds
from fdglm_fast.graph_bounds import ramanujan_gap

AGENTS = (10**2, 10**3, 10**4, 10**5, 10**6)
K = 8
MARGIN = 2.0  # of the geometric graphs' pi R^2 m over log m, where they begin to be connected
LARGEST = 2.15554  # t log t - t + 1 = 1/MARGIN


@dataclass(frozen=True)
class Family:
    """A family of graphs at one size."""

    name: str
    agents: int
    degree: float  # on average
    max_degree: float
    spectral_gap: float


@dataclass(frozen=True)
class Row:
    """One size of one family; operations, bytes and seconds are of one iteration, for the agent of largest degree."""

    family: str
    agents: int
    features: int
    degree: float
    max_degree: float
    spectral_gap: float
    operations: float
    normalized: float  # over a single agent's
    agent_bytes: float
    total_bytes: float  # of all agents
    seconds: float
    single_seconds: float  # of one agent that has all columns
    communication: float  # part of the seconds spent on latency and transfer

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def expander(m: int) -> Family:
    return Family("expander", m, K, K, ramanujan_gap(K))


def geometric(m: int) -> Family:
    """pi R^2 m = 2 log m; no agent has more neighbours than there are others."""
    degree = min(MARGIN * math.log(m), m - 1.0)
    return Family("geometric", m, degree, min(LARGEST * degree, m - 1.0), math.pi * degree**2 / (8.0 * m))


def scale_table(n: int, d: int, itemsize: int, link: Link, sizes: tuple[int, ...] = AGENTS) -> list[Row]:
    """Both families at every size."""
    graphs = [*map(expander, sizes), *map(geometric, sizes)]
    return [_row(graph, n, max(d, graph.agents), itemsize, link) for graph in graphs]


def _row(graph: Family, n: int, d: int, itemsize: int, link: Link) -> Row:
    m, largest = graph.agents, graph.max_degree
    operations, alone = paper_cost(n, d, m, largest), paper_cost(n, d, 1, 0)
    vector = EXCHANGES * n * itemsize
    time = synchronous_seconds(n, np.full(2, d / m), np.full(2, largest), itemsize, link)
    return Row(
        family=graph.name,
        agents=m,
        features=d,
        degree=graph.degree,
        max_degree=largest,
        spectral_gap=graph.spectral_gap,
        operations=operations,
        normalized=operations / alone,
        agent_bytes=vector * largest,
        total_bytes=vector * graph.degree * m,
        seconds=time.total,
        single_seconds=alone / link.flops,
        communication=(time.latency + time.transfer) / time.total,
    )
