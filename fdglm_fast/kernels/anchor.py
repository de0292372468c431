"""The restart of the fast method: the iterate becomes the anchor.

    u_0 <- u_0 - L p,    p <- 0,    lambda_0 <- lambda

and, on the way, what the weight between primal and dual needs: |dv|^2, for which <p, L p> stands, and |d lambda|^2.
"""

from __future__ import annotations

import numpy as np
from numba import get_thread_id, prange

from fdglm_fast.kernels._jit import inlined, kernel
from fdglm_fast.kernels.arrays import Neighbours, State, Tiles
from fdglm_fast.kernels.formulas import laplacian
from fdglm_fast.kernels.line import clear, dot, load, store
from fdglm_fast.kernels.sums import neighbour_sum, shared_sum


@inlined
def publish_p(j: int, tile: int, slot: int, state: State) -> None:
    """p_j goes where neighbours look for it, and is zero from now on."""
    store(state.u, slot, j, load(state.v, tile, j))
    clear(state.v, tile, j)


@inlined
def anchor_u(j: int, tile: int, slot: int, group: int, first: bool, near: Neighbours, state: State) -> None:
    """u_0 - (L p)_j, and the tile's part of <p, L p> and |p|^2."""
    p, moves = load(state.u, slot, j), state.moves[group, j]
    image = laplacian(near.degree[j], p, neighbour_sum(j, state.u, slot, state.pool, slot, near))
    store(state.u_anchor, tile, j, load(state.u_anchor, tile, j) - image)
    moves[2] = dot(p, p) + (0.0 if first else moves[2])
    moves[0] = dot(p, image) + (0.0 if first else moves[0])


@inlined
def anchor_lambda(j: int, tile: int, group: int, first: bool, state: State) -> None:
    """lambda_0 = lambda, and the tile's part of the squared distance between them."""
    lam, moves = load(state.lam, tile, j), state.moves[group, j]
    move = lam - load(state.lam_anchor, tile, j)
    store(state.lam_anchor, tile, j, lam)
    moves[1] = dot(move, move) + (0.0 if first else moves[1])


@inlined
def anchor_tile(tile: int, slot: int, thread: int, group: int, first: bool, near: Neighbours, state: State) -> None:
    """The restart of the own agents on a tile, where p of all is known."""
    for q in range(state.pool.shape[1]):
        shared_sum(q, state.u, slot, slot, thread, near, state)
    for j in range(state.u_anchor.shape[1]):
        anchor_u(j, tile, slot, group, first, near, state)
    for j in range(state.lam_anchor.shape[1]):
        anchor_lambda(j, tile, group, first, state)


@kernel
def anchor(tiles: Tiles, near: Neighbours, state: State) -> None:
    """All agents' restart; `state.moves` gets <p, L p>, |d lambda|^2 and |p|^2 by group and agent."""
    all_tiles, groups = state.lam.shape[0], state.partial.shape[0]
    for index in prange(groups):
        group, slot = np.int64(index), get_thread_id()
        start = group * tiles.group
        for tile in range(start, min(start + tiles.group, all_tiles)):
            for j in range(state.v.shape[1]):
                publish_p(j, tile, slot, state)
            anchor_tile(tile, slot, slot, group, tile == start, near, state)
