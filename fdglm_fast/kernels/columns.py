"""The two passes over an agent's columns on a tile: q_j = X_j w_j, with w = 2 theta+ - theta, and X_j' lambda_j+.

The second pass follows the first while the columns are still in cache. Both may go with the rows of their agent. Or
they go over a stretch of several agents at a time, before and after the work on these agents' rows: where columns come
from the memory, and an agent has neither few of them nor so many that its rows do not count, this is faster, because
the columns are one stream, and because the rows of neighbours are not driven from the first-level cache.
"""

from __future__ import annotations

from typing import Any

from fdglm_fast.kernels._jit import inlined
from fdglm_fast.kernels.arrays import State, Steps, Tiles
from fdglm_fast.kernels.line import blank, store
from fdglm_fast.kernels.rows import add_matvec, add_matvec_apart, dot_columns, dot_columns_apart
from fdglm_fast.kernels.tally import LAMBDA, THETA, note

AHEAD = 64  # columns, of 256 bytes, that the memory is asked for ahead, at least
STRETCH = 1024  # columns in a stretch of the paper's method: the next one comes into the second-level cache beside it


@inlined
def is_apart(steps: Steps) -> bool:
    """Whether other columns, or rows, come between the two passes: in the fast method they always do."""
    return steps.fast or steps.stretch > 0


@inlined
def q_line(j: int, tile: int, thread: int, tiles: Tiles, offsets: Any, steps: Steps, state: State) -> Any:
    """q_j = X_j w_j on a tile."""
    start, stop = offsets[j], offsets[j + 1]
    note(state.tally, thread, LAMBDA, j, (2 * (stop - start) - 1) * state.lam.shape[2])
    if is_apart(steps):
        return add_matvec_apart(blank(state.lam), tiles.X, tile, state.w, start, stop)
    return add_matvec(blank(state.lam), tiles.X, tile, state.w, start, stop, max(AHEAD, stop - start))


@inlined
def q_update(j: int, tile: int, slot: int, thread: int, tiles: Tiles, offsets: Any, steps: Steps, state: State) -> None:
    """q_j is kept until the turn of agent j's rows."""
    store(state.q, slot, j, q_line(j, tile, thread, tiles, offsets, steps, state))


@inlined
def g_update(
    j: int,
    tile: int,
    following: int,
    thread: int,
    line: Any,
    tiles: Tiles,
    offsets: Any,
    steps: Steps,
    state: State,
) -> None:
    """The tile's part of X_j' lambda_j, where lambda_j is `line`; `following` is the tile that comes next.

    The fast method works on all columns of a tile before it comes to the next one, the paper's on a stretch of them.
    """
    start, stop, group = offsets[j], offsets[j + 1], tile // tiles.group
    first = tile == group * tiles.group
    if is_apart(steps):
        ahead = (following - tile) * tiles.X.shape[1] if steps.fast else STRETCH
        dot_columns_apart(state.partial, group, first, tiles.X, tile, line, start, stop, ahead)
    else:
        dot_columns(state.partial, group, first, tiles.X, tile, line, start, stop, max(AHEAD, stop - start))
    note(state.tally, thread, THETA, j, (stop - start) * (2 * state.lam.shape[2] - (1 if first else 0)))
