"""What a trace needs to know of a point: predictions, losses and the gradient, in one pass over X.

For each candidate theta_i: z_i = X theta_i, the sum of the losses at z_i, a dual vector lam_i (loss'(z_i) for smooth
losses, a given one for the others) and X' lam_i. Sums are in double precision, in groups of tiles, in the order of the
agents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_thread_id, prange

from fdglm_fast.kernels._jit import kernel, scalar
from fdglm_fast.kernels.arrays import Model, Tiles
from fdglm_fast.kernels.losses import conjugate, dual_step, slope, value
from fdglm_fast.kernels.rows import add_matvec, dot_columns


@scalar
def predict_tile(tile: int, z: Any, X: Any, offsets: Any, theta: Any, line: Any, thread: int) -> None:
    """z[tile] = sum_j X_j[tile] theta_j."""
    part, out = line[thread, 0], z[tile]
    for b in range(out.size):
        out[b] = 0.0
    for j in range(offsets.size - 1):
        for b in range(out.size):
            part[b] = 0.0
        add_matvec(line, thread, X, tile, theta, offsets[j], offsets[j + 1])
        for b in range(out.size):
            out[b] += part[b]


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
    given: bool,
    z: Any,
    lam: Any,
    sums: Any,
    partial: Any,
    tiles: Tiles,
    offsets: Any,
    model: Model,
    line: Any,
    rows: Any,
) -> None:
    """Candidates theta (K, d): fills z, lam (K, tiles, B), sums (K, groups, 2) and partial (K, groups, d) = X' lam.

    `line` (threads, 1, B) double and `rows` (threads, 1, B) of the data's type are scratch.
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
                predict_tile(tile, z[i], tiles.X, offsets, theta[i], line, thread)
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
    here = X[tile : tile + 1]
    for j in range(offsets.size - 1):
        dot_columns(partial, group, first, here, rows[thread : thread + 1], 0, 0, offsets[j], offsets[j + 1])


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
            here = tiles.X[tile : tile + 1]
            for j in range(offsets.size - 1):
                for b in range(part.size):
                    part[b] = 0.0
                add_matvec(line, thread, tiles.X, tile, q, offsets[j], offsets[j + 1])
                for b in range(part.size):
                    target[b] = part[b]
                dot_columns(
                    partial,
                    group,
                    tile == start,
                    here,
                    rows[thread : thread + 1],
                    0,
                    0,
                    offsets[j],
                    offsets[j + 1],
                )


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
