"""What is measured at a point: objective, optimality residual and, where there is one, a duality gap.

Optimality residual of (theta, lambda), with eta = n/chi^2 and lambda_0 = loss'(0):

    max( ||theta - prox_{eta r}(theta - eta X'lambda/n)|| / (eta ||X'lambda_0||/n),
         ||lambda - prox_{loss*}(lambda + X theta)|| / ||lambda_0|| )

For a smooth loss lambda = loss'(X theta), the second term is zero and the first is the scaled prox-gradient residual.
For the others (absolute, quantile, hinge) lambda is agent 1's dual vector: its average beside the average of theta,
its last value beside the last theta.

Duality gap: P(theta) - D(alpha lambda) with D(lambda) = -(1/n) sum loss*(lambda_i) - r*(-X'lambda/n) and alpha in [0,
1] the largest that keeps r* finite. It is None where no alpha does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdglm_fast.kernels.arrays import aligned_zeros, group_count, most_threads
from fdglm_fast.problem import Problem

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """The measurements at one theta."""

    objective: float
    residual: float
    gap: float | None


class Evaluator:
    """Measures points of one problem; theta in agent order throughout."""

    def __init__(self, problem: Problem, chi: float = 1.0) -> None:
        self.problem, self.model = problem, problem.model()
        X, threads = problem.tiles.X, most_threads()
        self._shape = (X.shape[0], X.shape[2])
        self._groups = group_count(X.shape[0])
        self._line = aligned_zeros((threads, 1, X.shape[2]), np.float64)
        self._rows = aligned_zeros((threads, 1, X.shape[2]), X.dtype)
        self.eta = problem.n / (chi * chi) if chi > 0.0 else 1.0
        self._scales: tuple[float, float] | None = None

    def _pass(self, theta: Array, given: npt.NDArray[np.float64] | None) -> tuple[Array, Array, Array, Array]:
        """z, lambda, sums and X'lambda for the rows of theta, in one pass over X."""
        from fdglm_fast.kernels.evaluate import evaluate

        K, d = theta.shape
        z = np.zeros((K, *self._shape))
        lam = np.zeros_like(z) if given is None else np.ascontiguousarray(given)
        sums = np.zeros((K, self._groups, 2))
        partial = np.zeros((K, self._groups, d))
        evaluate(
            np.ascontiguousarray(theta),
            given is not None,
            z,
            lam,
            sums,
            partial,
            self.problem.tiles,
            self.problem.partition.offsets,
            self.model,
            self._line,
            self._rows,
        )
        return z, lam, sums.sum(axis=1), partial.sum(axis=1)

    def transposed(self, rows: Array) -> Array:
        """X' rows, for a vector in tiles."""
        return self._pass(np.zeros((1, self.problem.d)), rows[np.newaxis])[3][0]

    def predictions(self, theta: Array) -> Array:
        """X theta."""
        z = self._pass(theta[np.newaxis], None)[0]
        return np.asarray(z.reshape(-1)[: self.problem.tiles.rows])

    def scales(self) -> tuple[float, float]:
        """||X'lambda_0||/n and ||lambda_0|| for lambda_0 = loss'(0); one where they are zero."""
        if self._scales is None:
            _, lam, _, c = self._pass(np.zeros((1, self.problem.d)), None)
            norms = float(np.linalg.norm(c)) / self.problem.n, float(np.linalg.norm(lam))
            self._scales = norms[0] or 1.0, norms[1] or 1.0
        return self._scales

    def objective_at_zero(self) -> float:
        """L_0, the objective at theta = 0."""
        return self.measure([np.zeros(self.problem.d)], None)[0].objective

    def measure(self, thetas: list[Array], duals: list[Array] | None) -> list[Point]:
        """The points at each theta; `duals` (agent 1's lambda, in tiles) are used for losses that are not smooth."""
        theta = np.stack(thetas)
        given = None if self.problem.loss.smooth or duals is None else np.stack(duals)
        _, lam, sums, gradient = self._pass(theta, given)
        return [self._point(theta[i], lam[i], sums[i], gradient[i] / self.problem.n) for i in range(len(theta))]

    def _point(self, theta: Array, lam: Array, sums: Array, c: Array) -> Point:
        n = self.problem.n
        objective = float(sums[0]) / n + self.penalty_value(theta)
        scale, lam_scale = self.scales() if math.isfinite(objective) else (1.0, 1.0)
        away = theta - self._prox(theta - self.eta * c, self.eta)
        residual = float(np.linalg.norm(away)) / (self.eta * scale)
        residual = max(residual, math.sqrt(float(sums[1])) / lam_scale)
        return Point(objective, residual, self._gap(objective, lam, c))

    def penalty_value(self, theta: Array) -> float:
        from fdglm_fast.kernels.penalties import value_all

        m = self.model
        return float(value_all(m.penalty, m.reg, m.a, m.b, m.groups, theta, m.norms))

    def _prox(self, x: Array, tau: float) -> Array:
        from fdglm_fast.kernels.penalties import prox_all

        m, out = self.model, np.empty_like(x)
        prox_all(m.penalty, m.reg, m.a, m.b, m.groups, tau, x, out, m.norms)
        return out

    def _gap(self, objective: float, lam: Array, c: Array) -> float | None:
        from fdglm_fast.kernels.evaluate import conjugate_sum

        alpha = self.problem.penalty.dual_scale(-c, self.model.groups) if np.isfinite(c).all() else None
        if alpha is None:
            return None
        tiles = self.problem.tiles
        conjugates = float(conjugate_sum(lam, alpha, tiles.y, tiles.rows, self.model))
        dual = -conjugates / self.problem.n - self.problem.penalty.conjugate(-alpha * c, self.model.groups)
        gap = objective - dual
        return gap if math.isfinite(gap) else None
