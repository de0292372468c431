"""Step sizes: the theorem's, tighter ones, or the user's; every constant with where it came from.

    theorem   kappa = chi + D
    tight     kappa = sqrt(max_j ||X_j||^2 + D^2), because the block rows of K are orthogonal
    sigma = sqrt(m) n^(3/2) rho / (kappa R sqrt(1 + 2 chi^2/delta^2)),   tau = n^2/(kappa^2 sigma)

For one agent D = 0 and the square root is 1. Both keep tau sigma ||K||^2 <= 1, since n ||K|| <= kappa.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.network import Network
from fdglm_fast.norms import agent_norms, column_squares, design_norm
from fdglm_fast.options import Given
from fdglm_fast.problem import Problem
from fdglm_fast.stopping import GROWTH
from fdglm_fast.team import Team
from fdglm_fast.theory import rho_of

LOOSE = 1.0 + 1e-9  # what rounding may add to tau sigma ||K||^2
NEAR = 1e-5  # by how much a norm of the user's may be below ours, which is a bound (in float32 by 1e-6)


@dataclass(frozen=True)
class StepSizes:
    """sigma and tau, and the constants they were made from; `sources` tells how each constant was found."""

    rule: str
    sigma: float
    tau: float
    rho: float
    chi: float
    D: float
    delta: float | None
    R: float
    kappa: float
    sources: dict[str, str] = field(default_factory=dict)

    def believed(self, n: int) -> float:
        """The largest entry of theta that is no sign of divergence, where the steps were forced."""
        forced = self.sigma * self.tau * (self.kappa / n) ** 2 > LOOSE
        return GROWTH * self.R if forced else math.inf

    def identity(self) -> dict[str, float]:
        """What the iterates depend on."""
        return {"sigma": self.sigma, "tau": self.tau}

    def as_json(self) -> dict[str, Any]:
        names = ("rule", "sigma", "tau", "rho", "chi", "D", "delta", "R", "sources")
        return {name: getattr(self, name) for name in names}


def choose_steps(
    problem: Problem, network: Network, given: Given, reference_norm: float | None, team: Team | None = None
) -> StepSizes:
    """Steps for a problem on a network; R from the user, the reference optimum, or else an estimate."""
    given.check()
    team = team or Team(problem)
    n, m = problem.n, problem.agents
    sources: dict[str, str] = {}

    def pick(name: str, value: float | None, compute: float | None, how: str) -> float | None:
        sources[name] = "given" if value is not None else how
        return value if value is not None else compute

    chi = pick("chi", given.chi, problem.norm, "computed") or design_norm(team)
    D = pick("D", given.D, network.laplacian_norm, "computed") if m > 1 else 0.0
    if not given.force:
        _check_bounds(team, network, given)
    delta = pick("delta", given.delta, network.spectral_gap, "computed") if m > 1 else None
    R, sources["R"] = _radius(team, given, reference_norm)
    rho = _rho(team, sources)
    assert D is not None
    kappa = chi + D
    if given.rule == "tight" or given.sigma is not None:
        largest = chi if m == 1 else float(agent_norms(team).max())
        kappa = math.hypot(largest, D)
    kappa = kappa if kappa > 0.0 else 1.0
    if given.sigma is not None and given.tau is not None:
        _check_product(given, kappa, n)
        return StepSizes("given", given.sigma, given.tau, rho, chi, D, delta, R, kappa, sources)
    spread = 1.0 if m == 1 or delta is None else math.sqrt(1.0 + 2.0 * chi * chi / (delta * delta))
    sigma = math.sqrt(m) * n**1.5 * rho / (kappa * R * spread)
    share = kappa * kappa * sigma / (n * n)  # 1/tau
    if not (0.0 < sigma < math.inf and 0.0 < share < math.inf):
        raise DataError(f"steps for R = {R:.6g} and ||X|| = {chi:.6g} are beyond all numbers: scale X or y.")
    return StepSizes(given.rule, sigma, n * n / (kappa * kappa * sigma), rho, chi, D, delta, R, kappa, sources)


def _check_bounds(team: Team, network: Network, given: Given) -> None:
    """Refuse a chi or D of the user's that is no bound: the steps made from it would break tau sigma ||K||^2 <= 1."""
    known = []
    if given.chi is not None:
        known.append(("--chi", given.chi, "||X||", team.whole.norm or design_norm(team)))
    if given.D is not None and team.whole.agents > 1:
        known.append(("--laplacian-norm", given.D, "||L||", network.laplacian_norm))
    for option, value, norm, truth in known:
        if value < truth * (1.0 - NEAR):
            raise UsageError(
                f"{option} {value:.6g} is smaller than {norm}, {truth:.6g}, so that the iteration can diverge: "
                "leave it out, or add --force-steps."
            )


def _check_product(given: Given, kappa: float, n: int) -> None:
    assert given.sigma is not None and given.tau is not None
    product = given.sigma * given.tau * (kappa / n) ** 2
    if product > LOOSE and not given.force:
        raise UsageError(
            f"sigma * tau * ||K||^2 may be {product:.4g}, above 1, where the iteration can diverge: "
            f"take sigma * tau <= {(n / kappa) ** 2:.6g}, or add --force-steps."
        )


def _rho(team: Team, sources: dict[str, str]) -> float:
    """rho of the loss's class; for a loss in neither, the root mean square of loss'(0), named as an estimate."""
    rho = rho_of(team.whole.loss)
    sources["rho"] = "loss"
    if math.isnan(rho):
        square = team.from_first("mean square of loss'(0)", lambda: float(np.mean((1.0 - team.own.response) ** 2)))
        rho = math.sqrt(square) or 1.0
        sources["rho"] = "estimate: root mean square of loss'(0), no theorem behind it"
    return rho


def _radius(team: Team, given: Given, reference_norm: float | None) -> tuple[float, str]:
    if given.R is not None:
        return given.R, "given"
    if reference_norm is not None and reference_norm > 0.0:
        return reference_norm, "reference"
    R = estimate_radius(team)
    if R > 0.0:
        return R, "estimate: ||y|| sqrt(d)/||X||_F, for uncorrelated columns"
    return 1.0, "estimate: 1, because X or y is zero"


def estimate_radius(team: Team) -> float:
    """R = ||y|| sqrt(d)/||X||_F, an estimate of ||theta|| from two numbers; log(1 + y) for counts in the place of y.

    ||X theta||^2 is ||theta||^2 ||X||_F^2/d for orthogonal columns of one norm, and in expectation for uncorrelated
    ones, so that R is ||theta|| where y = X theta. Noise in y makes it larger, correlation larger or smaller.
    """
    own = team.own

    def norm() -> float:
        y = np.log1p(own.response) if own.loss.labels == "count" else own.response
        top = float(np.abs(y).max()) or 1.0  # whose square may be beyond all numbers
        return top * float(np.linalg.norm(y / top))

    y_norm = team.from_first("||y||, to estimate R", norm)
    blocks = np.add.reduceat(column_squares(own), own.partition.offsets[:-1])
    X_square = float(team.total("||X||_F^2, to estimate R", blocks))
    return y_norm * math.sqrt(team.whole.d / X_square) if X_square > 0.0 else 0.0
