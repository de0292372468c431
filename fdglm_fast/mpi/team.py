"""A team whose agents are spread over the ranks of MPI. Everything but lambda and u of an iteration is sent from here.

Numbers of agents travel as vectors with one place for each agent and zeros at the places of the others: adding zeros is
exact, so every rank ends up with the same numbers and adds them in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fdglm_fast.engine import Engine
from fdglm_fast.errors import FdglmError
from fdglm_fast.mpi.engine import FastRankEngine, RankEngine
from fdglm_fast.mpi.halo import Halo, plan_halo
from fdglm_fast.mpi.passes import RankPasses
from fdglm_fast.mpi.placement import Placement
from fdglm_fast.neighbours import Plan
from fdglm_fast.problem import Problem
from fdglm_fast.team import Array, Team, Value


class RankTeam(Team):
    """The agents of this rank among those of all; made by every rank at once."""

    def __init__(self, comm: Any, placement: Placement, whole: Problem, own: Problem) -> None:
        self.comm, self.placement, self.size = comm, placement, comm.size
        self.whole, self.own = whole, own
        self.members = placement.members(comm.rank)
        self.speaks = comm.rank == 0
        self.holds_first = comm.rank == placement.first_rank
        self.sent: Counter[str] = Counter()  # bytes by name
        self.exchange: Any = None
        self.kinds: tuple[str, ...] = ()  # of vectors that are exchanged in an iteration
        self.vectors = 0  # that the cost model sends over an edge, each way, in an iteration
        self.passes = RankPasses(own, self)

    def engine(self, method: str) -> Callable[..., Engine]:
        return partial(FastRankEngine if method == "fast" else RankEngine, team=self)

    def halo_for(self, plan: Plan) -> Halo:
        return plan_halo(plan, self.placement, self.comm.rank)

    def gather(self, name: str, parts: Array) -> Array:
        every = np.zeros((*parts.shape[:-1], self.whole.agents))
        every[..., self.members] = parts
        return self.sum_everywhere(name, every)

    def largest(self, name: str, parts: Array) -> Array:
        return np.asarray(self.gather(name, parts).max(axis=-1))

    def sum_everywhere(self, name: str, values: Any) -> Any:
        """The sum over the ranks; exact for whole numbers, and where all but one have zero."""
        from mpi4py import MPI

        out = np.empty_like(values)
        self.comm.Allreduce(values, out, MPI.SUM)
        self._count(name, values.nbytes)
        return out

    def sum_at_first(self, name: str, values: Any) -> Any:
        """The sum over the ranks at the rank of agent 1; None elsewhere."""
        from mpi4py import MPI

        out = np.empty_like(values) if self.holds_first else None
        self.comm.Reduce(values, out, MPI.SUM, self.placement.first_rank)
        self._count(name, 0 if self.holds_first else values.nbytes)
        return out

    def broadcast_first(self, name: str, values: Any) -> None:
        """`values` become those of the rank of agent 1."""
        self.comm.Bcast(values, self.placement.first_rank)
        self._count(name, values.nbytes if self.holds_first else 0)

    def from_first(self, name: str, value: Callable[[], Value]) -> Value:
        found = self.comm.bcast(value() if self.holds_first else None, self.placement.first_rank)
        self._count(name, _size(found) if self.holds_first else 0)
        return found  # type: ignore[no-any-return]

    def decide(self, name: str, value: Value) -> Value:
        self._count(name, _size(value) if self.speaks else 0)
        return self.comm.bcast(value, 0)  # type: ignore[no-any-return]

    def anyone(self, name: str, flag: bool) -> bool:
        from mpi4py import MPI

        self._count(name, 1)
        return bool(self.comm.allreduce(bool(flag), MPI.LOR))

    def collect(self, name: str, value: Value) -> list[Value]:
        self._count(name, _size(value))
        return self.comm.allgather(value)  # type: ignore[no-any-return]

    def together(self, work: Callable[[], Value]) -> Value:
        return together(self.comm, work)

    def in_user_order(self, theta: Array) -> Array:
        """On ranks, the own columns in agent order: coefficients stay where they are until the run is over."""
        return np.array(theta)

    def _count(self, name: str, size: int) -> None:
        if self.comm.size > 1:
            self.sent[name] += size

    def facts(self) -> dict[str, Any]:
        """Ranks, cut, and the bytes that all ranks sent so far, by name."""
        sent: Counter[str] = Counter()
        moved = self.exchange.sent if self.exchange else Counter()
        for part in self.comm.allgather((dict(self.sent), dict(moved))):
            for names in part:
                sent.update(names)
        edges = 2 * self.vectors * self.placement.cut * self.whole.n * self.whole.dtype.itemsize
        per_iteration = self.comm.allreduce(self.exchange.bytes_of(self.kinds) if self.exchange else 0)
        return {
            "ranks": self.comm.size,
            "cut_edges": self.placement.cut,
            "columns": [
                int(self.whole.partition.sizes[self.placement.members(r)].sum()) for r in range(self.comm.size)
            ],
            "bytes_sent": {name: int(sent[name]) for name in sorted(sent)},
            "bytes_per_iteration": int(per_iteration) if self.comm.size > 1 else 0,
            "model_bytes_per_iteration": int(edges),
        }


def together(comm: Any, work: Callable[[], Value]) -> Value:
    """`work` on every rank; the error of the lowest rank that had one is raised on all, so that all end alike."""
    result, fault = None, None
    try:
        result = work()
    except FdglmError as error:
        fault = error
    for found in comm.allgather(fault):
        if found is not None:
            found.agreed = True
            raise found
    return result  # type: ignore[return-value]


def _size(value: Any) -> int:
    return int(value.nbytes) if hasattr(value, "nbytes") else 8
