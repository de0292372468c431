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
from fdglm_fast.kernels.penalties import prox_all
from fdglm_fast.kernels.rows import add_matvec, add_rows, add_weighted_rows, dot_columns


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
    """2 new - old."""
    return new + (new - old)


@inlined
def laplacian(degree: Any, own: Any, neighbours: Any) -> Any:
    """(L z)_j = degree_j z_j - sum over the neighbours."""
    return degree * own - neighbours


@inlined
def shared_sum(q: int, Z: Any, tile: int, pool: Any, slot: int, near: Neighbours) -> None:
    """pool[slot, q] = the q-th sum that several agents use."""
    for b in range(pool.shape[2]):
        pool[slot, q, b] = 0
    add_rows(pool, slot, q, Z, tile, near.parts, near.part_start[q], near.part_start[q + 1])


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
def v_update(j: int, tile: int, slot: int, near: Neighbours, steps: Steps, state: State) -> None:
    """v_j+ and u_j = 2 v_j+ - v_j on a tile."""
    neighbour_sum(j, state.u, slot, j, state.lam, tile, state.pool, slot, near)
    u, v, lam = state.u[slot, j], state.v[tile, j], state.lam[tile, j]
    degree, t = near.degree[j], steps.t
    for b in range(u.size):
        new = descend(v[b], t, laplacian(degree, lam[b], u[b]))
        u[b] = extrapolate(new, v[b])
        v[b] = new


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


@inlined
def loss_step(tile: int, tiles: Tiles, model: Model, steps: Steps, state: State) -> None:
    """lambda_1+ = prox_{s loss*}(lambda_1^half) on a tile, and its running sum. Padding rows stay zero."""
    lam, y, total, s = state.lam[tile, 0], tiles.y[tile], state.lam_sum[tile], float(steps.s[0])
    for b in range(min(lam.size, tiles.rows - tile * lam.size)):
        lam[b] = dual_step(model.loss, model.k, lam[b], s, y[b])
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
    if j == 0:
        loss_step(tile, tiles, model, steps, state)
    group = tile // tiles.group
    first = tile == group * tiles.group
    dot_columns(state.partial, group, first, tiles.X, state.lam, tile, j, offsets[j], offsets[j + 1])


@scalar
def theta_update(model: Model, steps: Steps, state: State) -> None:
    """theta+ = prox_{tau r}(theta - t g), its running sum, and w = 2 theta+ - theta."""
    theta, w, g = state.theta, state.w, state.g
    step = steps.tau / model.n
    for c in range(theta.size):
        g[c] = descend(theta[c], step, g[c])
    prox_all(model.penalty, model.reg, model.a, model.b, model.groups, steps.tau, g, g, model.norms)
    for c in range(theta.size):
        w[c] = extrapolate(g[c], theta[c])
        theta[c] = g[c]
        state.theta_sum[c] += g[c]
