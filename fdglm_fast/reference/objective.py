"""The centralised objective L(theta) = f(theta) + r(theta), its parts, and how far a point is from optimal."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.kernels.penalties import prox_all, value_all
from fdglm_fast.losses import Loss
from fdglm_fast.penalties import BOX, ELASTIC_NET, NONE, NONNEG, Penalty, group_scratch, parse_penalty
from fdglm_fast.reference import pointwise
from fdglm_fast.reference.design import Design

Array = NDArray[np.float64]
Groups = NDArray[np.int64]


@dataclass(frozen=True)
class Objective:
    """L(theta) = (1/n) sum_i loss(x_i' theta, y_i) + r(theta); z stands for X theta, lam for the losses' slopes."""

    design: Design
    y: Array
    loss: Loss
    penalty: Penalty
    groups: Groups

    def with_design(self, design: Design) -> Objective:
        return replace(self, design=design)

    def mean_loss(self, z: Array) -> float:
        return float(pointwise.values(self.loss.code, self.loss.parameter, z, self.y).mean())

    def slopes(self, z: Array) -> Array:
        return pointwise.slopes(self.loss.code, self.loss.parameter, z, self.y)

    def curvatures(self, z: Array, mix: float = 0.0) -> Array:
        """loss'', blended by `mix` with the curvature of a majorising parabola."""
        return pointwise.curvatures(self.loss.code, self.loss.parameter, z, self.y, mix)

    def gradient(self, lam: Array) -> Array:
        """X' lam/n."""
        return self.design.transpose_times(lam) / self.design.n

    def penalty_value(self, theta: Array) -> float:
        p = self.penalty
        return float(value_all(p.code, p.reg, p.a, p.b, self.groups, theta, group_scratch(self.groups)))

    def prox(self, theta: Array, tau: float) -> Array:
        """prox_{tau r}(theta)."""
        p, out = self.penalty, np.empty_like(theta)
        prox_all(p.code, p.reg, p.a, p.b, self.groups, tau, theta, out, group_scratch(self.groups))
        return out

    def project(self, theta: Array) -> Array:
        """theta, moved into the domain of r where rounding carried it out."""
        return self.prox(theta, 1.0) if self.penalty.code in (NONNEG, BOX) else theta

    def value(self, theta: Array, z: Array) -> float:
        return self.mean_loss(z) + self.penalty_value(theta)

    @cached_property
    def gradient_scale(self) -> float:
        """|grad f(0)|, or 1e-6 of the most it could be where X and the slopes at 0 are as good as orthogonal."""
        lam = self.slopes(np.zeros(self.design.n))
        most = self.design.norm * float(np.linalg.norm(lam)) / self.design.n
        return max(float(np.linalg.norm(self.gradient(lam))), 1e-6 * most, np.finfo(np.float64).tiny)

    def residual(self, theta: Array, gradient: Array) -> float:
        """|theta - prox_{eta r}(theta - eta grad)|/eta relative to `gradient_scale`, eta = n/|X|^2."""
        if self.design.norm == 0.0:
            return 0.0
        eta = self.design.n / self.design.norm**2
        move = theta - self.prox(theta - eta * gradient, eta)
        return float(np.linalg.norm(move)) / eta / self.gradient_scale

    def gap(self, theta: Array, z: Array, lam: Array) -> float:
        """L(theta) minus the dual objective -(1/n) sum loss*(lam_i) - r*(-X'lam/n), lam scaled where that helps.

        Summed as two Fenchel-Young differences, neither of which is negative:
        (1/n) sum [loss(z_i) + loss*(lam_i) - z_i lam_i]  +  r(theta) + r*(c) - c'theta,  c = -X'lam/n.
        """
        c = -self.gradient(lam)
        alpha = self.penalty.dual_scale(c, self.groups) if self.penalty.code not in (NONE, NONNEG) else 1.0
        if alpha is None:
            return math.inf
        lam, c = alpha * lam, alpha * c
        code, k = self.loss.code, self.loss.parameter
        losses = pointwise.values(code, k, z, self.y) + pointwise.conjugates(code, k, lam, self.y) - z * lam
        penalties = self.penalty_value(theta) + self._conjugate(theta, c) - float(c @ theta)
        return max(float(losses.mean()) + penalties, 0.0)

    def _conjugate(self, theta: Array, c: Array) -> float:
        """r*(c); for none and nonneg, which have no room for rounding, r* of r restricted to a ball around 0.

        The ball's radius 2 |theta| + |y|/|X| is twice what a minimiser near theta needs.
        """
        if self.penalty.code not in (NONE, NONNEG):
            return self.penalty.conjugate(c, self.groups)
        wrong = c if self.penalty.code == NONE else np.maximum(c, 0.0)
        natural = float(np.linalg.norm(self.y)) / self.design.norm if self.design.norm > 0.0 else 0.0
        return (2.0 * float(np.linalg.norm(theta)) + natural) * float(np.linalg.norm(wrong))


def plain(penalty: Penalty) -> Penalty:
    """The same penalty under its simplest name: weight 0 is none, an elastic net of ratio 1 or 0 is l1 or l2."""
    if penalty.name in ("l1", "l2", "elastic-net", "group-l2") and penalty.reg == 0.0:
        return parse_penalty("none", 0.0)
    if penalty.code == ELASTIC_NET and penalty.a in (0.0, 1.0):
        return parse_penalty("l1" if penalty.a == 1.0 else "l2", penalty.reg)
    return penalty
