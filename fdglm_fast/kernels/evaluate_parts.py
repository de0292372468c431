"""The measuring pass in pieces, for agents on several ranks: own parts of z, then losses, then X' lam (`transpose`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_thread_id, prange

from fdglm_fast.kernels._jit import kernel
from fdglm_fast.kernels.arrays import Model, Tiles
from fdglm_fast.kernels.evaluate import cut_tile, join_tile, loss_tile


@kernel
def cut_parts(theta: Any, grid: Any, counts: Any, tiles: Tiles, offsets: Any, line: Any) -> None:
    """counts (K, tiles, 2, B): the sum of the own agents' parts of X theta_i, in whole numbers."""
    for index in prange(tiles.X.shape[0]):
        tile = np.int64(index)
        for i in range(theta.shape[0]):
            cut_tile(tile, counts[i, tile], tiles.X, offsets, theta[i], grid[i], line, get_thread_id())


@kernel
def join_parts(counts: Any, grid: Any, z: Any) -> None:
    """z (K, tiles, B) from the sum of everyone's counts."""
    for index in prange(z.shape[1]):
        tile = np.int64(index)
        for i in range(z.shape[0]):
            join_tile(z[i, tile], counts[i, tile], grid[i])


@kernel
def losses(z: Any, lam: Any, given: bool, sums: Any, tiles: Tiles, model: Model) -> None:
    """`loss_tile` on all tiles: sums (K, groups, 2), and lam (K, tiles, B) unless it is given."""
    all_tiles, groups = z.shape[1], sums.shape[1]
    for index in prange(groups):
        group = np.int64(index)
        start = group * tiles.group
        for i in range(z.shape[0]):
            sums[i, group, 0] = 0.0
            sums[i, group, 1] = 0.0
        for tile in range(start, min(start + tiles.group, all_tiles)):
            for i in range(z.shape[0]):
                loss_tile(tile, z[i], lam[i], given, tiles, model, sums[i, group])
