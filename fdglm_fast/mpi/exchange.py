"""The only place that sends vectors in an iteration: lambda and u of boundary agents, once to each rank that reads it.

Persistent neighbourhood collectives on a distributed graph of the ranks, one for each chunk of rows and each kind; an
MPI library without them (Open MPI 4.1) gets the non-blocking ones.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.kernels.arrays import aligned_zeros
from fdglm_fast.kernels.ranks import Chunk
from fdglm_fast.mpi.halo import Route


class Exchange:
    """Buffers and requests. `leaving[kind]` and `arriving[kind]` hold the messages of all chunks, flat."""

    def __init__(self, comm: Any, routes: dict[str, Route], chunks: list[Chunk], B: int, dtype: npt.DTypeLike) -> None:
        self.sent: Counter[str] = Counter()
        self.seconds = {"exchange": 0.0, "wait": 0.0}
        self._B, self._chunks = B, chunks
        rows = chunks[-1].stop * B

        def buffers(side: str) -> dict[str, Any]:
            sizes = {kind: rows * sum(getattr(route, side).values()) for kind, route in routes.items()}
            return {kind: aligned_zeros((size,), dtype) for kind, size in sizes.items()}

        self.leaving, self.arriving = buffers("sends"), buffers("receives")
        self._running: dict[tuple[str, int], Any] = {}
        self._messages: dict[tuple[str, int], Any] = {}
        self._requests: dict[tuple[str, int], Any] = {}
        self._graphs: dict[str, Any] = {}
        for kind, route in routes.items():
            if route.used:
                self._set_up(comm, kind, route)

    def _set_up(self, comm: Any, kind: str, route: Route) -> None:
        """All ranks together: a graph of who sends to whom, and what each chunk's collective takes."""
        graph = self._graphs[kind] = comm.Create_dist_graph_adjacent(
            list(route.receives),
            list(route.sends),
            sourceweights=list(route.receives.values()),
            destweights=list(route.sends.values()),
        )
        for c in range(len(self._chunks)):
            pair = self._messages[kind, c] = self._pair(kind, c, route)
            try:
                self._requests[kind, c] = graph.Neighbor_alltoallv_init(*pair)
            except (AttributeError, NotImplementedError):
                self._requests[kind, c] = None

    def _pair(self, kind: str, c: int, route: Route) -> tuple[list[Any], list[Any]]:
        """What a chunk's collective takes: buffer, counts and displacements of both directions."""
        chunk, B = self._chunks[c], self._B
        pair = []
        for buffer, rows in ((self.leaving[kind], route.sends), (self.arriving[kind], route.receives)):
            unit, each = (chunk.stop - chunk.first) * B, sum(rows.values())
            part = buffer[chunk.first * each * B : chunk.stop * each * B]
            counts = [some * unit for some in rows.values()]
            displacements = np.concatenate([[0], np.cumsum(counts)])[:-1].astype(int).tolist()
            pair.append([part, counts, displacements, _mpi_type(buffer.dtype)])
        return pair[0], pair[1]

    @property
    def persistent(self) -> bool:
        return bool(self._requests) and None not in self._requests.values()

    def start(self, kind: str, c: int) -> None:
        """Send the messages of a chunk; what was received before is overwritten."""
        if kind not in self._graphs:
            return
        began = time.perf_counter()
        pair, request = self._messages[kind, c], self._requests[kind, c]
        if request is not None:
            request.Start()
        else:
            request = self._graphs[kind].Ineighbor_alltoallv(*pair)
        self._running[kind, c] = request
        self.sent[kind] += pair[0][0].nbytes
        self.seconds["exchange"] += time.perf_counter() - began

    def wait(self, kind: str, c: int) -> None:
        """Until the messages of a chunk are here; nothing to wait for if none were sent."""
        request = self._running.pop((kind, c), None)
        if request is not None:
            began = time.perf_counter()
            request.Wait()
            self.seconds["wait"] += time.perf_counter() - began

    def running(self, kind: str, c: int) -> bool:
        return (kind, c) in self._running

    def finish(self) -> None:
        """Wait for whatever is under way."""
        for kind, c in list(self._running):
            self.wait(kind, c)

    def bytes_of(self, kinds: tuple[str, ...]) -> int:
        """What this rank sends when each of these kinds is exchanged once."""
        return sum(int(self.leaving[kind].nbytes) for kind in kinds)


def _mpi_type(dtype: np.dtype[Any]) -> Any:
    from mpi4py import MPI

    return MPI.DOUBLE if dtype == np.float64 else MPI.FLOAT
