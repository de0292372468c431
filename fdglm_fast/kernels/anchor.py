"""The restart of the fast method: the iterate becomes the anchor.

    u_0 <- u_0 - L p,    p <- 0,    lambda_0 <- lambda

and, on the way, what the weight between primal and dual needs, in `State.moves`: |dv|^2, for which <p, L p> stands,
|d lambda|^2 and |p|^2. It belongs to the iteration that made z, and is done on a tile while its rows are in cache; on
ranks p has to travel first, and it comes after the iteration.
"""

from __future__ import annotations

from fdglm_fast.kernels._jit import inlined, scalar
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
def anchor_agent(j: int, tile: int, slot: int, tiles: Tiles, near: Neighbours, state: State) -> None:
    """u_0 and lambda_0 of agent j on a tile, where p of all is known, and the tile's part of the distances."""
    group = tile // tiles.group
    first, moves = tile == group * tiles.group, state.moves[group, j]
    if state.u_anchor.shape[1] > 0:
        p = load(state.u, slot, j)
        image = laplacian(near.degree[j], p, neighbour_sum(j, state.u, slot, state.pool, slot, near))
        store(state.u_anchor, tile, j, load(state.u_anchor, tile, j) - image)
        moves[2] = dot(p, p) + (0.0 if first else moves[2])
        moves[0] = dot(p, image) + (0.0 if first else moves[0])
    lam = load(state.lam, tile, j)
    move = lam - load(state.lam_anchor, tile, j)
    store(state.lam_anchor, tile, j, lam)
    moves[1] = dot(move, move) + (0.0 if first else moves[1])


@scalar
def anchor_tile(tile: int, slot: int, thread: int, tiles: Tiles, near: Neighbours, state: State) -> None:
    """The restart of the own agents on a tile, where p of all is known."""
    for q in range(state.pool.shape[1]):
        shared_sum(q, state.u, slot, slot, thread, near, state)
    for j in range(state.lam_anchor.shape[1]):
        anchor_agent(j, tile, slot, tiles, near, state)
