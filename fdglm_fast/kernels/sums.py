"""Sums over the neighbours of an agent on a tile, as the plan says (see `fdglm_fast.neighbours`)."""

from __future__ import annotations

from typing import Any

from fdglm_fast.kernels._jit import inlined
from fdglm_fast.kernels.arrays import Neighbours, State
from fdglm_fast.kernels.line import blank, load, store
from fdglm_fast.kernels.rows import add_rows, add_weighted_rows
from fdglm_fast.kernels.tally import SHARED, note


@inlined
def shared_sum(q: int, Z: Any, tile: int, slot: int, thread: int, near: Neighbours, state: State) -> None:
    """pool[slot, q] = the q-th sum of rows of Z that several agents use."""
    start, stop = near.part_start[q], near.part_start[q + 1]
    store(state.pool, slot, q, add_rows(blank(Z), Z, tile, near.parts, start, stop))
    note(state.tally, thread, SHARED, 0, (stop - start - 1) * state.pool.shape[2])


@inlined
def neighbour_sum(j: int, Z: Any, tile: int, pool: Any, slot: int, near: Neighbours) -> Any:
    """The sum over the neighbours k of agent j of w_jk Z[tile, k].

    An agent that is joined to most of the others lists itself and those it is not joined to, and takes them off the
    total, which is the last of its shared sums.
    """
    start, stop = near.row_start[j], near.row_start[j + 1]
    if near.weights.size > 0:
        return add_weighted_rows(blank(Z), Z, tile, near.rows, near.weights, start, stop)
    rows = add_rows(blank(Z), Z, tile, near.rows, start, stop)
    start, stop = near.shared_start[j], near.shared_start[j + 1]
    if near.complement[j]:
        rows = add_rows(rows, pool, slot, near.shared, start, stop - 1)
        return load(pool, slot, near.shared[stop - 1]) - rows
    return add_rows(rows, pool, slot, near.shared, start, stop)


@inlined
def additions(j: int, near: Neighbours) -> int:
    """Operations of `neighbour_sum` on one sample, the first row being stored and not added."""
    rows = near.row_start[j + 1] - near.row_start[j]
    if near.weights.size > 0:
        return 2 * rows - 1
    return rows + near.shared_start[j + 1] - near.shared_start[j] - 1
