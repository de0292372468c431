"""The updates of the paper for one agent on one tile: what every schedule and engine calls.

    v_j+      = v_j - t (L lambda)_j
    u_j       = 2 v_j+ - v_j
    lambda_j+ = lambda_j + s [X_j (2 theta_j+ - theta_j) + (L u)_j], for agent 1 then through prox_{s loss*}
    theta_j+  = prox_{tau r_j}(theta_j - t X_j' lambda_j)

with t = tau/n and s = sigma/n. X_j' lambda_j+ is taken while the tile is still in cache: it belongs to the next theta
update, and so X is read once an iteration.
"""

from __future__ import annotations

from typing import Any

from fdglm_fast.kernels._jit import inlined
from fdglm_fast.kernels.arrays import Model, Neighbours, State, Steps, Tiles
from fdglm_fast.kernels.columns import q_line
from fdglm_fast.kernels.fast_updates import answer, first_follow, first_half, is_first, listen, p_update
from fdglm_fast.kernels.formulas import ascend, descend, extrapolate, laplacian
from fdglm_fast.kernels.line import load, store
from fdglm_fast.kernels.losses import dual_step
from fdglm_fast.kernels.sums import additions, neighbour_sum
from fdglm_fast.kernels.tally import LAMBDA, V, note


@inlined
def v_update(
    j: int,
    tile: int,
    slot: int,
    thread: int,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    steps: Steps,
    state: State,
) -> None:
    """v_j+ and u_j = 2 v_j+ - v_j on a tile, or what the fast method does there."""
    if steps.fast:
        p_update(j, tile, slot, thread, tiles, offsets, near, steps, state)
    else:
        old, lam = load(state.v, tile, j), load(state.lam, tile, j)
        around = neighbour_sum(j, state.lam, tile, state.pool, slot, near)
        new = descend(old, steps.t, laplacian(near.degree[j], lam, around))
        store(state.u, slot, j, extrapolate(new, old))
        store(state.v, tile, j, new)
        note(state.tally, thread, V, j, (additions(j, near) + 4) * state.v.shape[2])
        note(state.tally, thread, LAMBDA, j, state.v.shape[2])


@inlined
def lambda_half(
    j: int,
    tile: int,
    slot: int,
    thread: int,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    steps: Steps,
    state: State,
) -> Any:
    """lambda_j + s [X_j w_j + (L u)_j] on a tile."""
    kept = steps.stretch > 0 and not is_first(j, tiles)
    line, operations = load(state.q, slot, j) if kept else q_line(j, tile, thread, tiles, offsets, steps, state), 2
    if state.lam.shape[1] > 1:
        around = neighbour_sum(j, state.u, slot, state.pool, slot, near)
        line = line + laplacian(near.degree[j], load(state.u, slot, j), around)
        operations = additions(j, near) + 5
    note(state.tally, thread, LAMBDA, j, operations * state.lam.shape[2])
    return ascend(load(state.lam, tile, j), steps.s[j], line)


@inlined
def first_update(
    tile: int,
    slot: int,
    thread: int,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    model: Model,
    steps: Steps,
    state: State,
) -> None:
    """Agent 1 goes before the others: lambda_1+ on a tile and, where steps are mixed, the vector that it sends."""
    if steps.mix.size > 0:
        half = first_half(tile, slot, thread, near, steps, state)
    else:
        half = lambda_half(0, tile, slot, thread, tiles, offsets, near, steps, state)
    line = loss_step(tile, thread, half, tiles, model, steps, state)
    report_dual(tile, thread, steps, state)
    store(state.front, slot, 0, line)
    if steps.mix.size > 0:
        answer(slot, half, line, steps, state)


@inlined
def loss_step(tile: int, thread: int, line: Any, tiles: Tiles, model: Model, steps: Steps, state: State) -> Any:
    """lambda_1+ = prox_{first loss*}(lambda_1^half) on a tile. Padding rows stay zero."""
    store(state.line, thread, 0, line)
    numbers, y = state.line[thread, 0], tiles.y[tile]
    for b in range(min(numbers.size, tiles.rows - tile * numbers.size)):
        numbers[b] = dual_step(model.loss, model.k, numbers[b], steps.first, y[b])
    return load(state.line, thread, 0)


@inlined
def report_dual(tile: int, thread: int, steps: Steps, state: State) -> None:
    """Agent 1's lambda for certificates of losses that are not smooth: the running sum, or T(z) in the fast method."""
    numbers, out = state.line[thread, 0], state.lam_out[tile]
    if steps.fast:
        for b in range(numbers.size):
            out[b] = numbers[b]
    else:
        for b in range(numbers.size):
            out[b] += numbers[b]


@inlined
def lambda_update(
    j: int,
    tile: int,
    slot: int,
    thread: int,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    steps: Steps,
    state: State,
) -> Any:
    """The next lambda_j on a tile."""
    if steps.fast:
        if is_first(j, tiles):
            return first_follow(tile, slot, thread, tiles, steps, state)
        return listen(j, tile, slot, thread, tiles, near, steps, state)
    if is_first(j, tiles):
        line = load(state.front, slot, 0)
    else:
        line = lambda_half(j, tile, slot, thread, tiles, offsets, near, steps, state)
    store(state.lam, tile, j, line)
    return line
