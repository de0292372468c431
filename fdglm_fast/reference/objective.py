"""The centralised objective L(theta) = f(theta) + r(theta) and its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.kernels.penalties import prox_all, value_all
from fdglm_fast.losses import Loss
from fdglm_fast.penalties import BOX, ELASTIC_NET, NONNEG, Penalty, group_scratch, parse_penalty
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
        prox_all(p.code, p.reg, p.a, p.b, self.groups, tau, np.zeros(0), theta, out, group_scratch(self.groups))
        return out

    def project(self, theta: Array) -> Array:
        """theta, moved into the domain of r where rounding carried it out."""
        return self.prox(theta, 1.0) if self.penalty.code in (NONNEG, BOX) else theta

    def value(self, theta: Array, z: Array) -> float:
        return self.mean_loss(z) + self.penalty_value(theta)

    @cached_property
    def nearest(self) -> tuple[Array, Array, float]:
        """(theta, X theta, L(theta)) of the point of the domain of r that is nearest to 0: 0, but for some boxes."""
        theta = self.project(np.zeros(self.design.d))
        z = self.design.times(theta)
        return theta, z, self.value(theta, z)

    @cached_property
    def first_gradients(self) -> tuple[float, list[Array]]:
        """The gradients of the loss at 0 and at `nearest`, and |lam|_2/sqrt(n) of the larger of their slopes."""
        slopes = [self.slopes(z) for z in (np.zeros(self.design.n), self.nearest[1])]
        most = max(float(np.linalg.norm(lam)) for lam in slopes) / math.sqrt(self.design.n)
        return most, [self.gradient(lam) for lam in slopes]

    def size(self, value: float) -> float:
        """What errors of the objective are relative to: max(|L|, L_0 - L).

        For a box without 0, L_0 is the larger of the loss at 0 and of L at `nearest`.
        """
        first = max(self.nearest[2], self.mean_loss(np.zeros(self.design.n)))
        return max(abs(value), first - value, float(np.finfo(np.float64).tiny))


def plain(penalty: Penalty) -> Penalty:
    """The same penalty under its simplest name: weight 0 is none, an elastic net of ratio 1 or 0 is l1 or l2."""
    if penalty.name in ("l1", "l2", "elastic-net", "group-l2") and penalty.reg == 0.0:
        return parse_penalty("none", 0.0)
    if penalty.code == ELASTIC_NET and penalty.a in (0.0, 1.0):
        return parse_penalty("l1" if penalty.a == 1.0 else "l2", penalty.reg)
    return penalty
