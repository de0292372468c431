"""The updates of the fast method for one agent on one tile, where they are not the paper's.

It has a step of its own for v, and goes from z = (theta, v, lambda) not to T(z) but to z + gain (T(z) -
z) + pull (z_0 - z), with an anchor z_0 (`follow`). It keeps p instead of v, where u = -L p. With p+ = p + t (lambda -
c), c the same for all agents (see `anchor.py`), and q_j = X_j (2 theta_j+ - theta_j)

    lambda_j+ = lambda_j + s_j [q_j - (L u)_j],    u = 2 p+ - p + t s q

for which neighbours exchange one vector; t s q mixes their steps (see `fdglm_fast.local_steps`). One agent alone has
neither p nor u. Agent 1's step is that of a metric in which its neighbours move with it: with a = lambda_1^half it
takes lambda_1+ = prox_{first loss*}(a) and sends 2 p+ - p + t s_1 (q_1 - (a - lambda_1+)/first) when it knows them.

The other agents' lambda+ is linear in what they hear. What agent j's next lambda has of its own, lambda_j + gain s_j
(q_j - degree_j u_j) + pull (lambda_0 - lambda_j), takes the place of lambda_j where u_j is formed; gain s_j times the
sum over its neighbours is added when that is known.
"""

from __future__ import annotations

from typing import Any

from fdglm_fast.kernels._jit import inlined
from fdglm_fast.kernels.arrays import Neighbours, State, Steps, Tiles
from fdglm_fast.kernels.columns import q_line
from fdglm_fast.kernels.formulas import ascend, descend, laplacian, reflect
from fdglm_fast.kernels.line import clear, dot, load, store
from fdglm_fast.kernels.sums import additions, neighbour_sum
from fdglm_fast.kernels.tally import LAMBDA, V, note


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
    """u_j, the next p, and what the next lambda_j has of its own; agent 1 keeps q_j - degree_j u_j instead."""
    old, lam = load(state.v, tile, j), load(state.lam, tile, j)
    move = steps.t * (lam - load(state.common, tile, 0))
    ahead = reflect(old, move)
    follow(state.v, state.p_anchor, tile, j, old, steps.gain, move, steps)
    q = load(state.q, slot, j) if steps.stretch > 0 else q_line(j, tile, thread, tiles, offsets, steps, state)
    u, rest = mix(j, ahead, q, near, steps)
    first = is_first(j, tiles)
    if first:  # it answers later: until then its row adds nothing
        store(state.front, slot, 1, u)
        clear(state.u, slot, j)
    else:
        store(state.u, slot, j, u)
        prepare(j, tile, lam, rest, steps, state)
    if first or steps.look:
        store(state.q, slot, j, rest)
    note(state.tally, thread, V, j, 7 * state.lam.shape[2])
    note(state.tally, thread, LAMBDA, j, (5 if first else 10) * state.lam.shape[2])


@inlined
def is_first(j: int, tiles: Tiles) -> bool:
    """Whether agent j of those that are here is agent 1; on ranks, y is only where it is."""
    return bool(j == 0 and tiles.y.size > 0)


@inlined
def follow(Z: Any, anchors: Any, tile: int, j: int, old: Any, gain: Any, move: Any, steps: Steps) -> Any:
    """Z[tile, j] = old + gain move + pull (anchor - old), also returned."""
    line = ascend(old, gain, move)
    if steps.pull > 0:
        line = ascend(line, steps.pull, load(anchors, tile, j) - old)
    store(Z, tile, j, line)
    return line


@inlined
def mix(j: int, ahead: Any, q: Any, near: Neighbours, steps: Steps) -> Any:
    """u_j = ahead + t s_j q_j, and q_j - degree_j u_j."""
    u = ascend(ahead, steps.mix[j], q)
    return u, q - near.degree[j] * u


@inlined
def prepare(j: int, tile: int, lam: Any, rest: Any, steps: Steps, state: State) -> None:
    """lambda_j + gain s_j (q_j - degree_j u_j) + pull (lambda_0 - lambda_j), where `rest` is the bracket."""
    follow(state.lam, state.lam_anchor, tile, j, lam, steps.gain * steps.s[j], rest, steps)


@inlined
def look_update(j: int, tile: int, slot: int, tiles: Tiles, near: Neighbours, state: State) -> None:
    """The tile's part of |(L lambda)_j|^2, for a check."""
    group = tile // tiles.group
    around = neighbour_sum(j, state.lam, tile, state.pool, slot, near)
    image, moves = laplacian(near.degree[j], load(state.lam, tile, j), around), state.moves[group, j]
    moves[0] = dot(image, image) + (0.0 if tile == group * tiles.group else moves[0])


@inlined
def first_half(tile: int, slot: int, thread: int, near: Neighbours, steps: Steps, state: State) -> Any:
    """lambda_1^half of the fast method, from what agent 1 has kept and what it hears."""
    line = load(state.q, slot, 0) + neighbour_sum(0, state.u, slot, state.pool, slot, near)
    note(state.tally, thread, LAMBDA, 0, (additions(0, near) + 1) * state.lam.shape[2])
    return first_step(tile, line, steps, state)


@inlined
def first_step(tile: int, line: Any, steps: Steps, state: State) -> Any:
    """lambda_1 + s_1 times what it has kept and heard."""
    return ascend(load(state.lam, tile, 0), steps.s[0], line)


@inlined
def answer(slot: int, half: Any, line: Any, steps: Steps, state: State) -> None:
    """What agent 1 sends: its part of 2 p+ - p + t s q, less t s_1 z with z = (lambda_1^half - lambda_1+)/first."""
    store(state.front, slot, 1, descend(load(state.front, slot, 1), steps.shift, half - line))


@inlined
def listen(
    j: int, tile: int, slot: int, thread: int, tiles: Tiles, near: Neighbours, steps: Steps, state: State
) -> Any:
    """The next lambda_j of the fast method from what it has of its own (`prepare`) and the sum over the neighbours."""
    line = neighbour_sum(j, state.u, slot, state.pool, slot, near)
    if steps.hears[j]:
        line = hear(j, slot, line, steps, state)
    if steps.look:
        add_move(j, tile, steps.s[j] * (load(state.q, slot, j) + line), tiles, state)
    line = ascend(load(state.lam, tile, j), steps.gain * steps.s[j], line)
    store(state.lam, tile, j, line)
    note(state.tally, thread, LAMBDA, j, (additions(j, near) + 2) * state.lam.shape[2])
    return line


@inlined
def hear(j: int, slot: int, line: Any, steps: Steps, state: State) -> Any:
    """Agent 1's vector, which was not in the sum over the neighbours of agent j, times the weight of their edge."""
    return ascend(line, steps.joined[j], load(state.front, slot, 1))


@inlined
def first_follow(tile: int, slot: int, thread: int, tiles: Tiles, steps: Steps, state: State) -> Any:
    """The next lambda_1 from lambda_1+."""
    old = load(state.lam, tile, 0)
    move = load(state.front, slot, 0) - old
    if steps.look:
        add_move(0, tile, move, tiles, state)
    note(state.tally, thread, LAMBDA, 0, 6 * state.lam.shape[2])
    return follow(state.lam, state.lam_anchor, tile, 0, old, steps.gain, move, steps)


@inlined
def add_move(j: int, tile: int, move: Any, tiles: Tiles, state: State) -> None:
    """The tile's part of |d lambda_j|^2; T is lambda + d lambda."""
    group = tile // tiles.group
    moves = state.moves[group, j]
    moves[1] = dot(move, move) + (0.0 if tile == group * tiles.group else moves[1])
