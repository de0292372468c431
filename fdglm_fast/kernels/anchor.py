"""The restart of the fast method: the iterate becomes the anchor.

    p_0 <- p,    lambda_0 <- lambda,    c <- lambda_1

and, on the way, what the weight between primal and dual needs, in `State.moves`: |dv|^2, for which <dp, L dp> stands,
|d lambda|^2 and |dp|^2, with dp = p - p_0. It belongs to the iteration that made z, and is done on a tile while its
rows are in cache; on ranks dp has to travel first, and it comes after the iteration.

c is what all agents leave out of the lambda that p sums up. The Laplacian does not see it; without it p would grow with
every iteration by what the agents agree on, and L p, the small rest, would be lost in rounding. Agent 1 passes it on to
its neighbours, they to theirs.
"""

from __future__ import annotations

from fdglm_fast.kernels._jit import inlined, scalar
from fdglm_fast.kernels.arrays import Neighbours, State, Tiles
from fdglm_fast.kernels.formulas import laplacian
from fdglm_fast.kernels.line import dot, load, store
from fdglm_fast.kernels.sums import neighbour_sum, shared_sum


@inlined
def publish_p(j: int, tile: int, slot: int, state: State) -> None:
    """dp_j = p_j - p_0 goes where neighbours look for it, and p_j becomes p_0."""
    p = load(state.v, tile, j)
    store(state.u, slot, j, p - load(state.p_anchor, tile, j))
    store(state.p_anchor, tile, j, p)


@inlined
def anchor_agent(j: int, tile: int, slot: int, tiles: Tiles, near: Neighbours, state: State) -> None:
    """lambda_0 and agent 1's c on a tile, where dp of all is known, and the tile's part of the distances."""
    group = tile // tiles.group
    first, moves = tile == group * tiles.group, state.moves[group, j]
    if state.p_anchor.shape[1] > 0:
        dp = load(state.u, slot, j)
        image = laplacian(near.degree[j], dp, neighbour_sum(j, state.u, slot, state.pool, slot, near))
        moves[2] = dot(dp, dp) + (0.0 if first else moves[2])
        moves[0] = dot(dp, image) + (0.0 if first else moves[0])
    lam = load(state.lam, tile, j)
    move = lam - load(state.lam_anchor, tile, j)
    store(state.lam_anchor, tile, j, lam)
    if j == 0 and tiles.y.size > 0:
        store(state.common, tile, 0, lam)
    moves[1] = dot(move, move) + (0.0 if first else moves[1])


@scalar
def anchor_tile(tile: int, slot: int, thread: int, tiles: Tiles, near: Neighbours, state: State) -> None:
    """The restart of the own agents on a tile, where dp of all is known."""
    for q in range(state.pool.shape[1]):
        shared_sum(q, state.u, slot, slot, thread, near, state)
    for j in range(state.lam_anchor.shape[1]):
        anchor_agent(j, tile, slot, tiles, near, state)
