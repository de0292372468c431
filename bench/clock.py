"""Timing in blocks: several calls at a time, the other's threads asleep, the best of several blocks.

A pool of threads (Numba's, BLAS's) spins for a while after its last call and takes the cores from whoever comes next:
alternating the two call by call made a loop 200 times slower. So each is timed in a block of its own, after a pause in
which the other has gone to sleep, and after one call that wakes its own threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable

NAP = 0.01
LONGEST_PAUSE = 0.5


def settle() -> None:
    """Wait until no thread of this process is busy any more."""
    end = time.perf_counter() + LONGEST_PAUSE
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(NAP)
        if time.process_time() - before < 0.1 * NAP:
            return


def time_block(work: Callable[[int], object], count: int) -> float:
    """Seconds for each of `count` repetitions, after a pause and one repetition that is not timed."""
    settle()
    work(1)
    started = time.perf_counter()
    work(count)
    return (time.perf_counter() - started) / count


def repetitions(work: Callable[[int], object], seconds: float, most: int = 1000) -> int:
    """How many repetitions fill about so many seconds; at least two."""
    once = time_block(work, 1)
    return max(2, min(most, round(seconds / max(once, 1e-9))))


def repeated(call: Callable[[], object]) -> Callable[[int], None]:
    """A call without a count as one with it."""

    def work(count: int) -> None:
        for _ in range(count):
            call()

    return work
