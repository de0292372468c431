"""The engine of one rank: the shared-memory engine's state and updates for its own agents, and rows from the others.

    theta+                                     needs nobody
    v phase of chunk 0, its u leaves
    v phase of chunk 1, its u leaves
    v phase of chunk 2 and, tile by tile between, lambda phase of chunk 0; u and lambda leave
    v phase of chunk 3 and lambda phase of chunk 1, ...

X is read once, in the lambda phase, and every message has the phases of other chunks to travel. Where steps of
neighbours are mixed (the fast method), X is read in the v phase too, and between the two phases of a chunk comes agent
1's, whose vector leaves when it knows those of its neighbours.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.model import EXCHANGES, FAST_EXCHANGES
from fdglm_fast.engine import Array, Engine, bytes_per_iteration
from fdglm_fast.halpern import Halpern
from fdglm_fast.kernels.arrays import State, Steps, aligned_zeros, group_count, most_threads
from fdglm_fast.kernels.ranks import Chunk, Messages
from fdglm_fast.mpi.exchange import Exchange
from fdglm_fast.mpi.halo import Route, first_route, local_plan
from fdglm_fast.neighbours import Plan
from fdglm_fast.network import Network
from fdglm_fast.problem import Problem

if TYPE_CHECKING:
    from fdglm_fast.mpi.team import RankTeam

CHUNKS = 8  # at most
CHUNK_BYTES = 16 << 20  # of an iteration: less is not worth two more calls of the kernels


NOTHING = Chunk(0, 0, 0, 0, 0)
LAG = 2  # chunks from the v phase to the lambda phase


def cut_chunks(groups: int, group: int, tiles: int, chunks: int) -> list[Chunk]:
    """`chunks` runs of row groups of nearly equal length; the slots of those that are under way are apart."""
    ends = [groups * c // chunks for c in range(chunks + 1)]
    longest = max(b - a for a, b in pairwise(ends)) * group
    return [
        Chunk(a, b, a * group, min(b * group, tiles), c % (LAG + 1) * longest)
        for c, (a, b) in enumerate(pairwise(ends))
    ]


class RankEngine(Engine):
    """The own agents' state after `iteration` iterations; theta in agent order, of the own columns."""

    kinds: tuple[str, ...] = ("lambda", "u")  # that are exchanged in an iteration

    def __init__(
        self,
        problem: Problem,
        network: Network,
        steps: Any,
        *,
        team: RankTeam,
        schedule: str = "auto",
        threads: int = 1,
        chunks: int | None = None,
    ) -> None:
        tiles = problem.tiles.X.shape[0]
        groups = group_count(tiles)
        wanted = chunks or min(CHUNKS, max(1, bytes_per_iteration(problem) // CHUNK_BYTES))
        # Every rank must cut in the same way: the messages are those of whole chunks.
        wanted = min(groups, team.decide("number of chunks", wanted))
        self._chunks = cut_chunks(groups, problem.tiles.group, tiles, wanted)
        self.problem, self.team = problem, team
        self.halo = team.halo_for(self._whole_plan(network))
        super().__init__(problem, network, steps, schedule="tiles", threads=threads, team=team)
        self._routes = self._make_routes(network)
        self._coming, self._leaving = self.halo.coming, self.halo.leaving
        self.exchange = Exchange(team.comm, self._routes, self._chunks, problem.tiles.X.shape[2], problem.dtype)
        team.exchange, team.kinds, team.vectors = self.exchange, self.kinds, self._vectors()
        self._messages, self._late = self._make_messages(), self._routes.get("first", self._routes["u"])
        if not self.anchored:
            self._send_lambda()

    def _vectors(self) -> int:
        """How many vectors an agent sends to each neighbour in an iteration, by the cost model."""
        return EXCHANGES

    def _make_routes(self, network: Network) -> dict[str, Route]:
        way = self.halo.route
        return {"lambda": way, "u": way}

    def _make_plan(self, network: Network) -> Plan:
        return local_plan(self._whole_plan(network), self.halo)

    def _allocate(self, tiles: int, d: int, groups: int) -> State:
        dtype, B = self.problem.dtype, self.problem.tiles.X.shape[2]
        several, anchors = self.team.whole.agents > 1, int(self.anchored)
        own, every = self.problem.agents, self.problem.agents + len(self.halo.halo)
        sums = len(self._plan.near.part_start) - 1
        slots = (LAG + 1) * max(chunk.stop - chunk.first for chunk in self._chunks)
        return State(
            theta=np.zeros(d),
            theta_out=np.zeros(d),
            g=np.zeros(d),
            v=aligned_zeros((tiles, own if several else 0, B), dtype),
            lam=aligned_zeros((tiles, every, B), dtype),
            lam_out=aligned_zeros((tiles, B), np.float64),
            theta_anchor=np.zeros(d * anchors),
            u_anchor=aligned_zeros((tiles, own * anchors if several else 0, B), dtype),
            lam_anchor=aligned_zeros((tiles, own * anchors, B), dtype),
            w=aligned_zeros((d,), dtype),
            partial=aligned_zeros((groups, d), np.float64),
            u=aligned_zeros((slots, every if several else 0, B), dtype),
            q=aligned_zeros((slots, own * anchors if several else 0, B), dtype),
            front=aligned_zeros((slots, 2, B), dtype),
            pool=aligned_zeros((slots, sums, B), dtype),
            line=aligned_zeros((most_threads(), 1, B), dtype),
            moves=np.zeros((groups, own * anchors, 3)),
        )

    def _iterate(self, count: int, steps: Steps) -> None:
        """`count` iterations of the own agents, in step with the other ranks."""
        from fdglm_fast.kernels.ranks import turn

        shared = (self.problem.partition.offsets, self._model, steps, self.state)
        for i in range(count):
            if i == steps.check:
                self._send_lambda()
            turn(i > 0, True, i, *shared)
            self._pass(i, steps)
            self.iteration += 1
        if count:
            turn(True, False, 0, *shared)

    def _make_messages(self) -> Messages:
        into, out = self.exchange.arriving, self.exchange.leaving
        return Messages(
            lam_in=into["lambda"],
            lam_out=out["lambda"],
            u_in=into["u"],
            u_out=out["u"],
            first_in=into.get("first", into["u"]),
            first_out=out.get("first", out["u"]),
        )

    def _pass(self, i: int, steps: Steps) -> None:
        """The v phase of every chunk and, `LAG` chunks behind, the lambda phase."""
        for c in range(len(self._chunks) + LAG):
            self._work(i, c, c - LAG, steps)

    def _work(self, i: int, ahead: int, behind: int, steps: Steps) -> None:
        """The v phase of one chunk and the lambda phase of another, where there are such chunks."""
        from fdglm_fast.kernels.ranks import work

        exchange, chunks, arrived = self.exchange, self._chunks, False
        has_v = ahead < len(chunks) and self.team.whole.agents > 1
        if has_v:
            arrived = exchange.running("lambda", ahead)
            exchange.wait("lambda", ahead)
        if behind >= 0:
            exchange.wait("u", behind)
            exchange.wait("first", behind)
        chosen = chunks[ahead] if has_v else NOTHING, chunks[behind] if behind >= 0 else NOTHING
        rows = self._coming, self._leaving, self._late.coming
        work(i, *chosen, self._messages, arrived, *rows, *self._shared(steps))
        if has_v:
            exchange.start("u", ahead)
        if behind >= 0 and not self.anchored:
            exchange.start("lambda", behind)

    def _shared(self, steps: Steps) -> tuple[Any, ...]:
        """What the kernels take last."""
        offsets = self.problem.partition.offsets
        return self.problem.tiles, offsets, self._plan.near, self._model, steps, self.state

    def _send_lambda(self) -> None:
        """Lambda as it stands: before the first iteration of the paper's method, and a look of the fast one."""
        from fdglm_fast.kernels.ranks import pack_lambda

        self.exchange.finish()
        for c, chunk in enumerate(self._chunks):
            pack_lambda(chunk, self.exchange.leaving["lambda"], self._leaving, self.state)
            self.exchange.start("lambda", c)

    def duals(self) -> list[Array]:
        """Agent 1's lambda, its average and its last value, where agent 1 is; elsewhere zeros stand for them."""
        if self.team.holds_first:
            return super().duals()
        return [np.zeros_like(self.state.lam_out)] * 2

    def snapshot(self) -> dict[str, npt.NDArray[np.generic]]:
        """The own agents' part of what the next iteration depends on; not copies."""
        arrays: dict[str, Any] = super().snapshot()
        return {**arrays, "lam": arrays["lam"][:, : self.problem.agents]}

    def restore(self, iteration: int, arrays: dict[str, npt.NDArray[np.generic]]) -> None:
        """Go on from the own agents' part of a snapshot."""
        for name, array in self.snapshot().items():
            array[...] = arrays[name]
        self.iteration = iteration
        if not self.anchored:
            self._send_lambda()

    def is_finite(self) -> bool:
        """Whether the iterates of all ranks are numbers."""
        return not self.team.anyone("not finite", not super().is_finite())


class FastRankEngine(Halpern, RankEngine):
    """The fast method on a rank: 2 p+ - p is exchanged an iteration, lambda at a look, p at a restart."""

    kinds = ("u", "first")

    def _vectors(self) -> int:
        return 2 * self._gossip.rounds if self._gossip else FAST_EXCHANGES

    def _make_routes(self, network: Network) -> dict[str, Route]:
        return {
            **super()._make_routes(network),
            "first": first_route(self._to_first, self.team.placement, self.team.comm.rank),
        }

    def _pass(self, i: int, steps: Steps) -> None:
        """The v phase of every chunk, a chunk behind it agent 1's, and `LAG` chunks behind the lambda phase."""
        for c in range(len(self._chunks) + LAG):
            if 0 < c <= len(self._chunks) and self.team.whole.agents > 1:
                self._first_phase(c - 1, steps)
            self._work(i, c, c - LAG, steps)

    def _first_phase(self, c: int, steps: Steps) -> None:
        from fdglm_fast.kernels.ranks import first_chunk

        self.exchange.wait("u", c)
        first_chunk(self._chunks[c], self._messages, self._coming, self._late.leaving, *self._shared(steps))
        self.exchange.start("first", c)

    def _anchor(self) -> None:
        from fdglm_fast.kernels.ranks import anchor_chunk, publish_chunk

        exchange, near = self.exchange, self._plan.near
        for c, chunk in enumerate(self._chunks):
            publish_chunk(chunk, exchange.leaving["u"], self._leaving, self.state)
            exchange.start("u", c)
            exchange.wait("u", c)
            anchor_chunk(chunk, exchange.arriving["u"], self._coming, self.problem.tiles, near, self.state)
