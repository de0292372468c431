"""Compiled sums that do nothing but read, with one, two and four streams of addresses a thread.

The order of these sums is nobody's business, so here, and only here, the compiler may reorder additions: without that a
sum is a chain of dependent additions, slower than the memory. They are small and compiled anew by every run.
"""

from __future__ import annotations

from typing import Any

import numba
from numba import prange

_compiled: Any = numba.njit(parallel=True, nogil=True, fastmath={"reassoc"}, error_model="numpy")


@_compiled
def one_stream(numbers: Any, sums: Any) -> None:
    """sums[p] = the sum of part p of `numbers`."""
    size = numbers.size // sums.size
    for p in prange(sums.size):
        a = numbers[p * size : (p + 1) * size]
        total = numbers.dtype.type(0)
        for i in range(size):
            total += a[i]
        sums[p] = total


@_compiled
def two_streams(numbers: Any, sums: Any) -> None:
    """The same, both halves of a part at once."""
    size = numbers.size // (2 * sums.size)
    for p in prange(sums.size):
        start = 2 * p * size
        a, b = numbers[start : start + size], numbers[start + size : start + 2 * size]
        first, second = numbers.dtype.type(0), numbers.dtype.type(0)
        for i in range(size):
            first += a[i]
            second += b[i]
        sums[p] = first + second


@_compiled
def four_streams(numbers: Any, sums: Any) -> None:
    """The same, the four quarters of a part at once."""
    size = numbers.size // (4 * sums.size)
    for p in prange(sums.size):
        start = 4 * p * size
        a, b = numbers[start : start + size], numbers[start + size : start + 2 * size]
        c, d = numbers[start + 2 * size : start + 3 * size], numbers[start + 3 * size : start + 4 * size]
        first, second = numbers.dtype.type(0), numbers.dtype.type(0)
        third, fourth = numbers.dtype.type(0), numbers.dtype.type(0)
        for i in range(size):
            first += a[i]
            second += b[i]
            third += c[i]
            fourth += d[i]
        sums[p] = first + second + third + fourth
