"""The updates of the paper for one agent on one tile: what every schedule and engine calls.

    v_j+      = v_j - t (L lambda)_j
    u_j       = 2 v_j+ - v_j
    lambda_j+ = lambda_j + s [X_j (2 theta_j+ - theta_j) + (L u)_j], for agent 1 then through prox_{s loss*}
    theta_j+  = prox_{tau r_j}(theta_j - t X_j' lambda_j)

with t = tau/n and s = sigma/n. X_j' lambda_j+ is taken while the tile is still in cache: it belongs to the next theta
update, and so X is read once an iteration.

The fast method has L^(1/2) in the place of L, a step of its own for v, and goes from z = (theta, v, lambda) not to
T(z) but to a point between its reflection and an anchor (`follow`). It keeps p instead of v, where u = L^(1/2) v =
u_0 - L p; with p+ = p + t lambda

    lambda_j+ = lambda_j + s_j [X_j (2 theta_j+ - theta_j) + u_0 - (L (2 p+ - p))_j]

so that neighbours exchange one vector, 2 p+ - p, and no square root is formed.
"""

from __future__ import annotations

from typing import Any

from fdglm_fast.kernels._jit import inlined, scalar
from fdglm_fast.kernels.arrays import Model, Neighbours, State, Steps, Tiles
from fdglm_fast.kernels.line import blank, dot, fetch, load, store
from fdglm_fast.kernels.losses import dual_step
from fdglm_fast.kernels.penalties import prox_all, prox_operations
from fdglm_fast.kernels.rows import add_matvec, add_rows, add_weighted_rows, dot_columns
from fdglm_fast.kernels.tally import LAMBDA, SHARED, THETA, V, note


@inlined
def descend(old: Any, step: Any, slope: Any) -> Any:
    """old - step * slope: a gradient step down, for theta and v."""
    return old - step * slope


@inlined
def ascend(old: Any, step: Any, slope: Any) -> Any:
    """old + step * slope: a gradient step up, for lambda."""
    return old + step * slope


@inlined
def extrapolate(new: Any, old: Any) -> Any:
    """2 new - old; the doubling is exact."""
    return (new + new) - old


@inlined
def follow(new: Any, old: Any, anchor: Any, pull: Any, reflect: Any) -> Any:
    """R + pull (anchor - R) with new = T(old) and R = 2 new - old, or R = new without `reflect`."""
    there = extrapolate(new, old) if reflect else new
    return there + pull * (anchor - there)


@inlined
def laplacian(degree: Any, own: Any, neighbours: Any) -> Any:
    """(L z)_j = degree_j z_j - sum over the neighbours."""
    return degree * own - neighbours


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


@inlined
def v_update(i: int, j: int, tile: int, slot: int, thread: int, near: Neighbours, steps: Steps, state: State) -> None:
    """v_j+ and u_j = 2 v_j+ - v_j on a tile, in the i-th iteration of a call."""
    B = state.v.shape[2]
    if steps.pull.size > 0:
        p_update(i, j, tile, slot, steps, state)
        note(state.tally, thread, V, j, 4 * B)
    else:
        old, lam = load(state.v, tile, j), load(state.lam, tile, j)
        around = neighbour_sum(j, state.lam, tile, state.pool, slot, near)
        new = descend(old, steps.t, laplacian(near.degree[j], lam, around))
        store(state.u, slot, j, extrapolate(new, old))
        store(state.v, tile, j, new)
        note(state.tally, thread, V, j, (additions(j, near) + 4) * B)
    note(state.tally, thread, LAMBDA, j, B)


@inlined
def p_update(i: int, j: int, tile: int, slot: int, steps: Steps, state: State) -> None:
    """u = 2 p+ - p with p+ = p + t lambda, and the next p; its anchor is zero."""
    old = load(state.v, tile, j)
    new = ascend(old, steps.t, load(state.lam, tile, j))
    ahead = extrapolate(new, old)
    there = ahead if steps.reflect[i] else new
    store(state.u, slot, j, ahead)
    store(state.v, tile, j, there - steps.pull[i] * there)


@inlined
def image_update(j: int, tile: int, slot: int, near: Neighbours, state: State) -> None:
    """(L lambda)_j on a tile, for a check."""
    around = neighbour_sum(j, state.lam, tile, state.pool, slot, near)
    store(state.image, slot, j, laplacian(near.degree[j], load(state.lam, tile, j), around))


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
    """lambda_j + s [X_j w_j + (L u)_j] on a tile; in the fast method u_0 - (L u)_j."""
    start, stop, several = offsets[j], offsets[j + 1], state.lam.shape[1] > 1
    line = blank(state.lam)
    if several:
        line = laplacian(
            near.degree[j], load(state.u, slot, j), neighbour_sum(j, state.u, slot, state.pool, slot, near)
        )
        if steps.pull.size > 0:
            line = load(state.u_anchor, tile, j) - line
    line = add_matvec(line, tiles.X, tile, state.w, start, stop)
    around = additions(j, near) + 2 + (1 if steps.pull.size > 0 else 0) if several else -1
    note(state.tally, thread, LAMBDA, j, (2 * (stop - start) + around + 2) * state.lam.shape[2])
    return ascend(load(state.lam, tile, j), steps.s[j], line)


@inlined
def loss_step(tile: int, thread: int, line: Any, tiles: Tiles, model: Model, steps: Steps, state: State) -> Any:
    """lambda_1+ = prox_{s loss*}(lambda_1^half) on a tile. Padding rows stay zero."""
    store(state.line, thread, 0, line)
    numbers, y, s = state.line[thread, 0], tiles.y[tile], steps.s[0]
    for b in range(min(numbers.size, tiles.rows - tile * numbers.size)):
        numbers[b] = dual_step(model.loss, model.k, numbers[b], s, y[b])
    return load(state.line, thread, 0)


@inlined
def report_dual(tile: int, thread: int, steps: Steps, state: State) -> None:
    """Agent 1's lambda for certificates of losses that are not smooth: the running sum, or T(z) in the fast method."""
    numbers, out = state.line[thread, 0], state.lam_out[tile]
    if steps.pull.size > 0:
        for b in range(numbers.size):
            out[b] = numbers[b]
    else:
        for b in range(numbers.size):
            out[b] += numbers[b]


@inlined
def settle(i: int, j: int, tile: int, thread: int, line: Any, steps: Steps, state: State) -> Any:
    """The next lambda_j from lambda_j+, in its place."""
    if steps.pull.size > 0:
        old, anchor = load(state.lam, tile, j), load(state.lam_anchor, tile, j)
        line = follow(line, old, anchor, steps.pull[i], steps.reflect[i])
        note(state.tally, thread, LAMBDA, j, 4 * state.lam.shape[2])
    store(state.lam, tile, j, line)
    return line


@inlined
def add_moves(j: int, tile: int, slot: int, group: int, first: bool, line: Any, state: State) -> None:
    """The tile's part of <lambda, L lambda>, <d lambda, L lambda>, |d lambda|^2 of agent j; T is lambda + d lambda."""
    lam, moves = load(state.lam, tile, j), state.moves[group, j]
    move = line - lam
    if first:
        moves[:] = 0.0
    if state.lam.shape[1] > 1:
        image = load(state.image, slot, j)
        moves[0] += dot(lam, image)
        moves[1] += dot(move, image)
    moves[2] += dot(move, move)


@inlined
def g_update(
    j: int, tile: int, thread: int, group: int, first: bool, line: Any, tiles: Tiles, offsets: Any, state: State
) -> None:
    """The tile's part of X_j' lambda_j."""
    start, stop = offsets[j], offsets[j + 1]
    dot_columns(state.partial, group, first, tiles.X, tile, line, start, stop)
    note(state.tally, thread, THETA, j, (stop - start) * (2 * state.lam.shape[2] - (1 if first else 0)))


@inlined
def lambda_update(
    i: int,
    j: int,
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
    """The next lambda_j on a tile, and the tile's part of X_j' lambda_j; the i-th iteration of a call."""
    fetch(state.lam, tile + 1, j)
    fetch(state.v, tile + 1, j)
    line = lambda_half(j, tile, slot, thread, tiles, offsets, near, steps, state)
    if j == 0 and tiles.y.size > 0:  # on ranks, y is only where agent 1 is
        line = loss_step(tile, thread, line, tiles, model, steps, state)
        report_dual(tile, thread, steps, state)
    group = tile // tiles.group
    first = tile == group * tiles.group
    if steps.check:
        add_moves(j, tile, slot, group, first, line, state)
    line = settle(i, j, tile, thread, line, steps, state)
    g_update(j, tile, thread, group, first, line, tiles, offsets, state)


@scalar
def theta_update(i: int, offsets: Any, model: Model, steps: Steps, state: State) -> None:
    """theta+ = prox_{tau r}(theta - t g), and w = 2 theta+ - theta for the lambda update; g is used up."""
    theta, w, g, scale = state.theta, state.w, state.g, steps.scale
    step = steps.tau / model.n
    for c in range(theta.size):
        g[c] = descend(theta[c], step * scale[c] if scale.size > 0 else step, g[c])
    prox_all(model.penalty, model.reg, model.a, model.b, model.groups, steps.tau, scale, g, g, model.norms)
    each = 2 + prox_operations(model.penalty) + state.partial.shape[0] - 1
    if steps.pull.size > 0:
        follow_theta(theta, g, w, state.theta_out, state.theta_anchor, steps.pull[i], steps.reflect[i])
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
def follow_theta(theta: Any, new: Any, w: Any, out: Any, anchor: Any, pull: Any, reflect: Any) -> None:
    """w = 2 theta+ - theta, theta+ reported, and the next theta of the fast method."""
    for c in range(theta.size):
        ahead = extrapolate(new[c], theta[c])
        w[c] = ahead
        out[c] = new[c]
        there = ahead if reflect else new[c]
        theta[c] = there + pull * (anchor[c] - there)


@scalar
def add_theta(theta: Any, theta_sum: Any) -> None:
    """The running sum of theta, for the ergodic average."""
    for c in range(theta.size):
        theta_sum[c] += theta[c]
