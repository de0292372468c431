"""The best common factor of the edge weights under the paper's own bound.

Theorem 1's constants are A = C = R rho sqrt(m/n) f with (see theory.py)

    f(D, delta) = (chi + D) sqrt(1 + 2 chi^2/delta^2).

Multiplying every weight by c multiplies L, hence D = ||L|| and delta = lambda_2, by c. Then

    d/dc log f = D/(chi + c D) - a/(c (c^2 + a)),   a = 2 chi^2/delta^2,

which is negative for small c, positive for large c, and zero where D c (c^2 + a) = a (chi + c D), that is
D c^3 = a chi:

    c = chi (2/(delta^2 D))^(1/3).

There f = chi (1 + (2 kappa^2)^(1/3))^(3/2) with kappa = D/delta: what is left of the network is its condition number
alone, and a smaller one is always better. A weighting of least condition number is therefore the best one of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fdglm_fast.network import Network


def bound_factor(chi: float, D: float, delta: float) -> float:
    """f = (chi + D) sqrt(1 + 2 chi^2/delta^2), the part of the theorem's bound that the network decides."""
    return (chi + D) * math.sqrt(1.0 + 2.0 * (chi / delta) ** 2)


def best_scale(chi: float, D: float, delta: float) -> float:
    """c = chi (2/(delta^2 D))^(1/3), which minimises f(c D, c delta) over c > 0."""
    return chi * (2.0 / (delta * delta * D)) ** (1.0 / 3.0)


def best_factor(chi: float, D: float, delta: float) -> float:
    """f at the best scale, chi (1 + (2 kappa^2)^(1/3))^(3/2)."""
    kappa = D / delta
    return chi * (1.0 + (2.0 * kappa * kappa) ** (1.0 / 3.0)) ** 1.5


@dataclass(frozen=True)
class BoundFactors:
    """f of a network with its own weights, and with unit weights on the same edges."""

    used: float
    unit: float


def bound_factors(network: Network, chi: float) -> BoundFactors | None:
    """Both factors of a connected network; None for one agent, which has none."""
    unit = network if network.unit_weights else replace(network, weights=np.ones(len(network.edges)))
    gap, unit_gap = network.spectral_gap, unit.spectral_gap
    if not gap or not unit_gap:
        return None
    used = bound_factor(chi, network.laplacian_norm, gap)
    return BoundFactors(used, bound_factor(chi, unit.laplacian_norm, unit_gap))
