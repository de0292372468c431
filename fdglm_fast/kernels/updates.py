"""The updates of the paper for one agent on one tile: what every schedule and engine calls.

    v_j+      = v_j - t (L lambda)_j
    u_j       = 2 v_j+ - v_j
    lambda_j+ = lambda_j + s [X_j (2 theta_j+ - theta_j) + (L u)_j], for agent 1 then through prox_{s loss*}
    theta_j+  = prox_{tau r_j}(theta_j - t X_j' lambda_j)

with t = tau/n and s = sigma/n. X_j' lambda_j+ is taken while the tile is still in cache: it belongs to the next theta
update, and so X is read once an iteration.

The fast method has a step of its own for v, and goes from z = (theta, v, lambda) not to T(z) but beyond it, or to a
point between its reflection and an anchor (`follow`). It keeps p instead of v, where u = -L p. With p+ = p + t
(lambda - c), c the same for all agents (see `anchor.py`), and q_j = X_j (2 theta_j+ - theta_j)

    lambda_j+ = lambda_j + s_j [q_j - (L (2 p+ - p + t s q))_j]

for which neighbours exchange one vector; t s q mixes their steps (see `fdglm_fast.local_steps`), and is left out where
`Steps.mix` is empty. Agent 1's step is that of a metric in which its neighbours move with it: with a = lambda_1^half it
takes lambda_1+ = prox_{first loss*}(a) and sends t s_1 (q_1 - (a - lambda_1+)/first) + 2 p+ - p when it knows them.
"""

from __future__ import annotations

from typing import Any

from fdglm_fast.kernels._jit import inlined, scalar
from fdglm_fast.kernels.arrays import Model, Neighbours, State, Steps, Tiles
from fdglm_fast.kernels.formulas import ascend, descend, extrapolate, follow, laplacian, overstep
from fdglm_fast.kernels.line import blank, clear, dot, load, store
from fdglm_fast.kernels.losses import dual_step
from fdglm_fast.kernels.penalties import prox_all, prox_operations
from fdglm_fast.kernels.rows import add_matvec, add_matvec_apart, dot_columns, dot_columns_apart
from fdglm_fast.kernels.sums import additions, neighbour_sum
from fdglm_fast.kernels.tally import LAMBDA, THETA, V, note


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
    """v_j+ and u_j = 2 v_j+ - v_j on a tile."""
    B = state.v.shape[2]
    if steps.fast:
        p_update(j, tile, slot, thread, tiles, offsets, near, steps, state)
        note(state.tally, thread, V, j, 6 * B)
    else:
        old, lam = load(state.v, tile, j), load(state.lam, tile, j)
        around = neighbour_sum(j, state.lam, tile, state.pool, slot, near)
        new = descend(old, steps.t, laplacian(near.degree[j], lam, around))
        store(state.u, slot, j, extrapolate(new, old))
        store(state.v, tile, j, new)
        note(state.tally, thread, V, j, (additions(j, near) + 4) * B)
    note(state.tally, thread, LAMBDA, j, B)


@inlined
def p_update(
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
    """u = 2 p+ - p with p+ = p + t (lambda - c), and the next p; u is mixed with t s q."""
    old = load(state.v, tile, j)
    new = ascend(old, steps.t, load(state.lam, tile, j) - load(state.common, tile, 0))
    ahead = extrapolate(new, old)
    if steps.pull > 0:
        store(state.v, tile, j, ahead + steps.pull * (load(state.p_anchor, tile, j) - ahead))
    else:
        store(state.v, tile, j, overstep(new, old, steps.relax))
    if steps.mix.size > 0:
        ahead = mix(j, tile, slot, thread, ahead, tiles, offsets, near, steps, state)
    if steps.mix.size > 0 and j == 0 and tiles.y.size > 0:  # agent 1 answers later: until then its row adds nothing
        store(state.front, slot, 1, ahead)
        clear(state.u, slot, j)
    else:
        store(state.u, slot, j, ahead)


@inlined
def q_line(j: int, tile: int, thread: int, tiles: Tiles, offsets: Any, state: State) -> Any:
    """q_j = X_j w_j on a tile, which is mixed with those of the neighbours before lambda is known."""
    start, stop = offsets[j], offsets[j + 1]
    note(state.tally, thread, LAMBDA, j, (2 * (stop - start) - 1) * state.lam.shape[2])
    return add_matvec_apart(blank(state.lam), tiles.X, tile, state.w, start, stop)


@inlined
def q_update(j: int, tile: int, slot: int, thread: int, tiles: Tiles, offsets: Any, state: State) -> None:
    """q_j is kept for `mix`."""
    store(state.q, slot, j, q_line(j, tile, thread, tiles, offsets, state))


@inlined
def mix(
    j: int,
    tile: int,
    slot: int,
    thread: int,
    ahead: Any,
    tiles: Tiles,
    offsets: Any,
    near: Neighbours,
    steps: Steps,
    state: State,
) -> Any:
    """u_j = ahead + t s_j q_j; q_j - degree_j u_j is kept in the place of q_j for the lambda update."""
    q = load(state.q, slot, j) if steps.stretches else q_line(j, tile, thread, tiles, offsets, state)
    u = ascend(ahead, steps.mix[j], q)
    store(state.q, slot, j, q - near.degree[j] * u)
    note(state.tally, thread, LAMBDA, j, 4 * state.lam.shape[2])
    return u


@inlined
def look_update(j: int, tile: int, slot: int, tiles: Tiles, near: Neighbours, state: State) -> None:
    """The tile's part of |(L lambda)_j|^2, for a check."""
    group = tile // tiles.group
    around = neighbour_sum(j, state.lam, tile, state.pool, slot, near)
    image, moves = laplacian(near.degree[j], load(state.lam, tile, j), around), state.moves[group, j]
    moves[0] = dot(image, image) + (0.0 if tile == group * tiles.group else moves[0])


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
    """lambda_j + s [X_j w_j + (L u)_j] on a tile; in the fast method lambda_j + s [q_j - (L u)_j]."""
    start, stop, several = offsets[j], offsets[j + 1], state.lam.shape[1] > 1
    line, operations = blank(state.lam), -1
    if several:
        line = neighbour_sum(j, state.u, slot, state.pool, slot, near)
        operations = additions(j, near)
    if steps.mix.size > 0:
        line = load(state.q, slot, j) + line
        operations += 1
        if steps.hears[j]:
            line = hear(j, slot, line, steps, state)
    else:
        if several:
            line = laplacian(near.degree[j], load(state.u, slot, j), line)
            operations += 2
        line = add_matvec(line, tiles.X, tile, state.w, start, stop)
        operations += 2 * (stop - start)
    note(state.tally, thread, LAMBDA, j, (operations + 2) * state.lam.shape[2])
    return ascend(load(state.lam, tile, j), steps.s[j], line)


@inlined
def hear(j: int, slot: int, line: Any, steps: Steps, state: State) -> Any:
    """Agent 1's vector, which was not in the sum over the neighbours of agent j, times the weight of their edge."""
    return ascend(line, steps.joined[j], load(state.front, slot, 1))


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
    half = lambda_half(0, tile, slot, thread, tiles, offsets, near, steps, state)
    line = loss_step(tile, thread, half, tiles, model, steps, state)
    report_dual(tile, thread, steps, state)
    store(state.front, slot, 0, line)
    if steps.mix.size > 0:
        answer(slot, half, line, steps, state)


@inlined
def answer(slot: int, half: Any, line: Any, steps: Steps, state: State) -> None:
    """What agent 1 sends: its part of 2 p+ - p + t s q, less t s_1 z with z = (lambda_1^half - lambda_1+)/first."""
    store(state.front, slot, 1, descend(load(state.front, slot, 1), steps.shift, half - line))


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
def settle(j: int, tile: int, thread: int, line: Any, steps: Steps, state: State) -> Any:
    """The next lambda_j from lambda_j+, in its place."""
    if steps.fast:
        old = load(state.lam, tile, j)
        if steps.pull > 0:
            line = follow(line, old, load(state.lam_anchor, tile, j), steps.pull)
        else:
            line = overstep(line, old, steps.relax)
        note(state.tally, thread, LAMBDA, j, 4 * state.lam.shape[2])
    store(state.lam, tile, j, line)
    return line


@inlined
def add_move(j: int, tile: int, line: Any, tiles: Tiles, state: State) -> None:
    """The tile's part of |d lambda_j|^2; T is lambda + d lambda."""
    group = tile // tiles.group
    move, moves = line - load(state.lam, tile, j), state.moves[group, j]
    moves[1] = dot(move, move) + (0.0 if tile == group * tiles.group else moves[1])


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
    if j == 0 and tiles.y.size > 0:  # on ranks, y is only where agent 1 is
        line = load(state.front, slot, 0)
    else:
        line = lambda_half(j, tile, slot, thread, tiles, offsets, near, steps, state)
    if steps.look:
        add_move(j, tile, line, tiles, state)
    return settle(j, tile, thread, line, steps, state)


@inlined
def g_update(j: int, tile: int, thread: int, line: Any, tiles: Tiles, offsets: Any, steps: Steps, state: State) -> None:
    """The tile's part of X_j' lambda_j, where lambda_j is `line`."""
    start, stop, group = offsets[j], offsets[j + 1], tile // tiles.group
    first = tile == group * tiles.group
    if steps.mix.size > 0:
        dot_columns_apart(state.partial, group, first, tiles.X, tile, line, start, stop)
    else:
        dot_columns(state.partial, group, first, tiles.X, tile, line, start, stop)
    note(state.tally, thread, THETA, j, (stop - start) * (2 * state.lam.shape[2] - (1 if first else 0)))


@scalar
def theta_update(offsets: Any, model: Model, steps: Steps, state: State) -> None:
    """theta+ = prox_{tau r}(theta - t g), and w = 2 theta+ - theta for the lambda update; g is used up."""
    theta, w, g, scale = state.theta, state.w, state.g, steps.scale
    step = steps.tau / model.n
    for c in range(theta.size):
        g[c] = descend(theta[c], step * scale[c] if scale.size > 0 else step, g[c])
    prox_all(model.penalty, model.reg, model.a, model.b, model.groups, steps.tau, scale, g, g, model.norms)
    each = 2 + prox_operations(model.penalty) + state.partial.shape[0] - 1
    if steps.fast:
        follow_theta(theta, g, w, state.theta_out, state.theta_anchor, steps.pull, steps.relax)
        each += 3
    else:
        extrapolate_theta(theta, g, w)
        add_theta(theta, state.theta_out)
    for j in range(offsets.size - 1):
        note(state.tally, 0, THETA, j, each * (offsets[j + 1] - offsets[j]))
        note(state.tally, 0, LAMBDA, j, offsets[j + 1] - offsets[j])


@scalar
def extrapolate_theta(theta: Any, new: Any, w: Any) -> None:
    """w = 2 theta+ - theta, and theta = theta+."""
    for c in range(theta.size):
        w[c] = extrapolate(new[c], theta[c])
        theta[c] = new[c]


@scalar
def follow_theta(theta: Any, new: Any, w: Any, out: Any, anchor: Any, pull: Any, relax: Any) -> None:
    """w = 2 theta+ - theta, theta+ reported, and the next theta of the fast method."""
    for c in range(theta.size):
        ahead = extrapolate(new[c], theta[c])
        w[c] = ahead
        out[c] = new[c]
        theta[c] = ahead + pull * (anchor[c] - ahead) if pull > 0 else overstep(new[c], theta[c], relax)


@scalar
def add_theta(theta: Any, theta_sum: Any) -> None:
    """The running sum of theta, for the ergodic average."""
    for c in range(theta.size):
        theta_sum[c] += theta[c]
