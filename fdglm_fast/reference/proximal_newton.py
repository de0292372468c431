"""Smooth losses with any penalty: proximal Newton steps with a line search on the true objective."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import NumericalError
from fdglm_fast.losses import HUBER, SQUARED
from fdglm_fast.penalties import GROUP_L2, L2, NONE
from fdglm_fast.reference import face
from fdglm_fast.reference.answer import Candidate
from fdglm_fast.reference.attained import check_attained
from fdglm_fast.reference.certificate import duality_gap, residual, scaled_residual
from fdglm_fast.reference.direct import factor_normal, refined
from fdglm_fast.reference.objective import Objective
from fdglm_fast.reference.quadratic import Model

Array = NDArray[np.float64]
Columns = NDArray[np.int64]

ITERATIONS = 200
TARGET = 1e-14  # of the residual; what can be reached depends on rounding, so the end is also a stall
# A residual and a relative gap below which a few steps without progress mean that rounding has been reached.
CLOSE, CLOSE_GAP = 1e-9, 1e-12
STALL, LONG_STALL = 3, 30
NEW_COLUMNS = 64
PATH_FACTOR = 0.2


@dataclass
class State:
    """Where the iteration stands: theta, z = X theta, its objective, gradient of the loss, the worse residual."""

    theta: Array
    z: Array
    value: float
    gradient: Array
    residual: float


def solve_smooth(objective: Objective) -> Candidate:
    """A minimiser; without a penalty, and for l2 with d > n, sought in the row space of X (least norm)."""
    design, code = objective.design, objective.penalty.code
    wide = design.d > design.n
    if (code == L2 and wide) or (code == NONE and (wide or factor_normal(objective) is None)):
        basis = design.row_basis()
        if basis.shape[1] == 0:
            return Candidate(np.zeros(design.d), "row space", gain=0.0)
        state, model = _iterate(objective.with_design(design.projected(basis)), np.zeros(basis.shape[1]))
        return _refined(objective, basis @ state.theta, "proximal newton, row space", model, basis)
    state, model = _iterate(objective, np.zeros(design.d))
    if code in (NONE, L2):
        return _refined(objective, state.theta, "proximal newton", model)
    if _certified(objective, state) or objective.penalty.reg == 0.0:
        return Candidate(state.theta, "proximal newton")
    return _follow_path(objective, state)


def _refined(
    objective: Objective, theta: Array, method: str, model: Model | None, basis: Array | None = None
) -> Candidate:
    found = Candidate(theta, method)
    return found if model is None else refined(objective, found, model.factor(), basis)


def _follow_path(objective: Objective, direct: State) -> Candidate:
    """The same through larger weights of the penalty, each a start for the next: for weights that are nearly 0."""
    penalty = objective.penalty
    weight = float(np.abs(objective.gradient(objective.slopes(np.zeros(objective.design.n)))).max())
    theta = np.zeros(objective.design.d)
    while weight > penalty.reg:
        theta = _iterate(replace(objective, penalty=replace(penalty, reg=weight)), theta)[0].theta
        weight *= PATH_FACTOR
    state, _ = _iterate(objective, theta)
    if state.residual < direct.residual:
        return Candidate(state.theta, "proximal newton, path")
    return Candidate(direct.theta, "proximal newton")


def _state(objective: Objective, theta: Array) -> State:
    """All of it at theta; NumericalError where the loss overflows there."""
    theta = objective.project(theta)
    z = objective.design.times(theta)
    value = objective.value(theta, z)
    if not math.isfinite(value):
        raise NumericalError(f"the {objective.loss.name} loss overflows; scale X down.")
    gradient = objective.gradient(objective.slopes(z))
    if not np.isfinite(gradient).all():
        raise NumericalError(f"the gradient of the {objective.loss.name} loss overflows; scale X down.")
    worst = max(residual(objective, theta, gradient), scaled_residual(objective, theta, gradient))
    return State(theta, z, value, gradient, worst)


def _iterate(objective: Objective, theta: Array) -> tuple[State, Model | None]:
    """Steps from theta until the residual is down to rounding; the best point seen, and the last model.

    `mix` blends the exact curvature with that of a majorising parabola (which always decreases the objective):
    Huber starts with the parabola, as far from the data its curvature is 0; others turn to it when a step fails.
    """
    state = best = _state(objective, theta)
    mix, stalled = (1.0 if objective.loss.code == HUBER else 0.0), 0
    models = _Models(objective)
    for iteration in range(ITERATIONS):
        if best.residual <= TARGET or stalled > LONG_STALL or (stalled > STALL and _certified(objective, best)):
            break
        columns = _working_set(objective, state)
        step = models.step(state, columns, mix)
        z_step = objective.design.times(step)
        check_attained(objective, iteration, step, z_step)
        part = _line_search(objective, state, step, z_step)
        if part == 0.0 and mix == 1.0:
            break
        if part == 1.0:
            mix *= 0.1 if mix > 1e-12 else 0.0
        elif part < 0.1:
            mix = min(1.0, max(10.0 * mix, 1e-4))
        if part > 0.0:
            state = _state(objective, state.theta + part * step)
        stalled = 0 if state.residual < 0.5 * best.residual else stalled + 1
        if state.residual < best.residual:
            best = state
    return best, models.last


def _certified(objective: Objective, state: State) -> bool:
    """Whether the residual and the duality gap are those of a point where only rounding is left."""
    if state.residual > CLOSE:
        return False
    gap = duality_gap(objective, state.theta, state.z, objective.slopes(state.z))
    return gap <= CLOSE_GAP * objective.size(state.value)


class _Models:
    """Quadratic models of the loss; the last Gram matrix is kept while neither weights nor columns change."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._last: tuple[Array, Columns, Model] | None = None

    def step(self, state: State, columns: Columns, mix: float) -> Array:
        """The move of theta to the minimiser of the model over the given columns, 0 elsewhere."""
        model = self._model(state, columns, mix)
        step = np.zeros_like(state.theta)
        theta = state.theta[columns]
        step[columns] = model.minimise(theta, state.gradient[columns]) - theta
        return step

    @property
    def last(self) -> Model | None:
        return None if self._last is None else self._last[2]

    def _model(self, state: State, columns: Columns, mix: float) -> Model:
        weights = self.objective.curvatures(state.z, mix)
        if self._last is not None:
            same = np.array_equal(weights, self._last[0]) and np.array_equal(columns, self._last[1])
            if same:
                return self._last[2]
        penalty, groups = self.objective.penalty, self.objective.groups
        model = Model(self._hessian(weights, columns), penalty, groups[columns] if penalty.code == GROUP_L2 else groups)
        self._last = (weights, columns, model)
        return model

    def _hessian(self, weights: Array, columns: Columns) -> Array:
        """X' diag(weights) X/n, of the given columns."""
        design, squared = self.objective.design, self.objective.loss.code == SQUARED
        if len(columns) < design.d:
            return design.gram(None if squared else weights, columns) / design.n
        return (design.plain_gram if squared else design.gram(weights)) / design.n


def _working_set(objective: Objective, state: State) -> Columns:
    """All columns when X is tall; else those on the face and as many of the others that most want to move."""
    design, penalty, groups = objective.design, objective.penalty, objective.groups
    everything = np.arange(design.d)
    if design.d <= design.n or penalty.code in (NONE, L2):
        return everything
    on = face.free(penalty, groups, state.theta)
    eta = design.n / max(objective.design.norm, np.finfo(np.float64).tiny) ** 2
    score = np.abs(state.theta - objective.prox(state.theta - eta * state.gradient, eta))
    score[on] = math.inf
    wanted = int(on.sum()) + max(NEW_COLUMNS, int(on.sum()))
    chosen = np.argsort(-score, kind="stable")[:wanted]
    chosen = chosen[score[chosen] > 0.0]
    mask = np.zeros(design.d, dtype=np.bool_)
    mask[chosen] = True
    if penalty.code == GROUP_L2:
        mask = np.isin(groups, groups[mask])
    return everything[mask]


def _line_search(objective: Objective, state: State, step: Array, z_step: Array) -> float:
    """The first part 1, 1/2, 1/4, ... of the step that decreases L enough; 0 where none does."""
    trial = state.theta + step
    expected = float(state.gradient @ step)
    expected += objective.penalty_value(trial) - objective.penalty_value(state.theta)
    rounding = 1e-14 * (abs(state.value) + abs(objective.mean_loss(state.z)))
    part = 1.0
    for _ in range(50):
        trial = state.theta + part * step
        value = objective.value(trial, state.z + part * z_step)
        if value <= state.value + 1e-4 * part * min(expected, 0.0) + rounding:
            return part
        part *= 0.5
    return 0.0
