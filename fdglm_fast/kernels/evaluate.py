"""What a trace needs to know of a point: predictions, losses and the gradient, in one pass over X.

For each candidate theta_i: z_i = X theta_i, the sum of the losses at z_i, a dual vector lam_i (loss'(z_i) for smooth
losses, a given one for the others) and X' lam_i. Sums over samples are in double precision, in groups of tiles.

The sum z = sum_j X_j theta_j over the agents is exact, so that its order, and with it who holds which agents, does not
matter: every part is cut to a grid of step 2^-b/scale and added as two whole numbers, the multiples of 1/scale and what
is left in multiples of 2^-b/scale. `scale` is a power of two that keeps |part| scale below 2^b for every agent, and b
leaves room for all agents in 64 bits (see `exact.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_thread_id, prange

from fdglm_fast.kernels._jit import kernel, scalar
from fdglm_fast.kernels.arrays import Model, Tiles
from fdglm_fast.kernels.line import load
from fdglm_fast.kernels.losses import conjugate, dual_step, slope, value
from fdglm_fast.kernels.penalties import value_all
from fdglm_fast.kernels.rows import dot_columns_apart, product


@scalar
def cut_tile(tile: int, counts: Any, X: Any, offsets: Any, theta: Any, grid: Any, line: Any, thread: int) -> None:
    """counts (2, B) = sum_j X_j[tile] theta_j in whole numbers; `grid` is (scale, 2^b)."""
    part, high, low = line[thread, 0], counts[0], counts[1]
    for b in range(part.size):
        high[b] = 0
        low[b] = 0
    if grid[0] != grid[0]:
        return
    for j in range(offsets.size - 1):
        product(part, X, tile, theta, offsets[j], offsets[j + 1])
        for b in range(part.size):
            scaled = part[b] * grid[0]
            whole = np.int64(scaled)
            high[b] += whole
            low[b] += np.int64((scaled - whole) * grid[1])


@scalar
def join_tile(out: Any, counts: Any, grid: Any) -> None:
    """The sums that `cut_tile` took, as numbers; NaN where the scale is, because theta was not finite."""
    high, low = counts[0], counts[1]
    unit, fine = 1.0 / grid[0], 1.0 / grid[1]
    for b in range(out.size):
        out[b] = (high[b] + low[b] * fine) * unit


@scalar
def predict_tile(tile: int, z: Any, X: Any, offsets: Any, theta: Any, grid: Any, scratch: Any, thread: int) -> None:
    """z[tile] = sum_j X_j[tile] theta_j; `scratch` is (line, counts)."""
    line, counts = scratch
    cut_tile(tile, counts[thread], X, offsets, theta, grid, line, thread)
    join_tile(z[tile], counts[thread], grid)


@scalar
def loss_tile(tile: int, z: Any, lam: Any, given: bool, tiles: Tiles, model: Model, sums: Any) -> None:
    """Add to `sums` the losses at z and the squared distance of lam from prox_{loss*}(lam + z).

    lam becomes loss'(z) unless it is given.
    """
    out, dual, y = z[tile], lam[tile], tiles.y[tile]
    for b in range(min(out.size, tiles.rows - tile * out.size)):
        sums[0] += value(model.loss, model.k, out[b], y[b])
        if given:
            away = dual[b] - dual_step(model.loss, model.k, dual[b] + out[b], 1.0, y[b])
            sums[1] += away * away
        else:
            dual[b] = slope(model.loss, model.k, out[b], y[b])


@kernel
def evaluate(
    theta: Any,
    grid: Any,
    given: bool,
    z: Any,
    lam: Any,
    sums: Any,
    partial: Any,
    tiles: Tiles,
    offsets: Any,
    model: Model,
    scratch: Any,
    rows: Any,
) -> None:
    """Candidates theta (K, d): fills z, lam (K, tiles, B), sums (K, groups, 2) and partial (K, groups, d) = X' lam.

    `grid` (K, 2) is for the exact sums. `scratch` is (line (threads, 1, B) double, counts (threads, 2, B) int64),
    `rows` (threads, 1, B) of the data's type.
    """
    all_tiles, groups = z.shape[1], partial.shape[1]
    for index in prange(groups):
        group = np.int64(index)
        thread = get_thread_id()
        start = group * tiles.group
        for i in range(theta.shape[0]):
            sums[i, group, 0] = 0.0
            sums[i, group, 1] = 0.0
        for tile in range(start, min(start + tiles.group, all_tiles)):
            for i in range(theta.shape[0]):
                predict_tile(tile, z[i], tiles.X, offsets, theta[i], grid[i], scratch, thread)
                loss_tile(tile, z[i], lam[i], given, tiles, model, sums[i, group])
                block_dots(tile, tile == start, group, partial[i], lam[i], tiles.X, offsets, rows, thread)


@scalar
def block_dots(
    tile: int, first: bool, group: int, partial: Any, lam: Any, X: Any, offsets: Any, rows: Any, thread: int
) -> None:
    """The tile's part of X' lam, with lam rounded to the type of X."""
    source, target = lam[tile], rows[thread, 0]
    for b in range(target.size):
        target[b] = source[b]
    line = load(rows, thread, 0)
    for j in range(offsets.size - 1):
        dot_columns_apart(partial, group, first, X, tile, line, offsets[j], offsets[j + 1], X.shape[1])


@kernel
def transpose(lam: Any, partial: Any, tiles: Tiles, offsets: Any, rows: Any) -> None:
    """partial (K, groups, d): its sum over the groups is X' lam_i for every lam_i (tiles, B), in one pass."""
    all_tiles, groups = tiles.X.shape[0], partial.shape[1]
    for index in prange(groups):
        group = np.int64(index)
        thread = get_thread_id()
        start = group * tiles.group
        for tile in range(start, min(start + tiles.group, all_tiles)):
            for i in range(lam.shape[0]):
                block_dots(tile, tile == start, group, partial[i], lam[i], tiles.X, offsets, rows, thread)


@kernel
def gram_whole(q: Any, grid: Any, z: Any, partial: Any, tiles: Tiles, offsets: Any, scratch: Any, rows: Any) -> None:
    """partial (groups, d): its sum over the groups is X' X q, with z (tiles, B) = X q on the way, in one pass."""
    all_tiles, groups = tiles.X.shape[0], partial.shape[0]
    for index in prange(groups):
        group = np.int64(index)
        thread = get_thread_id()
        start = group * tiles.group
        for tile in range(start, min(start + tiles.group, all_tiles)):
            predict_tile(tile, z, tiles.X, offsets, q, grid, scratch, thread)
            block_dots(tile, tile == start, group, partial, z, tiles.X, offsets, rows, thread)


@kernel
def largest_entries(tiles: Tiles, offsets: Any, out: Any) -> None:
    """out (groups, agents): the largest |x| in each group of tiles and block of columns."""
    all_tiles, groups = tiles.X.shape[0], out.shape[0]
    for index in prange(groups):
        group = np.int64(index)
        start = group * tiles.group
        for j in range(offsets.size - 1):
            largest = 0.0
            for tile in range(start, min(start + tiles.group, all_tiles)):
                for c in range(offsets[j], offsets[j + 1]):
                    column = tiles.X[tile, c]
                    for b in range(column.size):
                        largest = max(largest, abs(np.float64(column[b])))
            out[group, j] = largest


@kernel
def gram(q: Any, partial: Any, tiles: Tiles, offsets: Any, line: Any, rows: Any) -> None:
    """partial (groups, d): its sum over the groups is X_j' X_j q_j for every block j of columns, in one pass."""
    all_tiles, groups = tiles.X.shape[0], partial.shape[0]
    for index in prange(groups):
        group = np.int64(index)
        thread = get_thread_id()
        start = group * tiles.group
        part = line[thread, 0]
        target = rows[thread, 0]
        for tile in range(start, min(start + tiles.group, all_tiles)):
            for j in range(offsets.size - 1):
                first, last = offsets[j], offsets[j + 1]
                product(part, tiles.X, tile, q, first, last)
                for b in range(part.size):
                    target[b] = part[b]
                dot_columns_apart(
                    partial, group, tile == start, tiles.X, tile, load(rows, thread, 0), first, last, tiles.X.shape[1]
                )


@scalar
def penalty_values(theta: Any, offsets: Any, model: Model, out: Any) -> None:
    """out[j] = r_j(theta_j)."""
    for j in range(offsets.size - 1):
        start, stop = offsets[j], offsets[j + 1]
        groups = model.groups[start:stop] if model.groups.size > 0 else model.groups
        out[j] = value_all(model.penalty, model.reg, model.a, model.b, groups, theta[start:stop], model.norms)


@scalar
def conjugate_sum(lam: Any, alpha: float, y: Any, rows: int, model: Model) -> float:
    """sum_i loss*(alpha lam_i)."""
    total = 0.0
    B = lam.shape[1]
    for tile in range(lam.shape[0]):
        part = 0.0
        for b in range(min(B, rows - tile * B)):
            part += conjugate(model.loss, model.k, alpha * lam[tile, b], y[tile, b])
        total += part
    return total
