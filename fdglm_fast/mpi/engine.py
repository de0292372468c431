"""The engine of one rank: the shared-memory engine's state and updates for its own agents, and rows from the others.

    theta+                                     needs nobody
    v phase of chunk 0, its u leaves
    v phase of chunk 1, its u leaves
    v phase of chunk 2 and, tile by tile between, lambda phase of chunk 0; u and lambda leave
    v phase of chunk 3 and lambda phase of chunk 1, ...

X is read once, in the lambda phase, and every message has the phases of other chunks to travel. Where steps of
neighbours are mixed (the fast method), X is read in both phases. Agents that need nothing from other ranks go through
their lambda phase at once, while the tile is in the second-level cache. The others' comes in the next turn, and finds
their columns in the third-level cache; before it comes agent 1's, whose vector leaves when it knows those of its
neighbours:

    v phase of chunk 0, its u leaves
    agent 1's answer for chunk 0 leaves
    v phase of chunk 1 and, tile by tile between, lambda phase of chunk 0; u leaves
    agent 1's answer for chunk 1 leaves
    v phase of chunk 2 and lambda phase of chunk 1, ...
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.model import EXCHANGES, FAST_EXCHANGES
from fdglm_fast.engine import Array, Engine, bytes_per_iteration
from fdglm_fast.halpern import Halpern
from fdglm_fast.kernels.arrays import State, aligned_zeros, group_count, most_threads
from fdglm_fast.kernels.hook import (
    ANCHOR,
    DISTANCES,
    DONE,
    FIRST_DONE,
    FIRST_READY,
    LOOK,
    READY,
    SIZE,
    Hook,
    address_of,
)
from fdglm_fast.kernels.ranks import Chunk, Messages
from fdglm_fast.mpi.exchange import Exchange
from fdglm_fast.mpi.halo import Route, first_route, local_plan
from fdglm_fast.mpi.turns import inner_agents, take_turns
from fdglm_fast.neighbours import Plan
from fdglm_fast.network import Network
from fdglm_fast.problem import Problem

if TYPE_CHECKING:
    from fdglm_fast.mpi.team import RankTeam

SUMS = {SIZE: "size of a move", DISTANCES: "distances of a period"}


def cut_chunks(groups: int, group: int, tiles: int, chunks: int, lag: int) -> list[Chunk]:
    """`chunks` runs of row groups of nearly equal length; the slots of those that are under way are apart."""
    ends = [groups * c // chunks for c in range(chunks + 1)]
    longest = max(b - a for a, b in pairwise(ends)) * group
    return [
        Chunk(a, b, a * group, min(b * group, tiles), c % (lag + 1) * longest)
        for c, (a, b) in enumerate(pairwise(ends))
    ]


class RankEngine(Engine):
    """The own agents' state after `iteration` iterations; theta in agent order, of the own columns."""

    kinds: tuple[str, ...] = ("lambda", "u")  # that are exchanged in an iteration
    most_chunks, chunk_bytes = 8, 16 << 20  # of an iteration: less is not worth two more messages
    lag = 2  # chunks from the v phase to the lambda phase, while whose messages travel

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
        wanted = chunks or self._best_chunks(bytes_per_iteration(problem), groups, threads)
        # Every rank must cut in the same way: the messages are those of whole chunks.
        wanted = min(groups, team.decide("number of chunks", wanted))
        self._chunks = cut_chunks(groups, problem.tiles.group, tiles, wanted, self.lag)
        self.problem, self.team = problem, team
        self.halo = team.halo_for(self._whole_plan(network))
        super().__init__(problem, network, steps, schedule="tiles", threads=threads, team=team)
        self._routes = self._make_routes(network)
        self._coming, self._leaving = self.halo.coming, self.halo.leaving
        self._first = self._routes.get("first", self._routes["u"])
        self._turns = take_turns(self._plan.near, self._early(), team.holds_first)
        self._table = np.array(self._chunks, np.int64)
        self.exchange = Exchange(team.comm, self._routes, self._chunks, problem.tiles.X.shape[2], problem.dtype)
        team.exchange, team.kinds, team.vectors = self.exchange, self.kinds, self._vectors()
        self._messages = self._make_messages()
        if not self.anchored:
            self._send_lambda()

    def _best_chunks(self, size: int, groups: int, threads: int) -> int:
        """As many as are worth their messages, with a group at least for each thread in every one."""
        wanted = min(self.most_chunks, max(1, size // self.chunk_bytes))
        each = max(threads, -(-groups // wanted))
        return max(1, groups // each)

    def _vectors(self) -> int:
        """How many vectors an agent sends to each neighbour in an iteration, by the cost model."""
        return EXCHANGES

    def _make_routes(self, network: Network) -> dict[str, Route]:
        way = self.halo.route
        return {"lambda": way, "u": way}

    def _make_plan(self, network: Network) -> Plan:
        return local_plan(self._whole_plan(network), self.halo)

    def _early(self) -> npt.NDArray[np.bool_]:
        """Of the own agents, those whose lambda phase is to follow their v phase at once."""
        return np.zeros(self.problem.agents, bool)

    def _allocate(self, tiles: int, d: int, groups: int) -> State:
        dtype, B = self.problem.dtype, self.problem.tiles.X.shape[2]
        several, anchors = self.team.whole.agents > 1, int(self.anchored)
        own, every = self.problem.agents, self.problem.agents + len(self.halo.halo)
        sums = len(self._plan.near.part_start) - 1
        slots = (self.lag + 1) * max(chunk.stop - chunk.first for chunk in self._chunks)
        return State(
            theta=np.zeros(d),
            theta_out=np.zeros(d),
            g=np.zeros(d),
            v=aligned_zeros((tiles, own if several else 0, B), dtype),
            lam=aligned_zeros((tiles, every, B), dtype),
            lam_out=aligned_zeros((tiles, B), np.float64),
            theta_anchor=np.zeros(d * anchors),
            p_anchor=aligned_zeros((tiles, own * anchors if several else 0, B), dtype),
            lam_anchor=aligned_zeros((tiles, own * anchors, B), dtype),
            common=aligned_zeros((tiles, anchors, B), dtype),
            w=aligned_zeros((d,), dtype),
            partial=aligned_zeros((groups, d), np.float64),
            u=aligned_zeros((slots, every if several else 0, B), dtype),
            q=aligned_zeros((slots, own if several else 0, B), dtype),
            front=aligned_zeros((slots, 2, B), dtype),
            pool=aligned_zeros((slots, sums, B), dtype),
            line=aligned_zeros((most_threads(), 1, B), dtype),
            moves=np.zeros((groups, own * anchors, 3)),
        )

    def advance(self, count: int) -> None:
        """`count` iterations of the own agents: the kernel computes, and asks `_answer` to send and to wait."""
        from fdglm_fast.kernels.ranks import iterate_chunks

        faults: list[BaseException] = []

        def answer(event: int, c: int) -> int:
            try:
                return self._answer(event, c)
            except BaseException as fault:  # nothing may be raised through the kernel
                faults.append(fault)
                return -1

        hook = Hook(answer)
        rows = self._coming, self._leaving, self._first.coming, self._first.leaving
        course = self._course._replace(hook=address_of(hook))
        iterate_chunks(count, self.lag, self._table, self._messages, *rows, self._turns, *self._shared(course))
        if faults:
            raise faults[0]
        self.iteration += count

    def _make_messages(self) -> Messages:
        def lines(side: dict[str, Any], kind: str) -> Any:
            return side.get(kind, side["u"]).reshape(1, -1, self.problem.tiles.X.shape[2])

        into, out = self.exchange.arriving, self.exchange.leaving
        return Messages(*(lines(side, kind) for kind in ("lambda", "u", "first") for side in (into, out)))

    def _answer(self, event: int, c: int) -> int:
        """Wait for the messages of the pieces at c, or send what they made; 1 where lambda of others is news."""
        exchange, arrived = self.exchange, False
        v_phase, behind = c < len(self._chunks) and self.team.whole.agents > 1, c - self.lag
        if event == READY:
            if v_phase:
                arrived = exchange.running("lambda", c)
                exchange.wait("lambda", c)
            if behind >= 0:
                exchange.wait("u", behind)
                exchange.wait("first", behind)
        elif event == DONE:
            if v_phase:
                exchange.start("u", c)
            if behind >= 0 and not self.anchored:
                exchange.start("lambda", behind)
        elif event == FIRST_READY:
            exchange.wait("u", c)
        elif event == FIRST_DONE:
            exchange.start("first", c)
        elif event == LOOK:
            self._send_lambda()
        return int(arrived)

    def _send_lambda(self) -> None:
        """Lambda as it stands: before the first iteration of the paper's method, and a look of the fast one."""
        from fdglm_fast.kernels.ranks import pack_lambda

        self.exchange.finish()
        for c, chunk in enumerate(self._chunks):
            pack_lambda(chunk, self._messages.lam_out, self._leaving, self.state)
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
    """The fast method on a rank: 2 p+ - p is exchanged an iteration, lambda at a look, dp and c at a restart.

    X of a chunk should still be in the third-level cache when, in the next turn, it is read again.
    """

    kinds = ("u", "first")
    most_chunks, chunk_bytes, lag = 32, 4 << 20, 1

    def _vectors(self) -> int:
        return 2 * self._gossip.rounds if self._gossip else FAST_EXCHANGES

    def _make_routes(self, network: Network) -> dict[str, Route]:
        return {
            **super()._make_routes(network),
            "first": first_route(self._to_first, self.team.placement, self.team.comm.rank),
        }

    def _early(self) -> npt.NDArray[np.bool_]:
        """All that need nothing from other ranks: X is read twice, for them while the tile is in cache."""
        if self._steps.mix.size == 0:
            return super()._early()
        return inner_agents(self._plan.near, self._steps.hears, self.team.holds_first)

    def _answer(self, event: int, c: int) -> int:
        """Also: the anchor, and the sums over all agents of which the first c rows are asked for."""
        if event == ANCHOR:
            self._anchor()
            return 0
        if event in SUMS:
            sums = self._course.sums[:c]
            sums[:] = self.team.sum_everywhere(SUMS[event], sums)
            return 0
        return super()._answer(event, c)

    def _anchor(self) -> None:
        """p_0 and lambda_0 of the own agents, and c of all; `state.moves` gets how far they went."""
        from fdglm_fast.kernels.ranks import anchor_chunk, publish_chunk

        exchange, near = self.exchange, self._plan.near
        for c, chunk in enumerate(self._chunks):
            publish_chunk(chunk, self._messages.u_out, self._leaving, self.state)
            exchange.start("u", c)
            exchange.wait("u", c)
            anchor_chunk(chunk, self._messages.u_in, self._coming, self.problem.tiles, near, self.state)
        self.team.broadcast_first("lambda of agent 1", self.state.common)
