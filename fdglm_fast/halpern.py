"""The fast method: a restarted, reflected Halpern iteration of the map T, with an adapted weight.

    z_{k+1} = (k+1)/(k+2) (2 T(z_k) - z_k) + z_0/(k+2)

T is one iteration of Chambolle and Pock on the saddle point with L^(1/2) in the place of L, with the steps of
`local_steps.py`, and z = (theta, v, lambda). T is firmly nonexpansive in the norm of

    P = [[1/(tau_theta S), 0, -X'], [0, 1/tau_v, -L^(1/2)], [-X, -L^(1/2), 1/sigma]]

where S is the diagonal of the columns' scales, and r = |z - T(z)|_P is the fixed-point residual. With dz = T(z) - z
and L^(1/2) dv = -tau_v L lambda,

    r^2 = <d theta, S^-1 d theta>/tau_theta + tau_v <lambda, L lambda> + sum_j |d lambda_j|^2/sigma_j
          - 2 <X' d lambda, d theta> + 2 tau_v <d lambda, L lambda> .

It is looked at every `CHECK` iterations, which costs an exchange of lambda. z_k becomes the anchor z_0, after one plain
step, when r is at most 0.2 of what it was at the anchor, at most 0.5 of it and rising, or when the period has lasted
for 0.36 of all iterations. u = L^(1/2) v is kept as u_0 - L p, where p is a sum of lambda since the anchor: one vector
is exchanged an iteration, and |v - v_0|^2 = <p, L p> is had at a restart for one exchange more.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.run import Effort
from fdglm_fast.engine import KEPT, Engine
from fdglm_fast.kernels.arrays import Steps
from fdglm_fast.local_steps import LocalSteps
from fdglm_fast.neighbours import Plan, plan_matrix
from fdglm_fast.network import Network
from fdglm_fast.problem import Problem
from fdglm_fast.team import Team

CHECK = 10  # iterations between looks at r
ENOUGH, SOME, LONG = 0.2, 0.5, 0.36  # of r_0; of r_0 when r rises; of all iterations
SHARE = 0.5  # of the way to the weight that balances distances, in the logarithm
CHANGE = 3.0  # the most that a restart changes the weight by, as a factor
Array = npt.NDArray[np.float64]


@dataclass
class Period:
    """Where the method stands since its last restart: what a checkpoint carries besides the arrays."""

    k: int = 0  # iterations since the anchor
    due: bool = False  # the next iteration is a plain step, then comes a restart
    first: float = 0.0  # r at the anchor
    last: float = 0.0  # r at the last look
    w: float = 1.0  # weight between primal and dual
    looks: int = 0
    restarts: int = 0
    begin: float = 0.0  # r at the first look of all

    def as_array(self) -> Array:
        return np.array(astuple(self), np.float64)

    @classmethod
    def from_array(cls, numbers: Array) -> Period:
        return cls(*(type(default)(x) for default, x in zip(astuple(cls()), numbers.tolist(), strict=True)))

    def look(self, k: int, r: float, iterations: int, floor: float = 0.0) -> None:
        """Take note of r before the iteration k after the anchor, and decide whether a restart is due.

        Below `floor` times the first r of all, r is rounding, and says nothing.
        """
        self.looks += 1
        self.begin = self.begin or r
        if k == 0:
            self.first = self.last = r
            return
        enough = r <= ENOUGH * self.first or (r <= SOME * self.first and r > self.last)
        self.due = (enough and r > floor * self.begin) or k >= LONG * iterations
        self.last = r

    def is_trusted(self, floor: float) -> bool:
        """Whether the last r was more than rounding."""
        return self.last > floor * self.begin

    def restart(self) -> None:
        self.k, self.due, self.restarts = 0, False, self.restarts + 1


class Halpern(Engine):
    """What the fast method adds to an engine, wherever its agents are: it goes before the engine of one process or MPI.

    What is reported is T(z), which the proximal maps have made feasible.
    """

    kept = (*KEPT, "theta_anchor", "u_anchor", "lam_anchor")
    anchored = True

    def __init__(
        self,
        problem: Problem,
        network: Network,
        steps: LocalSteps,
        *,
        team: Team | None = None,
        matrix: Array | None = None,
        **how: Any,
    ) -> None:
        """`matrix` is in the place of the Laplacian; `how` is the schedule, the threads and the tally."""
        team = team or Team(problem)
        self.period, self._matrix = Period(w=steps.w), matrix
        self._g_anchor = np.zeros(problem.d)
        # r^2 is a difference of squares, which are known to a few units in the last place.
        self._floor = 4.0 * math.sqrt(float(np.finfo(problem.dtype.name).eps))
        super().__init__(problem, network, steps, team=team, **how)

    def _make_plan(self, network: Network) -> Plan:
        if self._matrix is None:
            return super()._make_plan(network)
        return plan_matrix(self._matrix, self.problem.dtype)

    def _kernel_steps(self, steps: LocalSteps) -> Steps:
        kind = self.problem.dtype
        t = kind.type(steps.tau_v * self._plan.scale)
        none = np.zeros(0, kind), np.zeros(0, np.bool_)
        sigma = steps.sigma[self.team.members].astype(kind)
        return Steps(self.problem.n * steps.tau_theta, t, sigma, *none, steps.scale)

    def advance(self, count: int) -> None:
        """`count` iterations. The looks and restarts depend on the iterates alone, not on how calls are cut."""
        end = self.iteration + count
        while self.iteration < end:
            if self.period.due:
                self._follow(1, plain=True)
                self._restart()
            elif self.period.k % CHECK == 0:
                self._look()
            else:
                self._follow(min(end - self.iteration, CHECK - self.period.k % CHECK))

    def _follow(self, count: int, plain: bool = False, check: bool = False) -> None:
        """`count` iterations on from the anchor, or a plain one, z+ = T(z)."""
        kind = self.problem.dtype
        pull = np.zeros(count, kind) if plain else _pull(self.period.k + np.arange(count)).astype(kind)
        self._iterate(count, self._steps._replace(pull=pull, reflect=np.full(count, not plain), check=check))
        self.period.k += count

    def _look(self) -> None:
        """An iteration that measures r on the way."""
        before, k = self.state.g.copy(), self.period.k
        self._before_look()
        self._follow(1, check=True)
        self.period.look(k, self._residual(before, k), self.iteration, self._floor)

    def _before_look(self) -> None:
        """On ranks, where neighbours' lambda has to come first."""

    def _moves(self) -> Array:
        """The sums of the last look or restart, by own agent: (3, agents)."""
        return np.asarray(self.state.moves.sum(axis=0).T)

    def _residual(self, before: Array, k: int) -> float:
        """r, after an iteration that began with g = `before` = X' lambda."""
        state, steps = self.state, self.step_sizes
        pull = float(_pull(k).astype(self.problem.dtype))
        d_theta = state.w.astype(np.float64) - state.theta_out
        # g is now X' of (1 - pull)(lambda + 2 d lambda) + pull lambda_0.
        d_g = ((state.g - pull * self._g_anchor) / (1.0 - pull) - before) / 2.0
        spread, cross, square = self._moves()
        dots, sigma = self.team.agent_dots, steps.sigma[self.team.members]
        terms = dots(d_theta, d_theta / steps.scale) / steps.tau_theta + square / sigma
        terms += steps.tau_v * self._plan.scale * (spread + 2.0 * cross) - 2.0 * dots(d_g, d_theta)
        return math.sqrt(max(float(self.team.total("fixed-point residual", terms)), 0.0))

    def _restart(self) -> None:
        """The iterate becomes the anchor; the weight changes with the distance from the old one."""
        state = self.state
        d_theta = state.theta - state.theta_anchor
        self._anchor()
        state.theta_anchor[:] = state.theta
        self._g_anchor[:] = state.g
        if not self.step_sizes.held and self.period.is_trusted(self._floor):
            self._adapt(*self._distances(d_theta))
        self.period.restart()

    def _anchor(self) -> None:
        """u_0, p and lambda_0 of the own agents; `state.moves` gets how far they went."""
        from fdglm_fast.kernels.anchor import anchor

        anchor(self.problem.tiles, self._plan.near, self.state)

    def _distances(self, d_theta: Array) -> tuple[float, float]:
        """How far primal and dual have moved since the last restart, squared, in units of the steps for w = 1."""
        unit = self.step_sizes.with_weight(1.0)
        spread, _, square = self._moves()
        primal = self.team.agent_dots(d_theta, d_theta / unit.scale) / unit.tau_theta
        if unit.tau_v > 0.0:
            primal = primal + spread / (unit.tau_v * self._plan.scale)
        dual = square / unit.sigma[self.team.members]
        both = self.team.total("distances of a period", np.stack([primal, dual]))
        return float(both[0]), float(both[1])

    def _adapt(self, primal: float, dual: float) -> None:
        self.period.w = next_weight(self.period.w, primal, dual)
        self._set_weight()

    def _set_weight(self) -> None:
        self.step_sizes = self.step_sizes.with_weight(self.period.w)
        self._steps = self._kernel_steps(self.step_sizes)

    @property
    def last(self) -> Array:
        return np.array(self.state.theta_out)

    @property
    def average(self) -> Array:
        return self.last

    def duals(self) -> list[Array]:
        return [self.state.lam_out.copy()] * 2

    @property
    def effort(self) -> Effort:
        return Effort(self.iteration, self.period.looks, self.period.restarts)

    def snapshot(self) -> dict[str, npt.NDArray[np.generic]]:
        return {**super().snapshot(), "g_anchor": self._g_anchor, "period": self.period.as_array()}

    def restore(self, iteration: int, arrays: dict[str, npt.NDArray[np.generic]]) -> None:
        super().restore(iteration, arrays)
        self._g_anchor[:] = arrays["g_anchor"]
        self.period = Period.from_array(np.asarray(arrays["period"], dtype=np.float64))
        self._set_weight()


class FastEngine(Halpern):
    """All agents' state in the fast method, in one process."""


def _pull(k: Any) -> Any:
    """1/(k+2): how far the k-th iteration after a restart goes back to the anchor."""
    return 1.0 / (np.asarray(k) + 2.0)


def next_weight(w: float, primal: float, dual: float) -> float:
    """Half of the way, in the logarithm, to the weight that makes both squared distances the same, sqrt(dual/primal).

    Displacements are a guess: in a period that was too short to get anywhere they only say which side moved faster,
    and a weight that follows them blindly runs away. A step is a factor of CHANGE at most. They also tend to confirm
    a weight that is wrong, so that the first one matters (see `local_steps`).
    """
    if not (primal > 0.0 and dual > 0.0 and math.isfinite(primal) and math.isfinite(dual)):
        return w
    aim = 0.5 * (math.log(dual) - math.log(primal))
    step = math.exp(SHARE * (aim - math.log(w)))
    return w * min(max(step, 1.0 / CHANGE), CHANGE)
