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
from fdglm_fast.mpi.halo import Halo

KINDS = ("lambda", "u")


class Exchange:
    """Buffers and requests. `leaving[kind]` and `arriving[kind]` hold the messages of all chunks, flat."""

    def __init__(self, comm: Any, halo: Halo, chunks: list[Chunk], B: int, dtype: npt.DTypeLike) -> None:
        self.sent: Counter[str] = Counter()
        self.seconds = {"exchange": 0.0, "wait": 0.0}
        self._halo, self._B, self._chunks = halo, B, chunks
        out_rows = [len(one) for one in halo.sends.values()]
        in_rows = [len(one) for one in halo.receives.values()]
        tiles = chunks[-1].stop
        self.leaving = {kind: aligned_zeros((tiles * sum(out_rows) * B,), dtype) for kind in KINDS}
        self.arriving = {kind: aligned_zeros((tiles * sum(in_rows) * B,), dtype) for kind in KINDS}
        self._graph: Any = None
        self._running: dict[tuple[str, int], Any] = {}
        if not (out_rows or in_rows):
            return
        self._graph = comm.Create_dist_graph_adjacent(
            list(halo.receives), list(halo.sends), sourceweights=in_rows, destweights=out_rows
        )
        self._messages = {
            (kind, c): self._pair(kind, c, out_rows, in_rows) for kind in KINDS for c in range(len(chunks))
        }
        self._requests = self._persistent()

    def _pair(self, kind: str, c: int, out_rows: list[int], in_rows: list[int]) -> tuple[list[Any], list[Any]]:
        """What a chunk's collective takes: buffer, counts and displacements of both directions."""
        chunk, B = self._chunks[c], self._B
        pair = []
        for buffer, rows in ((self.leaving[kind], out_rows), (self.arriving[kind], in_rows)):
            unit = (chunk.stop - chunk.first) * B
            part = buffer[chunk.first * sum(rows) * B : chunk.stop * sum(rows) * B]
            counts = [each * unit for each in rows]
            displacements = np.concatenate([[0], np.cumsum(counts)])[:-1].astype(int).tolist()
            pair.append([part, counts, displacements, _mpi_type(buffer.dtype)])
        return pair[0], pair[1]

    def _persistent(self) -> dict[tuple[str, int], Any] | None:
        try:
            return {key: self._graph.Neighbor_alltoallv_init(*pair) for key, pair in self._messages.items()}
        except (AttributeError, NotImplementedError):
            return None

    @property
    def persistent(self) -> bool:
        return self._graph is not None and self._requests is not None

    def start(self, kind: str, c: int) -> None:
        """Send the messages of a chunk; what was received before is overwritten."""
        if self._graph is None:
            return
        began = time.perf_counter()
        pair = self._messages[kind, c]
        if self._requests is not None:
            request = self._requests[kind, c]
            request.Start()
        else:
            request = self._graph.Ineighbor_alltoallv(*pair)
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

    def iteration_bytes(self) -> dict[str, int]:
        """What this rank sends in an iteration, by kind."""
        return {kind: int(self.leaving[kind].nbytes) for kind in KINDS}


def _mpi_type(dtype: np.dtype[Any]) -> Any:
    from mpi4py import MPI

    return MPI.DOUBLE if dtype == np.float64 else MPI.FLOAT
