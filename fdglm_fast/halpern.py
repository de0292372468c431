"""The fast method: the map T, followed beyond its images or back towards an anchor, with restarts and a weight.

T is one iteration of Chambolle and Pock on the saddle point with the steps of `local_steps.py`, z = (theta, v,
lambda). It is firmly nonexpansive in a norm of its own, and there are two ways to follow it:

    relaxed     z_{k+1} = z_k + 1.9 (T(z_k) - z_k)
    anchored    z_{k+1} = (k+1)/(k+2) (2 T(z_k) - z_k) + z_0/(k+2)          (Halpern's iteration, reflected)

The first is faster where the loss damps what moves, the second where modes go round without damping, as those do in
which agents disagree on a poorly connected network. Which of them it is shows: every `CHECK` iterations, for an
exchange of lambda, the size of the move dz = T(z) - z is looked at,

    r^2 = <d theta, S^-1 d theta>/tau_theta + sum_j [|d lambda_j|^2/sigma_j + tau_v |(L lambda)_j|^2/b_j] .

z_k becomes the anchor z_0, after one plain step, when r is at most 0.2 of what it was at the anchor, at most 0.5 of it
and rising, or when the period has lasted for 0.36 of all iterations. After a period of at least `TRIAL` iterations the
way for the next one is the one with the larger log(r_0/r)/k when it was last taken; one that was never taken is tried,
as is the other one after `PATIENCE` periods in a row in which r did not fall to 0.2 of r_0.

u = u_0 - L p is kept in the place of v, where p is a sum of lambda since the anchor: one vector is exchanged an
iteration, and <p, L p>, for the distance that v has gone, is had at a restart for one exchange more.
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
from fdglm_fast.local_steps import LocalSteps
from fdglm_fast.neighbours import Plan, plan_matrix
from fdglm_fast.network import Network
from fdglm_fast.problem import Problem
from fdglm_fast.team import Team

CHECK = 10  # iterations between looks at r
ENOUGH, SOME, LONG = 0.2, 0.5, 0.36  # of r_0; of r_0 when r rises; of all iterations
TRIAL = 20  # iterations of a period from which on it says how good its way is
PATIENCE = 2  # periods in a row without enough progress, after which the other way is tried again
RELAX = 0.9  # how far beyond T(z) a relaxed step goes
SHARE = 0.25  # of the way to the weight that balances distances, in the logarithm
CHANGE = 1.2  # the most that a restart changes the weight by, as a factor; distances are too noisy for more,
FAR, LEAP = 10.0, 3.0  # unless the weight is off by more than FAR: then it may change by LEAP
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

    def restart(self, trusted: bool = True) -> None:
        """Begin a new period, on the way that has been the better one."""
        if self.k > TRIAL and trusted:
            rate = math.log(self.first / self.last) / self.k
            if self.anchored:
                self.anchored_rate = rate
            else:
                self.relaxed_rate = rate
            self.slow = self.slow + 1 if self.last > ENOUGH * self.first else 0
            other = self.relaxed_rate if self.anchored else self.anchored_rate
            if other > rate or self.slow >= PATIENCE:
                self.anchored, self.slow = not self.anchored, 0
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
        gossip: Gossip | None = None,
        **how: Any,
    ) -> None:
        """`gossip` is in the place of the Laplacian; `how` is the schedule, the threads and the tally."""
        team = team or Team(problem)
        self.period, self._gossip = Period(w=steps.w), gossip
        eps = float(np.finfo(problem.dtype.name).eps)
        self._floor, self._noise = eps**0.75, 1e3 * eps
        self._agree = network.agents == 1 or network.is_uniform
        self._to_first = gossip.matrix[:, 0] if gossip else network.laplacian()[:, [0]].toarray()[:, 0]
        self._network = network
        super().__init__(problem, network, steps, team=team, **how)

    def _whole_plan(self, network: Network) -> Plan:
        if self._gossip is None:
            return super()._whole_plan(network)
        return plan_matrix(self._gossip.matrix, self.problem.dtype)

    def _kernel_steps(self, steps: LocalSteps) -> Steps:
        kind, number = self.problem.dtype, self.problem.dtype.type
        t, sigma = steps.tau_v * self._plan.scale, steps.sigma
        members, none = self.team.members, np.zeros(0, kind)
        own = sigma[members].astype(kind)
        if self._network.agents == 1:
            mix = joined = none
            first, shift = sigma[0], 0.0
        else:
            mix, joined = (t * sigma[members]).astype(kind), (-self._to_first[members] / self._plan.scale).astype(kind)
            # Agent 1's own entry of Sigma = sigma - tau_v sigma L sigma.
            first = sigma[0] * (1.0 - steps.tau_v * sigma[0] * self._to_first[0])
            shift = t * sigma[0] / first
        return Steps(
            self.problem.n * steps.tau_theta,
            number(t),
            own,
            number(first),
            none,
            none,
            steps.scale,
            mix,
            (joined != 0) & (members[: joined.size] > 0),
            joined,
            number(shift),
        )

    def advance(self, count: int) -> None:
        """`count` iterations. The looks and restarts depend on the iterates alone, not on how calls are cut."""
        end = self.iteration + count
        while self.iteration < end:
            if self.period.due:
                self._follow(1, plain=True)
                self._restart()
                continue
            until_look = -self.period.k % CHECK + 1
            if until_look <= end - self.iteration:
                self._look(until_look)
            else:
                self._follow(end - self.iteration)

    def _follow(self, count: int, plain: bool = False, check: int = -1) -> None:
        """`count` iterations on the way of this period, or a plain one, z+ = T(z); the sums of r in number `check`."""
        kind = self.problem.dtype
        pull, relax = np.zeros(count, kind), np.full(count, RELAX, kind)
        if plain:
            relax[:] = 0.0
        elif self.period.anchored:
            pull = (1.0 / (self.period.k + np.arange(count) + 2.0)).astype(kind)
        self._iterate(count, self._steps._replace(pull=pull, relax=relax, check=check))
        self.period.k += count

    def _look(self, count: int) -> None:
        """`count` iterations, the last of which measures r on the way."""
        self._follow(count, check=count - 1)
        # w = 2 theta+ - theta was formed before theta went on to its next value.
        r = self._size(self.state.w.astype(np.float64) - self.state.theta_out)
        self.period.look(self.period.k - 1, r, self.iteration, self._floor)

    def _moves(self) -> Array:
        """The sums of the last look or restart, by own agent: (3, agents)."""
        return np.asarray(self.state.moves.sum(axis=0).T)

    def _size(self, d_theta: Array) -> float:
        """r, after an iteration that formed the sums of the others."""
        steps, (spread, square, _) = self.step_sizes, self._moves()
        terms = self.team.agent_dots(d_theta, d_theta / steps.scale) / steps.tau_theta
        terms += square / steps.sigma[self.team.members]
        if steps.tau_v > 0.0:
            terms += steps.tau_v * self._plan.scale**2 * spread / steps.bounds[self.team.members]
        return math.sqrt(float(self.team.total("size of a move", terms)))

    def _restart(self) -> None:
        """The iterate becomes the anchor; the weight changes with the distance from the old one."""
        state = self.state
        d_theta = state.theta - state.theta_anchor
        self._anchor()
        state.theta_anchor[:] = state.theta
        trusted = self.period.is_trusted(self._floor)
        if trusted and not self.step_sizes.held:
            self._adapt(*self._distances(d_theta))
        self.period.restart(trusted)

    def _anchor(self) -> None:
        """u_0, p and lambda_0 of the own agents; `state.moves` gets how far they went."""
        from fdglm_fast.kernels.anchor import anchor

        anchor(self.problem.tiles, self._plan.near, self.state)

    def _distances(self, d_theta: Array) -> tuple[float, float]:
        """How far primal and dual have moved since the last restart, squared, in units of the steps for w = 1.

        Zeros where it cannot be told: the agents' p are large and nearly the same, and rounding leaves nothing of
        <p, L p>. On the complete graph that is always so, and does not matter: there is no disagreement to mend.
        """
        unit, members = self.step_sizes.with_weight(1.0), self.team.members
        spread, square, size = self._moves()
        theta = self.team.agent_dots(d_theta, d_theta / unit.scale) / unit.tau_theta
        noise = self._noise * self._plan.near.degree[: len(members)].astype(np.float64) * size
        sums = np.stack([theta, square / unit.sigma[members], spread, noise])
        primal, dual, v, least = self.team.total("distances of a period", sums).tolist()
        if v > least:
            return primal + v / (unit.tau_v * self._plan.scale), dual
        return (primal, dual) if self._agree else (0.0, 0.0)

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
        return {**super().snapshot(), "period": self.period.as_array()}

    def restore(self, iteration: int, arrays: dict[str, npt.NDArray[np.generic]]) -> None:
        super().restore(iteration, arrays)
        self.period = Period.from_array(np.asarray(arrays["period"], dtype=np.float64))
        self._set_weight()


class FastEngine(Halpern):
    """All agents' state in the fast method, in one process."""


def next_weight(w: float, primal: float, dual: float) -> float:
    """`SHARE` of the way, in the logarithm, to the weight that makes both squared distances equal, sqrt(dual/primal).

    Displacements are a guess: in a period that was too short to get anywhere they only say which side moved faster,
    and a weight that follows them blindly runs away. They also tend to confirm a weight that is wrong, so that the
    first one matters (see `local_steps`).
    """
    if not (primal > 0.0 and dual > 0.0 and math.isfinite(primal) and math.isfinite(dual)):
        return w
    away = 0.5 * (math.log(dual) - math.log(primal)) - math.log(w)
    most = LEAP if abs(away) > math.log(FAR) else CHANGE
    return w * min(max(math.exp(SHARE * away), 1.0 / most), most)
