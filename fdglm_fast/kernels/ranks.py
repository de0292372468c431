"""The iteration on one rank, in pieces between which the rows of boundary agents travel.

Row groups are taken in chunks. The v phase of a chunk needs the neighbours' lambda, its lambda phase their u:

    v             lambda of other ranks in; v+, u of the own agents; u of boundary agents out
    first         u of other ranks in; where agent 1 is, lambda_1+; agent 1's own vector out (where steps are mixed)
    lambda        u of other ranks, or agent 1's vector, in; lambda+ and the chunk's part of X' lambda+; lambda of
                  boundary agents out

Agents that need nothing from other ranks may go through the lambda phase right after the v phase of a tile (`Turns`).

The v phase of one chunk and the lambda phase of the one `lag` before it are done tile by tile side by side: the one
computes while the other waits for the memory. Before and after each piece the kernel asks its caller, who does the
sending and the waiting (see `hook.py`).

Rows of other ranks' agents (the halo) follow the own rows in `state.lam` and `state.u`, so that the updates of the
shared-memory engine serve here too. A message holds, for one other rank, the rows of a chunk tile by tile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import get_thread_id, prange

from fdglm_fast.kernels._jit import driver, inlined, kernel, scalar
from fdglm_fast.kernels.anchor import anchor_tile, publish_p
from fdglm_fast.kernels.arrays import Model, Neighbours, State, Steps, Tiles
from fdglm_fast.kernels.course import Course, begin_anew, conclude, next_steps, take_weight
from fdglm_fast.kernels.hook import ANCHOR, DONE, FIRST_DONE, FIRST_READY, LOOK, READY, ask
from fdglm_fast.kernels.iterate import COLUMNS, fetch_lambda, fetch_v, lambda_tile, sum_groups, v_tile
from fdglm_fast.kernels.line import fetch, load, store
from fdglm_fast.kernels.sums import shared_sum
from fdglm_fast.kernels.theta import theta_update
from fdglm_fast.kernels.updates import first_update


class Rows(NamedTuple):
    """Which row of an array is which row of the messages, in the order of the other ranks."""

    row: Any  # (rows,) int64: in the array
    start: Any  # (rows,) int64: where the rows of the same rank start
    count: Any  # (rows,) int64: how many rows the same rank has


class Messages(NamedTuple):
    """The buffers of all messages, (1, lines, B) each."""

    lam_in: Any
    lam_out: Any
    u_in: Any
    u_out: Any
    first_in: Any
    first_out: Any


class Turns(NamedTuple):
    """Whose lambda phase follows the v phase of a tile at once, and whose waits for other ranks.

    Where steps are mixed X is read in both phases, and the second time from cache only if they are close together.
    """

    early: Any  # int64 agents
    late: Any
    early_sums: Any  # int64: shared sums, likewise
    late_sums: Any
    first: bool  # agent 1 is here and among the early


class Chunk(NamedTuple):
    """Consecutive row groups; u and the pool use the slots from `slot` on."""

    first_group: int
    stop_group: int
    first: int  # tiles
    stop: int
    slot: int


@inlined
def place(i: int, tile: int, rows: Rows, chunk: Chunk) -> int:
    """Which line of all messages row i of a tile is."""
    tiles = chunk.stop - chunk.first
    within = rows.start[i] * tiles + (tile - chunk.first) * rows.count[i] + i - rows.start[i]
    return chunk.first * rows.row.size + within


@inlined
def pack_rows(out: Any, Z: Any, at: int, tile: int, rows: Rows, chunk: Chunk) -> None:
    """The rows of Z[at] that others need go into the messages of a chunk; the next tile's place is asked for."""
    for i in range(rows.row.size):
        line = place(i, tile, rows, chunk)
        fetch(out, 0, line + rows.count[i])
        store(out, 0, line, load(Z, at, rows.row[i]))


@inlined
def unpack_rows(message: Any, Z: Any, at: int, tile: int, rows: Rows, chunk: Chunk) -> None:
    """The rows that others sent come to their places in Z[at]; those of the next tile are asked for."""
    for i in range(rows.row.size):
        line = place(i, tile, rows, chunk)
        fetch(message, 0, line + rows.count[i])
        store(Z, at, rows.row[i], load(message, 0, line))


@scalar
def fetch_rows(Z: Any, at: int, start: int) -> None:
    """Rows of Z[at] will be read soon: neighbours' rows are read in no order that the memory could guess."""
    for r in range(start, Z.shape[1]):
        fetch(Z, at, r)


@kernel
def pack_lambda(chunk: Chunk, lam_out: Any, leaving: Rows, state: State) -> None:
    """The messages of lambda as it stands, without an update."""
    for index in prange(chunk.stop - chunk.first):
        tile = chunk.first + np.int64(index)
        pack_rows(lam_out, state.lam, tile, tile, leaving, chunk)


@inlined
def v_part(
    tile: int,
    chunk: Chunk,
    arrived: bool,
    messages: Messages,
    coming: Rows,
    leaving: Rows,
    turns: Turns,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> None:
    """v+ and u of the own agents on a tile; `arrived` says that lambda of other ranks is news. Then the early agents'
    lambda."""
    slot, thread = chunk.slot + tile - chunk.first, get_thread_id()
    for j in turns.late:
        fetch_lambda(j, tile + 1, state)
        fetch_v(j, tile + 1, steps, state)
    if arrived:
        fetch_rows(state.lam, tile + 1, state.v.shape[1])
        unpack_rows(messages.lam_in, state.lam, tile, tile, coming, chunk)
    v_tile(tile, slot, thread, tiles, offsets, near, steps, state)
    pack_rows(messages.u_out, state.u, slot, tile, leaving, chunk)
    for q in turns.early_sums:
        shared_sum(q, state.u, slot, slot, thread, near, state)
    if turns.first:
        first_update(tile, slot, thread, tiles, offsets, near, model, steps, state)
    lambda_tile(turns.early, tile, slot, thread, tile + 1, tiles, offsets, near, steps, state)


@inlined
def open_tile(
    tile: int,
    chunk: Chunk,
    u_in: Any,
    coming: Rows,
    turns: Turns,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> None:
    """What comes before the late agents' lambda on a tile: u of other ranks, sums that are shared, and agent 1."""
    slot, thread = chunk.slot + tile - chunk.first, get_thread_id()
    unpack_rows(u_in, state.u, slot, tile, coming, chunk)
    for q in turns.late_sums:
        shared_sum(q, state.u, slot, slot, thread, near, state)
    if tiles.y.size > 0 and not turns.first:
        first_update(tile, slot, thread, tiles, offsets, near, model, steps, state)


@inlined
def lambda_part(
    tile: int,
    following: int,
    chunk: Chunk,
    messages: Messages,
    coming: Rows,
    leaving: Rows,
    coming_first: Rows,
    turns: Turns,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> None:
    """lambda+ of the late agents on a tile, and its part of X' lambda+; where steps are mixed, `first` was before."""
    slot = chunk.slot + tile - chunk.first
    fetch_rows(state.u, slot + 1, 0)
    if steps.mix.size > 0:
        unpack_rows(messages.first_in, state.front, slot, tile, coming_first, chunk)
    else:
        open_tile(tile, chunk, messages.u_in, coming, turns, tiles, offsets, near, model, steps, state)
    lambda_tile(turns.late, tile, slot, get_thread_id(), following, tiles, offsets, near, steps, state)
    pack_rows(messages.lam_out, state.lam, tile, tile, leaving, chunk)


@inlined
def chunk_at(chunks: Any, c: int) -> Chunk:
    """A row of `chunks` as a chunk, or one without tiles where there is none."""
    if 0 <= c < chunks.shape[0]:
        return Chunk(chunks[c, 0], chunks[c, 1], chunks[c, 2], chunks[c, 3], chunks[c, 4])
    return Chunk(0, 0, 0, 0, 0)


@inlined
def tiles_of(chunks: Any, c: int) -> int:
    chunk = chunk_at(chunks, c)
    return chunk.stop - chunk.first


@inlined
def groups_of(chunks: Any, c: int) -> int:
    chunk = chunk_at(chunks, c)
    return chunk.stop_group - chunk.first_group


@kernel
def chunks_iteration(
    hook: int,
    lag: int,
    chunks: Any,
    messages: Messages,
    coming: Rows,
    leaving: Rows,
    coming_first: Rows,
    leaving_first: Rows,
    turns: Turns,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> int:
    """An iteration, in step with the other ranks; -1 where `hook` gave up.

    The answer to READY is 1 where lambda of other ranks is news for the chunk whose v phase comes.
    """
    theta_update(offsets, model, steps, state)
    for c in range(chunks.shape[0] + lag):
        if steps.mix.size > 0 and 0 < c <= chunks.shape[0]:
            if ask(hook, FIRST_READY, c - 1) < 0:
                return -1
            for index in prange(tiles_of(chunks, c - 1)):
                chunk = chunk_at(chunks, c - 1)
                tile, slot = chunk.first + np.int64(index), chunk.slot + np.int64(index)
                open_tile(tile, chunk, messages.u_in, coming, turns, tiles, offsets, near, model, steps, state)
                pack_rows(messages.first_out, state.front, slot, tile, leaving_first, chunk)
            if ask(hook, FIRST_DONE, c - 1) < 0:
                return -1
        answer = ask(hook, READY, c)
        if answer < 0:
            return -1
        v_chunk = c if state.v.shape[1] > 0 else -1
        for index in prange(max(groups_of(chunks, v_chunk), groups_of(chunks, c - lag))):
            group = np.int64(index)
            ahead, behind = chunk_at(chunks, v_chunk), chunk_at(chunks, c - lag)
            for k in range(group * tiles.group, (group + 1) * tiles.group):
                tile = ahead.first + k
                if tile < ahead.stop:
                    v_part(
                        tile,
                        ahead,
                        answer > 0,
                        messages,
                        coming,
                        leaving,
                        turns,
                        tiles,
                        offsets,
                        near,
                        model,
                        steps,
                        state,
                    )
                tile = behind.first + k
                if tile < behind.stop:
                    lambda_part(
                        tile,
                        ahead.first + k + 1,
                        behind,
                        messages,
                        coming,
                        leaving,
                        coming_first,
                        turns,
                        tiles,
                        offsets,
                        near,
                        model,
                        steps,
                        state,
                    )
        if ask(hook, DONE, c) < 0:
            return -1
    for index in prange((state.g.size + COLUMNS - 1) // COLUMNS):
        sum_groups(np.int64(index) * COLUMNS, state)
    return 0


@driver
def iterate_chunks(
    count: int,
    lag: int,
    chunks: Any,
    messages: Messages,
    coming: Rows,
    leaving: Rows,
    coming_first: Rows,
    leaving_first: Rows,
    turns: Turns,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    course: Course,
    state: State,
) -> None:
    """`count` iterations, in step with the other ranks; the course's hook answers -1 to end the call at once."""
    take_weight(steps, course)
    for _ in range(count):
        now = next_steps(steps, course)
        if now.look and ask(course.hook, LOOK, 0) < 0:
            return
        done = chunks_iteration(
            course.hook,
            lag,
            chunks,
            messages,
            coming,
            leaving,
            coming_first,
            leaving_first,
            turns,
            tiles,
            offsets,
            near,
            model,
            now,
            state,
        )
        if done < 0:
            return
        ended = conclude(now.look, offsets, steps, course, state)
        if ended < 0:
            return
        if ended > 0 and (ask(course.hook, ANCHOR, 0) < 0 or begin_anew(offsets, near, steps, course, state) < 0):
            return


@kernel
def publish_chunk(chunk: Chunk, u_out: Any, leaving: Rows, state: State) -> None:
    """A restart begins: dp of the own agents where neighbours look for it, dp of boundary agents out."""
    for index in prange(chunk.stop - chunk.first):
        tile, slot = chunk.first + np.int64(index), chunk.slot + np.int64(index)
        for j in range(state.v.shape[1]):
            publish_p(j, tile, slot, state)
        pack_rows(u_out, state.u, slot, tile, leaving, chunk)


@kernel
def anchor_chunk(chunk: Chunk, u_in: Any, coming: Rows, tiles: Tiles, near: Neighbours, state: State) -> None:
    """The restart of the own agents on a chunk, with dp of other ranks in."""
    for index in prange(chunk.stop_group - chunk.first_group):
        group, thread = chunk.first_group + np.int64(index), get_thread_id()
        start = group * tiles.group
        for tile in range(start, min(start + tiles.group, chunk.stop)):
            slot = chunk.slot + tile - chunk.first
            unpack_rows(u_in, state.u, slot, tile, coming, chunk)
            anchor_tile(tile, slot, thread, tiles, near, state)
