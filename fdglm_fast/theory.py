"""Theorem 1 of the paper, corrected: what is guaranteed for the ergodic average after T iterations.

The proof gives, for any steps with tau sigma ||K||^2 <= 1, writing A = (1 + 2 chi^2/delta^2) R^2 / tau (one agent:
A = R^2/tau) and C = m n rho^2/sigma,

    Lipschitz losses              L(theta_bar) <= L* + (A + C)/T
    square-root Lipschitz losses  L(theta_bar) <= (1 + 2 C/T) (L* + A/T)        for T >= 2 C

With the theorem's steps A = C = (chi+D) R rho sqrt(m/n) sqrt(1 + 2 chi^2/delta^2). The paper prints the factor of the
second line with m^(1/2) n^(3/2) in the denominator, where this has (n/m)^(1/2): too small by m n, and wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fdglm_fast.losses import Loss


@dataclass(frozen=True)
class Certificate:
    """The bound on L(theta_bar_T) - L*, or why there is none."""

    kind: str | None  # "lipschitz" or "sqrt-lipschitz"
    A: float = math.nan
    C: float = math.nan
    why_not: str | None = None

    def gap(self, T: int, best: float) -> float | None:
        """The guaranteed L(theta_bar_T) - L*, None where the theorem says nothing."""
        if self.kind is None or T < 1:
            return None
        if self.kind == "lipschitz":
            return (self.A + self.C) / T
        if T < 2.0 * self.C:
            return None
        return (1.0 + 2.0 * self.C / T) * (best + self.A / T) - best


def certificate(
    loss: Loss,
    n: int,
    m: int,
    steps: tuple[float, float],
    constants: tuple[float, float | None, float],
    trusted: str | None,
) -> Certificate:
    """The certificate for steps (sigma, tau) and constants (chi, delta, R); `trusted` says why they cannot be used."""
    sigma, tau = steps
    chi, delta, R = constants
    if loss.lipschitz is None and loss.sqrt_lipschitz is None:
        return Certificate(None, why_not=f"loss '{loss.spec}' is in neither class of the theorem")
    if trusted is not None:
        return Certificate(None, why_not=trusted)
    spread = 1.0 if m == 1 or delta is None else 1.0 + 2.0 * chi * chi / (delta * delta)
    rho = rho_of(loss)
    A, C = spread * R * R / tau, m * n * rho * rho / sigma
    return Certificate("lipschitz" if loss.lipschitz is not None else "sqrt-lipschitz", A, C)


def rho_of(loss: Loss) -> float:
    """rho of the theorem; the Lipschitz constant where a loss is in both classes."""
    if loss.lipschitz is not None:
        return loss.lipschitz
    return loss.sqrt_lipschitz if loss.sqrt_lipschitz is not None else math.nan
