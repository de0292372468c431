"""The iteration on one rank, in pieces between which the rows of boundary agents travel.

Row groups are taken in chunks. The v phase of a chunk needs the neighbours' lambda, its lambda phase their u:

    v             lambda of other ranks in; v+, u of the own agents; u of boundary agents out
    first         u of other ranks in; where agent 1 is, lambda_1+; agent 1's own vector out (where steps are mixed)
    lambda        u of other ranks, or agent 1's vector, in; lambda+ and the chunk's part of X' lambda+; lambda of
                  boundary agents out
    turn          g = X' lambda from its parts, then theta+ for the next iteration

`work` does the v phase of one chunk and the lambda phase of another tile by tile: the one computes while the other
waits for the memory.

Rows of other ranks' agents (the halo) follow the own rows in `state.lam` and `state.u`, so that the updates of the
shared-memory engine serve here too. A message holds, for one other rank, the rows of a chunk tile by tile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import get_thread_id, prange

from fdglm_fast.kernels._jit import inlined, kernel, scalar
from fdglm_fast.kernels.anchor import anchor_tile, publish_p
from fdglm_fast.kernels.arrays import Model, Neighbours, State, Steps, Tiles
from fdglm_fast.kernels.iterate import COLUMNS, sum_groups, v_tile
from fdglm_fast.kernels.line import fetch
from fdglm_fast.kernels.sums import shared_sum
from fdglm_fast.kernels.updates import first_update, lambda_update, theta_update


class Rows(NamedTuple):
    """Which row of an array is which row of the messages, in the order of the other ranks."""

    row: Any  # (rows,) int64: in the array
    start: Any  # (rows,) int64: where the rows of the same rank start
    count: Any  # (rows,) int64: how many rows the same rank has


class Messages(NamedTuple):
    """The buffers of all messages."""

    lam_in: Any
    lam_out: Any
    u_in: Any
    u_out: Any
    first_in: Any
    first_out: Any


class Chunk(NamedTuple):
    """Consecutive row groups; u and the pool use the slots from `slot` on."""

    first_group: int
    stop_group: int
    first: int  # tiles
    stop: int
    slot: int


@scalar
def place(i: int, tile: int, rows: Rows, chunk: Chunk, B: int) -> int:
    """Where row i of a tile begins in the buffer of all messages."""
    tiles = chunk.stop - chunk.first
    within = rows.start[i] * tiles + (tile - chunk.first) * rows.count[i] + i - rows.start[i]
    return (chunk.first * rows.row.size + within) * B


@scalar
def pack_rows(out: Any, Z: Any, at: int, tile: int, rows: Rows, chunk: Chunk) -> None:
    """The rows of Z[at] that others need go into the messages of a chunk."""
    B = Z.shape[2]
    for i in range(rows.row.size):
        start, source = place(i, tile, rows, chunk, B), Z[at, rows.row[i]]
        for b in range(B):
            out[start + b] = source[b]


@scalar
def unpack_rows(message: Any, Z: Any, at: int, tile: int, rows: Rows, chunk: Chunk) -> None:
    """The rows that others sent come to their places in Z[at]."""
    B = Z.shape[2]
    for i in range(rows.row.size):
        start, target = place(i, tile, rows, chunk, B), Z[at, rows.row[i]]
        for b in range(B):
            target[b] = message[start + b]


@scalar
def fetch_tile(Z: Any, at: int) -> None:
    """All rows of Z[at] will be read soon: neighbours' rows are read in no order that the memory could guess."""
    for r in range(Z.shape[1]):
        fetch(Z, at, r)


@kernel
def pack_lambda(chunk: Chunk, lam_out: Any, leaving: Rows, state: State) -> None:
    """The messages of lambda as it stands, without an update."""
    for index in prange(chunk.stop - chunk.first):
        tile = chunk.first + np.int64(index)
        pack_rows(lam_out, state.lam, tile, tile, leaving, chunk)


@inlined
def v_part(
    i: int,
    tile: int,
    chunk: Chunk,
    lam_in: Any,
    u_out: Any,
    arrived: bool,
    coming: Rows,
    leaving: Rows,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    steps: Steps,
    state: State,
) -> None:
    """v+ and u of the own agents on a tile; `arrived` says that `lam_in` is news."""
    slot = chunk.slot + tile - chunk.first
    fetch_tile(state.lam, tile + 1)
    fetch_tile(state.v, tile + 1)
    if arrived:
        unpack_rows(lam_in, state.lam, tile, tile, coming, chunk)
    v_tile(i, tile, slot, get_thread_id(), tiles, offsets, near, steps, state)
    pack_rows(u_out, state.u, slot, tile, leaving, chunk)


@inlined
def open_tile(
    tile: int,
    chunk: Chunk,
    u_in: Any,
    coming: Rows,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> None:
    """What comes before lambda on a tile: u of other ranks, sums that are shared, and agent 1 where it is here."""
    slot, thread = chunk.slot + tile - chunk.first, get_thread_id()
    unpack_rows(u_in, state.u, slot, tile, coming, chunk)
    for q in range(state.pool.shape[1]):
        shared_sum(q, state.u, slot, slot, thread, near, state)
    if tiles.y.size > 0:
        first_update(tile, slot, thread, tiles, offsets, near, model, steps, state)


@kernel
def first_chunk(
    chunk: Chunk,
    messages: Messages,
    coming: Rows,
    leaving_first: Rows,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> None:
    """Agent 1's update of a chunk before the others', and its vector for the ranks of its neighbours."""
    for index in prange(chunk.stop - chunk.first):
        tile = chunk.first + np.int64(index)
        open_tile(tile, chunk, messages.u_in, coming, tiles, offsets, near, model, steps, state)
        slot = chunk.slot + np.int64(index)
        pack_rows(messages.first_out, state.front, slot, tile, leaving_first, chunk)


@inlined
def lambda_part(
    i: int,
    tile: int,
    chunk: Chunk,
    u_in: Any,
    first_in: Any,
    lam_out: Any,
    coming: Rows,
    coming_first: Rows,
    leaving: Rows,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> None:
    """lambda+ of the own agents on a tile, and its part of X' lambda+; `first_chunk` was before, if at all."""
    slot = chunk.slot + tile - chunk.first
    fetch_tile(state.u, slot + 1)
    if steps.mix.size > 0:
        unpack_rows(first_in, state.front, slot, tile, coming_first, chunk)
    else:
        open_tile(tile, chunk, u_in, coming, tiles, offsets, near, model, steps, state)
    for j in range(offsets.size - 1):
        fetch(state.lam, tile + 1, j)
        lambda_update(i, j, tile, slot, get_thread_id(), tiles, offsets, near, steps, state)
    pack_rows(lam_out, state.lam, tile, tile, leaving, chunk)


@kernel
def work(
    i: int,
    ahead: Chunk,
    behind: Chunk,
    messages: Messages,
    arrived: bool,
    coming: Rows,
    leaving: Rows,
    coming_first: Rows,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> None:
    """The v phase of one chunk and the lambda phase of another, i-th iteration of a call; either may be empty."""
    most = max(ahead.stop_group - ahead.first_group, behind.stop_group - behind.first_group)
    for index in prange(most):
        group = np.int64(index)
        for k in range(group * tiles.group, (group + 1) * tiles.group):
            if ahead.first + k < ahead.stop:
                v_part(
                    i,
                    ahead.first + k,
                    ahead,
                    messages.lam_in,
                    messages.u_out,
                    arrived,
                    coming,
                    leaving,
                    tiles,
                    offsets,
                    near,
                    steps,
                    state,
                )
            if behind.first + k < behind.stop:
                lambda_part(
                    i,
                    behind.first + k,
                    behind,
                    messages.u_in,
                    messages.first_in,
                    messages.lam_out,
                    coming,
                    coming_first,
                    leaving,
                    tiles,
                    offsets,
                    near,
                    model,
                    steps,
                    state,
                )


@kernel
def turn(end: bool, begin: bool, i: int, offsets: Any, model: Model, steps: Steps, state: State) -> None:
    """End an iteration (g = X' lambda from its parts), begin the i-th of a call (theta+), or both."""
    blocks = (state.g.size + COLUMNS - 1) // COLUMNS if end else 0
    for index in prange(blocks):
        sum_groups(np.int64(index) * COLUMNS, state)
    if begin:
        theta_update(i, offsets, model, steps, state)


@kernel
def publish_chunk(chunk: Chunk, u_out: Any, leaving: Rows, state: State) -> None:
    """A restart begins: p of the own agents where neighbours look for it, p of boundary agents out."""
    for index in prange(chunk.stop - chunk.first):
        tile, slot = chunk.first + np.int64(index), chunk.slot + np.int64(index)
        for j in range(state.v.shape[1]):
            publish_p(j, tile, slot, state)
        pack_rows(u_out, state.u, slot, tile, leaving, chunk)


@kernel
def anchor_chunk(chunk: Chunk, u_in: Any, coming: Rows, tiles: Tiles, near: Neighbours, state: State) -> None:
    """The restart of the own agents on a chunk, with p of other ranks in."""
    for index in prange(chunk.stop_group - chunk.first_group):
        group, thread = chunk.first_group + np.int64(index), get_thread_id()
        start = group * tiles.group
        for tile in range(start, min(start + tiles.group, chunk.stop)):
            slot = chunk.slot + tile - chunk.first
            unpack_rows(u_in, state.u, slot, tile, coming, chunk)
            anchor_tile(tile, slot, thread, group, tile == start, near, state)
