"""The course of the fast method inside the kernels: the steps of an iteration, and what comes after it.

A look measures r, the size of the move T(z) - z, and a restart how far z has gone from the anchor (the formulas are in
`fdglm_fast.halpern`). Every agent's part is known apart before they are added, in the order of the agents; where some
of them are on other ranks, the kernel's caller is asked for theirs (see `hook.py`).

The weight w between primal and dual divides tau_theta and tau_v and multiplies sigma; t s stays.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fdglm_fast.kernels import period as periods
from fdglm_fast.kernels._jit import scalar
from fdglm_fast.kernels.arrays import Neighbours, State, Steps
from fdglm_fast.kernels.hook import DISTANCES, SIZE, ask
from fdglm_fast.kernels.period import ANCHORED, CHECK, DUE, ITERATIONS, PLAIN, K, W

RELAXED = 1.9  # gain of a relaxed step: T(z) is at one
T, FIRST, SHIFT, GAIN, PULL = range(5)  # of `Course.numbers`


class Course(NamedTuple):
    """Where the fast method stands, and what its decisions are made of; steps are those for the weight one."""

    period: Any  # numbers of `period.py`, float64; empty where all iterations are alike
    numbers: Any  # (5,), dtype of the data: t, first, shift, gain and pull of this iteration
    sums: Any  # (4, agents of all ranks) float64: parts of what is added up
    members: Any  # (m,) int64: where those of the agents that are here belong
    sigma: Any  # (m,) float64
    bounds: Any  # (m,) float64: b_j
    tau: float  # tau_theta
    tau_v: float
    first: float  # the step of agent 1's dual prox
    unit: float  # the Laplacian is so many times that of the plan
    floor: float  # of the first r of all: below it r is rounding
    noise: float  # of degree |dp|^2: below it <dp, L dp> is rounding
    held: bool  # the weight stays
    agree: bool  # the network leaves nothing to disagree about: what <dp, L dp> is does not matter
    hook: int = 0  # address of who speaks with other ranks; 0: all agents are here


def steady(dtype: npt.DTypeLike) -> Course:
    """The course of the paper's method: every iteration is like the one before."""
    none = np.zeros(0)
    blank = (none, none.astype(dtype), none.reshape(0, 0), none.astype(np.int64), none, none)
    return Course(*blank, *(0.0,) * 6, False, False)


@scalar
def take_weight(steps: Steps, course: Course) -> None:
    """The steps of v and lambda for the weight of the period."""
    if course.period.size == 0:
        return
    w = course.period[W]
    course.numbers[T] = course.tau_v * course.unit / w
    course.numbers[FIRST] = course.first * w
    course.numbers[SHIFT] = steps.shift / w
    for j in range(steps.s.size):
        steps.s[j] = course.sigma[j] * w


@scalar
def next_steps(steps: Steps, course: Course) -> Steps:
    """The steps of the next iteration: a plain one, z+ = T(z), before a restart, else on the way of the period.

    Halpern's iteration z+ = R + pull (z_0 - R), with R = 2 T(z) - z, has the gain 2 (1 - pull).
    """
    if course.period.size == 0:
        return steps
    period, numbers = course.period, course.numbers
    due = period[DUE] > 0
    plain = due or period[PLAIN] > 0
    pull = 1.0 / (period[K] + 2.0) if period[ANCHORED] > 0 and not plain else 0.0
    numbers[PULL] = pull
    numbers[GAIN] = 1.0 if plain else 2.0 * (1.0 - pull) if pull > 0.0 else RELAXED
    return Steps(
        steps.tau / period[W],
        numbers[T],
        steps.agents,
        steps.s,
        numbers[FIRST],
        steps.fast,
        numbers[GAIN],
        numbers[PULL],
        steps.scale,
        steps.mix,
        steps.hears,
        steps.joined,
        numbers[SHIFT],
        steps.stretch,
        not due and period[K] % CHECK == 0,
        due,
    )


@scalar
def conclude(looked: bool, offsets: Any, steps: Steps, course: Course, state: State) -> int:
    """Count an iteration, and decide after a look; 1 if now is the time for a restart, -1 if the caller gave up."""
    period = course.period
    if period.size == 0:
        return 0
    period[K] += 1
    period[ITERATIONS] += 1
    if not looked:
        return 1 if period[DUE] > 0 else 0
    sizes(offsets, steps, course, state)
    if course.hook != 0 and ask(course.hook, SIZE, 1) < 0:
        return -1
    periods.look(period, period[K] - 1, math.sqrt(total(0, course)), course.floor)
    return 0


@scalar
def begin_anew(offsets: Any, near: Neighbours, steps: Steps, course: Course, state: State) -> int:
    """The end of a restart, when p_0, lambda_0 and c are set: theta_0, the weight, a new period; -1 as before."""
    trusted = periods.is_trusted(course.period, course.floor)
    if trusted and not course.held:
        distances(offsets, near, steps, course, state)
        if course.hook != 0 and ask(course.hook, DISTANCES, 4) < 0:
            return -1
        primal, dual, spread = total(0, course), total(1, course), total(2, course)
        if spread > total(3, course):
            primal += spread / (course.tau_v * course.unit)
        elif not course.agree:
            primal = dual = 0.0
        course.period[W] = periods.next_weight(course.period[W], primal, dual)
        take_weight(steps, course)
    for c in range(state.theta.size):
        state.theta_anchor[c] = state.theta[c]
    periods.restart(course.period, trusted)
    return 0


@scalar
def sizes(offsets: Any, steps: Steps, course: Course, state: State) -> None:
    """Parts of r^2. (w = 2 theta+ - theta was formed before theta went on to its next value.)"""
    weight, sums = course.period[W], course.sums
    add_groups(2, course, state)
    for j in range(course.members.size):
        at = course.members[j]
        theta = scaled_square(state.w, state.theta_out, steps.scale, offsets[j], offsets[j + 1])
        part = theta * weight / course.tau + sums[1, at] / (course.sigma[j] * weight)
        if course.tau_v > 0.0:
            part += course.tau_v / weight * course.unit * course.unit * sums[0, at] / course.bounds[j]
        sums[0, at] = part


@scalar
def distances(offsets: Any, near: Neighbours, steps: Steps, course: Course, state: State) -> None:
    """Parts of how far primal and dual have moved since the last restart, squared, in units of the steps for w = 1.

    <dp, L dp> cannot be told where the agents' dp are large and nearly the same, and rounding leaves nothing of it. On
    the complete graph that is always so, and does not matter: there is no disagreement to mend.
    """
    sums = course.sums
    add_groups(3, course, state)
    for j in range(course.members.size):
        at = course.members[j]
        theta = scaled_square(state.theta, state.theta_anchor, steps.scale, offsets[j], offsets[j + 1])
        sums[3, at] = course.noise * float(near.degree[j]) * sums[2, at]
        sums[2, at] = sums[0, at]
        sums[1, at] /= course.sigma[j]
        sums[0, at] = theta / course.tau


@scalar
def add_groups(kinds: int, course: Course, state: State) -> None:
    """The first kinds of `state.moves`, over the groups, in the rows of `sums`; other ranks' places stay zero."""
    sums, members = course.sums, course.members
    for k in range(sums.shape[0]):
        for at in range(sums.shape[1]):
            sums[k, at] = 0.0
    for j in range(members.size):
        for k in range(kinds):
            found = 0.0
            for group in range(state.moves.shape[0]):
                found += state.moves[group, j, k]
            sums[k, members[j]] = found


@scalar
def scaled_square(a: Any, b: Any, scale: Any, start: int, stop: int) -> float:
    """<a - b, S^-1 (a - b)> over the columns of an agent."""
    found = 0.0
    for c in range(start, stop):
        move = float(a[c]) - b[c]
        found += move * move / scale[c]
    return found


@scalar
def total(row: int, course: Course) -> float:
    """The sum over all agents, in their order."""
    found = 0.0
    for j in range(course.sums.shape[1]):
        found += course.sums[row, j]
    return found
