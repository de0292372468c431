"""From rows as a file has them to tiles as the kernels read them."""

from __future__ import annotations

from typing import Any

from numba import prange

from fdglm_fast.kernels._jit import kernel

COLUMNS = 16  # columns that are turned at a time, so that what is written stays in cache


@kernel
def pack(block: Any, first: int, order: Any, X: Any) -> int:
    """Samples first, first+1, ... (the rows of `block`; `first` a multiple of B) go into tiles, columns in `order`.

    Returns how many of the numbers are not finite.
    """
    B, rows, d = X.shape[2], block.shape[0], order.size
    bad = 0
    for k in prange((rows + B - 1) // B):
        tile = first // B + k
        for start in range(0, d, COLUMNS):
            for b in range(min(B, rows - k * B)):
                row = block[k * B + b]
                for c in range(start, min(start + COLUMNS, d)):
                    x = row[order[c]]
                    if x - x != 0:
                        bad += 1
                    X[tile, c, b] = x
    return bad
