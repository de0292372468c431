"""How fast this machine reads X with the threads of a case, and the limit that follows for an iteration.

An iteration must read X once, and read and write lambda and v:

    itemsize (n d + 4 n m) / bandwidth      for m > 1
    itemsize n d / bandwidth                for one agent

One agent has no v and nobody to exchange with. (Its lambda is read and written too, 2 n beside n d numbers; that is
left out, which makes the limit a little stricter.) Sums over neighbours count no bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_bench.clock import repeated, time_block

PARTS = 64  # that a matrix is cut into, each read by one thread; at most four streams each


def limit_seconds(n: int, d: int, m: int, itemsize: int, bandwidth: float) -> float:
    """The least time of an iteration at `bandwidth` bytes a second."""
    return itemsize * n * (d + (4 * m if m > 1 else 0)) / bandwidth


def read_bandwidth(megabytes: int = 256) -> dict[str, float]:
    """Bytes a second that one thread and all threads read from memory, by the number of threads."""
    import numba

    settings: Any = numba.config
    meter, found = Bandwidth(np.ones((megabytes << 20) // 8)), {}
    for threads in sorted({1, int(settings.NUMBA_NUM_THREADS)}):
        numba.set_num_threads(threads)
        found[str(threads)] = max(meter.measure(3) for _ in range(2))
    return found


class Bandwidth:
    """Bytes a second that the threads of Numba read from the tiles of X; whichever number of streams is fastest."""

    def __init__(self, X: npt.NDArray[Any]) -> None:
        from fdglm_bench.readers import four_streams, one_stream, two_streams

        numbers = X.reshape(-1)
        # A whole number of elements to a stream; the few that are left over are neither read nor counted.
        self._numbers = numbers[: numbers.size - numbers.size % (4 * PARTS)]
        self._sums = np.zeros(PARTS, X.dtype)
        self._readers = (one_stream, two_streams, four_streams)

    def measure(self, count: int) -> float:
        """Best of the readers, each `count` times over."""
        seconds = [time_block(repeated(partial(reader, self._numbers, self._sums)), count) for reader in self._readers]
        return float(self._numbers.nbytes / min(seconds))

    def total(self, streams: int) -> float:
        """What the reader with so many streams added up: to check that it read everything."""
        reader = {1: self._readers[0], 2: self._readers[1], 4: self._readers[2]}[streams]
        reader(self._numbers, self._sums)
        return float(self._sums.sum(dtype=np.float64))
