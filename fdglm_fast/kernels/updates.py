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

from fdglm_fast.kernels._jit import inlined, scalar
from fdglm_fast.kernels.arrays import Model, Neighbours, State, Steps, Tiles
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
def laplacian(degree: Any, own: Any, neighbours: Any) -> Any:
    """(L z)_j = degree_j z_j - sum over the neighbours."""
    return degree * own - neighbours


@inlined
def shared_sum(q: int, Z: Any, tile: int, slot: int, thread: int, near: Neighbours, state: State) -> None:
    """pool[slot, q] = the q-th sum of rows of Z that several agents use."""
    line = state.pool[slot, q]
    for b in range(line.size):
        line[b] = 0
    start, stop = near.part_start[q], near.part_start[q + 1]
    add_rows(state.pool, slot, q, Z, tile, near.parts, start, stop)
    note(state.tally, thread, SHARED, 0, (stop - start - 1) * line.size)


@inlined
def neighbour_sum(
    j: int, out: Any, slot: int, row: int, Z: Any, tile: int, pool: Any, pool_slot: int, near: Neighbours
) -> None:
    """out[slot, row] = sum over the neighbours k of agent j of w_jk Z[tile, k].

    An agent that is joined to most of the others lists itself and those it is not joined to, and takes them off the
    total, which is the last of its shared sums.
    """
    line = out[slot, row]
    for b in range(line.size):
        line[b] = 0
    start, stop = near.row_start[j], near.row_start[j + 1]
    if near.weights.size > 0:
        add_weighted_rows(out, slot, row, Z, tile, near.rows, near.weights, start, stop)
        return
    add_rows(out, slot, row, Z, tile, near.rows, start, stop)
    start, stop = near.shared_start[j], near.shared_start[j + 1]
    if near.complement[j]:
        stop -= 1
    add_rows(out, slot, row, pool, pool_slot, near.shared, start, stop)
    if near.complement[j]:
        total = pool[pool_slot, near.shared[stop]]
        for b in range(line.size):
            line[b] = total[b] - line[b]


@inlined
def additions(j: int, near: Neighbours) -> int:
    """Operations of `neighbour_sum` on one sample, the first row being stored and not added."""
    rows = near.row_start[j + 1] - near.row_start[j]
    if near.weights.size > 0:
        return 2 * rows - 1
    return rows + near.shared_start[j + 1] - near.shared_start[j] - 1


@inlined
def v_update(j: int, tile: int, slot: int, thread: int, near: Neighbours, steps: Steps, state: State) -> None:
    """v_j+ and u_j = 2 v_j+ - v_j on a tile."""
    neighbour_sum(j, state.u, slot, j, state.lam, tile, state.pool, slot, near)
    u, v, lam = state.u[slot, j], state.v[tile, j], state.lam[tile, j]
    degree, t = near.degree[j], steps.t
    for b in range(u.size):
        new = descend(v[b], t, laplacian(degree, lam[b], u[b]))
        u[b] = extrapolate(new, v[b])
        v[b] = new
    note(state.tally, thread, V, j, (additions(j, near) + 4) * u.size)
    note(state.tally, thread, LAMBDA, j, u.size)


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
) -> None:
    """lambda_j^half = lambda_j + s [X_j w_j + (L u)_j] on a tile, in place."""
    line = state.line[thread, 0]
    if state.lam.shape[1] > 1:
        neighbour_sum(j, state.line, thread, 0, state.u, slot, state.pool, slot, near)
        u, degree = state.u[slot, j], near.degree[j]
        for b in range(line.size):
            line[b] = laplacian(degree, u[b], line[b])
    else:
        for b in range(line.size):
            line[b] = 0
    add_matvec(state.line, thread, tiles.X, tile, state.w, offsets[j], offsets[j + 1])
    lam, s = state.lam[tile, j], steps.s[j]
    for b in range(line.size):
        lam[b] = ascend(lam[b], s, line[b])
    columns = offsets[j + 1] - offsets[j]
    around = additions(j, near) + 2 if state.lam.shape[1] > 1 else -1
    note(state.tally, thread, LAMBDA, j, (2 * columns + around + 2) * line.size)


@inlined
def loss_step(tile: int, tiles: Tiles, model: Model, steps: Steps, state: State) -> None:
    """lambda_1+ = prox_{s loss*}(lambda_1^half) on a tile. Padding rows stay zero."""
    lam, y, s = state.lam[tile, 0], tiles.y[tile], steps.s[0]
    for b in range(min(lam.size, tiles.rows - tile * lam.size)):
        lam[b] = dual_step(model.loss, model.k, lam[b], s, y[b])


@inlined
def add_dual(tile: int, state: State) -> None:
    """The running sum of lambda_1, for certificates of losses that are not smooth."""
    lam, total = state.lam[tile, 0], state.lam_sum[tile]
    for b in range(lam.size):
        total[b] += lam[b]


@inlined
def lambda_update(
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
    """lambda_j+ on a tile, and the tile's part of X_j' lambda_j+."""
    lambda_half(j, tile, slot, thread, tiles, offsets, near, steps, state)
    if j == 0 and tiles.y.size > 0:  # on ranks, y is only where agent 1 is
        loss_step(tile, tiles, model, steps, state)
        add_dual(tile, state)
    group = tile // tiles.group
    first = tile == group * tiles.group
    start, stop = offsets[j], offsets[j + 1]
    dot_columns(state.partial, group, first, tiles.X, state.lam, tile, j, start, stop)
    note(state.tally, thread, THETA, j, (stop - start) * (2 * state.lam.shape[2] - (1 if first else 0)))


@scalar
def theta_update(offsets: Any, model: Model, steps: Steps, state: State) -> None:
    """theta+ = prox_{tau r}(theta - t g), and w = 2 theta+ - theta for the lambda update; g is used up."""
    theta, w, g = state.theta, state.w, state.g
    step = steps.tau / model.n
    for c in range(theta.size):
        g[c] = descend(theta[c], step, g[c])
    prox_all(model.penalty, model.reg, model.a, model.b, model.groups, steps.tau, g, g, model.norms)
    extrapolate_theta(theta, g, w)
    add_theta(theta, state.theta_sum)
    each = 2 + prox_operations(model.penalty) + state.partial.shape[0] - 1
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
def add_theta(theta: Any, theta_sum: Any) -> None:
    """The running sum of theta, for the ergodic average."""
    for c in range(theta.size):
        theta_sum[c] += theta[c]
