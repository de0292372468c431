"""What is measured at a point: objective, optimality residual and, where there is one, a duality gap.

Optimality residual of (theta, lambda), with eta = n/chi^2 and lambda_0 = loss'(0):

    max( ||theta - prox_{eta r}(theta - eta X'lambda/n)|| / (eta chi ||lambda_0||/n),
         ||lambda - prox_{loss*}(lambda + X theta)|| / ||lambda_0|| )

Both are relative to what a residual can be at theta = 0, where ||X'lambda_0|| <= chi ||lambda_0||: the scale is one
number that agent 1 tells, and lambda_0, which is -y for the squared loss, stays with it. For a smooth loss lambda =
loss'(X theta), the second term is zero and the first is the scaled prox-gradient residual. For the others (absolute,
quantile, hinge) lambda is agent 1's dual vector: its average beside the average of theta, its last value beside the
last theta. On several ranks a residual at X theta = 0 is not known (NaN): lambda_0 would have to be sent.

Duality gap: P(theta) - D(alpha lambda) with D(lambda) = -(1/n) sum loss*(lambda_i) - r*(-X'lambda/n) and alpha in [0,
1] the largest that keeps r* finite. It is None where no alpha does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fdglm_fast.problem import Problem
from fdglm_fast.team import Team

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """The measurements at one theta."""

    objective: float
    residual: float
    gap: float | None


class Evaluator:
    """Measures points of one problem; theta in agent order throughout, of the agents that are here.

    Every process of a team measures the same points, and gets the same numbers.
    """

    def __init__(self, problem: Problem, chi: float = 1.0, team: Team | None = None) -> None:
        self.problem, self.team = problem, team or Team(problem)
        self.passes = self.team.passes
        self.model = self.passes.model
        self.chi, self.eta = chi, problem.n / (chi * chi) if chi > 0.0 else 1.0

    def predictions(self, theta: Array) -> Array:
        """X theta."""
        z = self.passes.evaluate(theta[np.newaxis], None)[0]
        return np.asarray(z.reshape(-1)[: self.problem.tiles.rows])

    @cached_property
    def _start(self) -> tuple[float, float]:
        """The sum of the losses at theta = 0 and ||lambda_0||: two numbers that agent 1 tells."""
        loss, norm = self.team.from_first("losses and ||loss'(0)|| at zero", self.passes.at_zero).tolist()
        return loss, norm

    def scales(self) -> tuple[float, float]:
        """chi ||lambda_0||/n and ||lambda_0||; one where they are zero."""
        norm = self._start[1]
        return self.chi * norm / self.problem.n or 1.0, norm or 1.0

    def objective_at_zero(self) -> float:
        """L_0, the objective at theta = 0."""
        penalty = self.team.total("penalty at zero", self.penalty_values(np.zeros(self.problem.d)))
        return self._start[0] / self.problem.n + float(penalty)

    def measure(self, thetas: list[Array], duals: list[Array] | None) -> list[Point]:
        """The points at each theta; `duals` (agent 1's lambda, in tiles) are used for losses that are not smooth."""
        theta = np.stack(thetas)
        given = None if self.problem.loss.smooth or duals is None else np.stack(duals)
        _, lam, sums, gradient = self.passes.evaluate(theta, given)
        return [self._point(theta[i], lam[i], sums[i], gradient[i] / self.problem.n) for i in range(len(theta))]

    def _point(self, theta: Array, lam: Array, sums: Array, c: Array) -> Point:
        away = theta - self._prox(theta - self.eta * c, self.eta)
        away[np.isnan(c)] = np.nan  # what is not known is no zero, which a proximal map may make of it
        parts = np.stack([self.penalty_values(theta), self.team.agent_dots(away, away)])
        penalty, square = self.team.total("penalty and residual", parts)
        objective = float(sums[0]) / self.problem.n + float(penalty)
        scale, lam_scale = self.scales()
        residual = math.sqrt(square) / (self.eta * scale)
        residual = max(residual, math.sqrt(float(sums[1])) / lam_scale)
        return Point(objective, residual, self._gap(objective, lam, c))

    def penalty_values(self, theta: Array) -> Array:
        """r_j(theta_j) of the agents that are here."""
        from fdglm_fast.kernels.evaluate import penalty_values

        out = np.empty(self.problem.agents)
        penalty_values(theta, self.problem.partition.offsets, self.model, out)
        return out

    def _prox(self, x: Array, tau: float) -> Array:
        from fdglm_fast.kernels.penalties import prox_all

        m, out = self.model, np.empty_like(x)
        prox_all(m.penalty, m.reg, m.a, m.b, m.groups, tau, np.zeros(0), x, out, m.norms)
        return out

    def _by_agent(self, c: Array) -> list[tuple[Array, npt.NDArray[np.int64]]]:
        """c_j and the groups of its columns, for the agents that are here."""
        at, groups = self.problem.partition.offsets[1:-1], self.model.groups
        empty = np.zeros(0, np.int64)
        numbers = np.split(groups, at) if groups.size else [empty] * self.problem.agents
        numbers = [np.unique(one, return_inverse=True)[1].reshape(-1) if one.size else one for one in numbers]
        return list(zip(np.split(c, at), numbers, strict=True))

    def _gap(self, objective: float, lam: Array, c: Array) -> float | None:
        from fdglm_fast.kernels.evaluate import conjugate_sum

        r, team, tiles = self.problem.penalty, self.team, self.problem.tiles
        blocks = self._by_agent(-c)
        scales = [r.dual_scale(*each) if np.isfinite(each[0]).all() else None for each in blocks]
        alpha = float(team.smallest("dual scale", np.array([-1.0 if each is None else each for each in scales])))
        if alpha < 0.0:
            return None
        conjugates = team.from_first(
            "conjugate of the loss", lambda: float(conjugate_sum(lam, alpha, tiles.y, tiles.rows, self.model))
        )
        of_penalty = team.total("conjugate of the penalty", np.array([r.conjugate(alpha * b, g) for b, g in blocks]))
        gap = objective + conjugates / self.problem.n + float(of_penalty)
        return gap if math.isfinite(gap) else None
