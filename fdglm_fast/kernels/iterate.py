"""The iteration, fused into one pass over X, in two schedules over the same updates.

tiles    a thread takes a group of row tiles and works on all agents of a tile before the next tile: the rows of the
         neighbours stay in cache, and even one agent keeps every thread busy.
agents   threads stand in for agents: each takes a share of the agents and walks their row tiles, in step with the
         others at the end of each phase.

Both do the same additions in the same order. A driver runs as many iterations as it is told, and what the fast method
does between them (see `course.py`). A `prange` index is unsigned; it is made signed at once, so that the updates are
compiled for one type of index only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_thread_id, prange

from fdglm_fast.kernels._jit import driver, inlined, kernel, scalar
from fdglm_fast.kernels.anchor import anchor_agent, anchor_tile, publish_p
from fdglm_fast.kernels.arrays import Model, Neighbours, State, Steps, Tiles
from fdglm_fast.kernels.columns import g_update, q_update
from fdglm_fast.kernels.course import Course, begin_anew, conclude, next_steps, take_weight
from fdglm_fast.kernels.fast_updates import is_first, look_update
from fdglm_fast.kernels.line import fetch, load
from fdglm_fast.kernels.sums import shared_sum
from fdglm_fast.kernels.theta import theta_update
from fdglm_fast.kernels.updates import first_update, lambda_update, v_update

COLUMNS = 512  # columns of g that one thread sums up at a time


@inlined
def fetch_lambda(j: int, tile: int, state: State) -> None:
    """lambda_j will be read soon."""
    fetch(state.lam, tile, j)


@inlined
def fetch_v(j: int, tile: int, steps: Steps, state: State) -> None:
    """v_j, or p_j and the anchors, will be read soon."""
    fetch(state.v, tile, j)
    if steps.fast and (steps.pull > 0 or steps.restart):
        fetch(state.p_anchor, tile, j)
        fetch(state.lam_anchor, tile, j)


@inlined
def v_tile(
    tile: int,
    slot: int,
    thread: int,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    steps: Steps,
    state: State,
) -> None:
    """v+ and u of the agents that are here on one tile, where lambda of their neighbours is known."""
    if not steps.fast or steps.look:
        for q in range(state.pool.shape[1]):
            shared_sum(q, state.lam, tile, slot, thread, near, state)
    if steps.look:
        for j in range(state.v.shape[1]):
            look_update(j, tile, slot, tiles, near, state)
    if steps.fast and steps.stretch > 0:
        for j in range(state.v.shape[1]):
            q_update(j, tile, slot, thread, tiles, offsets, steps, state)
    for j in range(state.v.shape[1]):
        v_update(j, tile, slot, thread, tiles, offsets, near, steps, state)


@inlined
def lambda_tile(
    agents: Any,
    tile: int,
    slot: int,
    thread: int,
    following: int,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    steps: Steps,
    state: State,
) -> None:
    """lambda+ of some agents on one tile, and its part of X' lambda+.

    Where X is read in stretches, the rows of a stretch go between the two passes; the fast method makes q before v, and
    its stretch is all agents. `following` is the tile whose v comes next: the next one, unless that has been done. The
    memory is asked for the next tile's lambda and, if its v follows, for that; in the fast method a problem that stays
    in cache is better off without.
    """
    apart = steps.stretch > 0
    for begin in range(0, len(agents), max(steps.stretch, 1)):
        stretch = agents[begin : begin + max(steps.stretch, 1)]
        if apart and not steps.fast:
            for j in stretch:
                if not is_first(j, tiles):
                    q_update(j, tile, slot, thread, tiles, offsets, steps, state)
        for j in stretch:
            if apart or not steps.fast:
                fetch_lambda(j, tile + 1, state)
                if following == tile + 1 and state.v.shape[1] > 0:
                    fetch_v(j, tile + 1, steps, state)
            line = lambda_update(j, tile, slot, thread, tiles, offsets, near, steps, state)
            if not apart:
                g_update(j, tile, following, thread, line, tiles, offsets, steps, state)
        if apart:
            for j in stretch:
                g_update(j, tile, following, thread, load(state.lam, tile, j), tiles, offsets, steps, state)


@scalar
def tile_update(
    tile: int,
    slot: int,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> None:
    """An iteration of all agents on one tile; `slot` is the scratch of the thread that does it."""
    agents = state.lam.shape[1]
    if agents > 1:
        v_tile(tile, slot, slot, tiles, offsets, near, steps, state)
        for q in range(state.pool.shape[1]):
            shared_sum(q, state.u, slot, slot, slot, near, state)
    first_update(tile, slot, slot, tiles, offsets, near, model, steps, state)
    lambda_tile(steps.agents, tile, slot, slot, tile + 1, tiles, offsets, near, steps, state)
    if steps.restart:
        for j in range(state.v.shape[1]):
            publish_p(j, tile, slot, state)
        anchor_tile(tile, slot, slot, tiles, near, state)


@kernel
def tiles_iteration(tiles: Tiles, offsets: Any, near: Neighbours, model: Model, steps: Steps, state: State) -> None:
    """An iteration, threads over groups of tiles."""
    all_tiles, groups = state.lam.shape[0], state.partial.shape[0]
    theta_update(offsets, model, steps, state)
    for index in prange(groups):
        start = np.int64(index) * tiles.group
        for tile in range(start, min(start + tiles.group, all_tiles)):
            tile_update(tile, get_thread_id(), tiles, offsets, near, model, steps, state)
    blocks = (state.g.size + COLUMNS - 1) // COLUMNS
    for index in prange(blocks):
        sum_groups(np.int64(index) * COLUMNS, state)


@driver
def iterate_tiles(
    count: int,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    course: Course,
    state: State,
) -> None:
    """`count` iterations by tiles."""
    take_weight(steps, course)
    for _ in range(count):
        now = next_steps(steps, course)
        tiles_iteration(tiles, offsets, near, model, now, state)
        if conclude(now.look, offsets, steps, course, state) > 0:
            begin_anew(offsets, near, steps, course, state)


@kernel
def agents_iteration(tiles: Tiles, offsets: Any, near: Neighbours, model: Model, steps: Steps, state: State) -> None:
    """An iteration, threads over agents, as many tiles at a time as there are slots of scratch."""
    all_tiles, agents, slots = state.lam.shape[0], state.lam.shape[1], state.u.shape[0]
    sums = state.pool.shape[1]
    theta_update(offsets, model, steps, state)
    for start in range(0, all_tiles, slots):
        stop = min(start + slots, all_tiles)
        if agents > 1:
            if not steps.fast or steps.look:
                for index in prange(sums):
                    q = np.int64(index)
                    for tile in range(start, stop):
                        shared_sum(q, state.lam, tile, tile - start, get_thread_id(), near, state)
            if steps.look:
                for index in prange(agents):
                    j = np.int64(index)
                    for tile in range(start, stop):
                        look_update(j, tile, tile - start, tiles, near, state)
            for index in prange(agents):
                j = np.int64(index)
                for tile in range(start, stop):
                    slot, thread = tile - start, get_thread_id()
                    v_update(j, tile, slot, thread, tiles, offsets, near, steps, state)
            for index in prange(sums):
                q = np.int64(index)
                for tile in range(start, stop):
                    shared_sum(q, state.u, tile - start, tile - start, get_thread_id(), near, state)
        for index in prange(stop - start):
            slot = np.int64(index)
            first_update(start + slot, slot, get_thread_id(), tiles, offsets, near, model, steps, state)
        for index in prange(agents):
            j = np.int64(index)
            for tile in range(start, stop):
                slot, thread = tile - start, get_thread_id()
                fetch_lambda(j, tile + 1, state)
                line = lambda_update(j, tile, slot, thread, tiles, offsets, near, steps, state)
                g_update(j, tile, tile + 1, thread, line, tiles, offsets, steps, state)
        if steps.restart:
            for index in prange(state.v.shape[1]):
                j = np.int64(index)
                for tile in range(start, stop):
                    publish_p(j, tile, tile - start, state)
            for index in prange(sums):
                q = np.int64(index)
                for tile in range(start, stop):
                    shared_sum(q, state.u, tile - start, tile - start, get_thread_id(), near, state)
            for index in prange(agents):
                j = np.int64(index)
                for tile in range(start, stop):
                    anchor_agent(j, tile, tile - start, tiles, near, state)
    blocks = (state.g.size + COLUMNS - 1) // COLUMNS
    for index in prange(blocks):
        sum_groups(np.int64(index) * COLUMNS, state)


@driver
def iterate_agents(
    count: int,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    course: Course,
    state: State,
) -> None:
    """`count` iterations by agents."""
    take_weight(steps, course)
    for _ in range(count):
        now = next_steps(steps, course)
        agents_iteration(tiles, offsets, near, model, now, state)
        if conclude(now.look, offsets, steps, course, state) > 0:
            begin_anew(offsets, near, steps, course, state)


@scalar
def sum_groups(start: int, state: State) -> None:
    """g = X' lambda from its parts by group, in the order of the groups, for one block of columns."""
    stop = min(start + COLUMNS, state.g.size)
    g = state.g[start:stop]
    first = state.partial[0, start:stop]
    for c in range(g.size):
        g[c] = first[c]
    for group in range(1, state.partial.shape[0]):
        part = state.partial[group, start:stop]
        for c in range(g.size):
            g[c] += part[c]
