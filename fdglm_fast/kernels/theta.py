"""The theta update of all agents, and what follows from it; theta has d numbers, and one thread will do."""

from __future__ import annotations

from typing import Any

from fdglm_fast.kernels._jit import scalar
from fdglm_fast.kernels.arrays import Model, State, Steps
from fdglm_fast.kernels.formulas import ascend, descend, extrapolate
from fdglm_fast.kernels.penalties import prox_all, prox_operations
from fdglm_fast.kernels.tally import LAMBDA, THETA, note


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
        follow_theta(theta, g, w, state.theta_out, state.theta_anchor, steps.gain, steps.pull)
        each += 6
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
def follow_theta(theta: Any, new: Any, w: Any, out: Any, anchor: Any, gain: Any, pull: Any) -> None:
    """w = 2 theta+ - theta, theta+ reported, and the next theta of the fast method."""
    for c in range(theta.size):
        old, move = theta[c], new[c] - theta[c]
        w[c] = extrapolate(new[c], old)
        out[c] = new[c]
        theta[c] = ascend(old, gain, move)
        if pull > 0:
            theta[c] = ascend(theta[c], pull, anchor[c] - old)


@scalar
def add_theta(theta: Any, theta_sum: Any) -> None:
    """The running sum of theta, for the ergodic average."""
    for c in range(theta.size):
        theta_sum[c] += theta[c]
