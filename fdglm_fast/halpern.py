"""The fast method: the map T, followed beyond its images or back towards an anchor, with restarts and a weight.

T is one iteration of Chambolle and Pock on the saddle point with the steps of `local_steps.py`, z = (theta, v,
lambda). It is firmly nonexpansive in a norm of its own, and there are two ways to follow it:

    relaxed     z_{k+1} = z_k + 1.9 (T(z_k) - z_k)
    anchored    z_{k+1} = (k+1)/(k+2) (2 T(z_k) - z_k) + z_0/(k+2)          (Halpern's iteration, reflected)

both of them z_k + gain (T(z_k) - z_k) + pull (z_0 - z_k).

The first is faster where the loss damps what moves, the second where modes go round without damping, as those do in
which agents disagree on a poorly connected network. Which of them it is shows: every `CHECK` iterations, for an
exchange of lambda, the size of the move dz = T(z) - z is looked at,

    r^2 = <d theta, S^-1 d theta>/tau_theta + sum_j [|d lambda_j|^2/sigma_j + tau_v |(L lambda)_j|^2/b_j] .

z_k becomes the anchor z_0, after one plain step, when r is at most 0.2 of what it was at the anchor, at most 0.5 of it
and rising, or when the period has lasted for 0.36 of all iterations. After a period of at least `TRIAL` iterations the
way for the next one is the one with the larger log(r_0/r)/k when it was last taken; one that was never taken is tried,
as is the other one after `PATIENCE` periods in a row in which r did not fall to 0.2 of r_0.

Both ways may amplify rounding, the more so the nearer T comes to a projection (on the complete graph it is one on
what agents disagree about). Where r is four times r_0 after twenty iterations, the period ends, and T is followed by
itself, which damps, until the next 0.36 of all iterations are over. (Of the benchmark's cases it
changed the iterations of one, with the weight held at one.)

u = -L p is kept in the place of v, where p is a sum of lambda - c: one vector is exchanged an iteration. At a restart
<dp, L dp> is had for one exchange more, where dp is how far p has gone. c, the same for all, is agent 1's lambda at the
anchor, which neighbours pass on to each other: it keeps p from growing by what the agents agree on.

All of this happens inside a call of the kernels: the decisions, and the constants named above, are in
`kernels/period.py`, what they are made from in `kernels/course.py`.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.run import Effort
from fdglm_fast.engine import KEPT, Engine
from fdglm_fast.gossip import Gossip
from fdglm_fast.kernels.arrays import Steps
from fdglm_fast.kernels.course import Course
from fdglm_fast.kernels.period import W
from fdglm_fast.local_steps import LocalSteps
from fdglm_fast.neighbours import Plan, plan_matrix
from fdglm_fast.network import Network
from fdglm_fast.problem import Problem
from fdglm_fast.team import Team

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
    anchored: bool = False  # the way of this period
    relaxed_rate: float = math.inf  # log(r_0/r)/k of each way when it was last taken
    anchored_rate: float = math.inf
    begin: float = 0.0  # r at the first look of all
    slow: int = 0  # periods in a row, on this way, in which r did not fall to `ENOUGH`
    iterations: int = 0  # of all periods
    plain: bool = False  # T by itself, after a period in which r rose far

    def as_array(self) -> Array:
        return np.array(astuple(self), np.float64)

    @classmethod
    def from_array(cls, numbers: Array) -> Period:
        return cls(*(type(default)(x) for default, x in zip(astuple(cls()), numbers.tolist(), strict=True)))


class Halpern(Engine):
    """What the fast method adds to an engine, wherever its agents are: it goes before the engine of one process or MPI.

    What is reported is T(z), which the proximal maps have made feasible.
    """

    kept = (*KEPT, "theta_anchor", "p_anchor", "lam_anchor", "common")
    anchored = True
    stretch_bytes = 24 << 20

    def __init__(
        self,
        problem: Problem,
        network: Network,
        steps: LocalSteps,
        *,
        team: Team | None = None,
        gossip: Gossip | None = None,
        **how: Any,
    ) -> None:
        """`gossip` is in the place of the Laplacian; `how` is the schedule, the threads and the tally."""
        team = team or Team(problem)
        self._network, self._gossip = network, gossip
        self._to_first = gossip.matrix[:, 0] if gossip else network.laplacian()[:, [0]].toarray()[:, 0]
        super().__init__(problem, network, steps, team=team, **how)

    def _whole_plan(self, network: Network) -> Plan:
        if self._gossip is None:
            return super()._whole_plan(network)
        return plan_matrix(self._gossip.matrix, self.problem.dtype)

    def _kernel_steps(self, steps: LocalSteps) -> Steps:
        """Those for the weight one; what is zero here is set in each iteration."""
        kind, number, unit = self.problem.dtype, self.problem.dtype.type, steps.with_weight(1.0)
        members, mix, joined, shift = self.team.members, np.zeros(0), np.zeros(0), 0.0
        if self._network.agents > 1:
            t = unit.tau_v * self._plan.scale
            mix, joined = t * unit.sigma[members], -self._to_first[members] / self._plan.scale
            shift = t * unit.sigma[0] / self._first_step(unit)
        return Steps(
            tau=self.problem.n * unit.tau_theta,
            t=number(0),
            agents=np.arange(len(members)),
            s=np.zeros(len(members), kind),
            first=number(0),
            fast=True,
            gain=number(0),
            pull=number(0),
            scale=unit.scale,
            mix=mix.astype(kind),
            hears=(joined != 0) & (members[: joined.size] > 0),
            joined=joined.astype(kind),
            shift=number(shift),
            stretch=self._stretch(),
        )

    def _longest_stretch(self) -> int:
        """All agents' X w comes before any of their v."""
        return self.problem.agents if self._network.agents > 1 else 0

    def _make_course(self, steps: LocalSteps) -> Course:
        kind, members, unit = self.problem.dtype, self.team.members, steps.with_weight(1.0)
        eps = float(np.finfo(kind.name).eps)
        return Course(
            period=Period(w=steps.w).as_array(),
            numbers=np.zeros(5, kind),
            sums=np.zeros((4, self._network.agents)),
            members=members,
            sigma=unit.sigma[members],
            bounds=unit.bounds[members],
            tau=unit.tau_theta,
            tau_v=unit.tau_v,
            first=self._first_step(unit),
            unit=float(self._plan.scale),
            floor=eps**0.75,
            noise=1e3 * eps,
            held=steps.held,
            agree=self._network.agents == 1 or self._network.is_uniform,
        )

    def _first_step(self, unit: LocalSteps) -> float:
        """Agent 1's own entry of Sigma = sigma - tau_v sigma L sigma."""
        if self._network.agents == 1:
            return float(unit.sigma[0])
        return float(unit.sigma[0] * (1.0 - unit.tau_v * unit.sigma[0] * self._to_first[0]))

    def advance(self, count: int) -> None:
        """`count` iterations. The looks and restarts depend on the iterates alone, not on how calls are cut."""
        super().advance(count)
        self._note_weight()

    def _note_weight(self) -> None:
        w = float(self._course.period[W])
        if w != self.step_sizes.w:
            self.step_sizes = self.step_sizes.with_weight(w)

    @property
    def period(self) -> Period:
        """Where the method stands, a copy."""
        return Period.from_array(self._course.period)

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
        return {**super().snapshot(), "period": self._course.period}

    def restore(self, iteration: int, arrays: dict[str, npt.NDArray[np.generic]]) -> None:
        super().restore(iteration, arrays)
        self._course.period[:] = arrays["period"]
        self._note_weight()


class FastEngine(Halpern):
    """All agents' state in the fast method, in one process."""
