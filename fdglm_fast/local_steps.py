"""Steps of the fast method, from what each agent knows of its own data and its degree.

    S         = diag(s_c),  s_c = n/|x_c|^2
    tau_theta = tau = 1/(w x),        x^2 = mean_j of a_j
    tau_v     = tau chi^2/mean(b_j),  chi = max_j |X_j S^(1/2)|
    sigma_j   = 1/(tau a_j),          a_j = max(|X_j S^(1/2)|^2, chi^2 b_j/mean(b))

with b_j a little more than c deg_j for the weighted degree of agent j; theta's step is tau S. The scales s_c, as if
columns had a mean square of one, make the method blind to the units in which they are measured; a group of group-l2
has one scale, its smallest. The steps are valid for every weight w between primal and dual. With D = blkdiag X_j S
X_j', the dual metric

    Sigma = sigma - tau_v sigma L sigma

mixes the steps of neighbours. L is less than diag(b), c = |Deg^(-1/2) L Deg^(-1/2)| <= 2, so that N = tau_v sigma^(1/2)
L sigma^(1/2) has its eigenvalues in [0, 1), and Sigma is positive. The coupling of v to lambda is M with Sigma M M' =
sigma L, and what has to be at most one is

    |Sigma^(1/2) (tau D + tau_v M M') Sigma^(1/2)|  =  |(1 - N)^(1/2) F (1 - N)^(1/2) + N|,   F = tau sigma^(1/2) D
    sigma^(1/2) <= 1

which it is: F <= 1 leaves (1 - N) + N. (Without mixing, Sigma = sigma, and the two demands of an agent add up.) Several
rounds of gossip put another matrix in the place of L, and a bound on its eigenvalues in the place of c deg_j.

On the complete graph with equal weights N is a projection, 1 - N averages over the agents, and only the average of F
matters: |X_j S^(1/2)|^2 is replaced by |X S^(1/2)|^2/m, and the m agents move as one would.

The 1/n of the objective is part of the steps: the proximal map of the penalty takes n tau.

The first weight. Along a singular value s of the coupling, the saddle point is an oscillator with the damping of the
dual's curvature g, and w = 2 s/g damps it critically. Only agent 1 has a curvature, 1/beta for a loss'' of at most
beta, so that a lambda which m agents share has g = 1/(beta m) and s = s(X)/sqrt(m); the scaled columns have a norm of
sqrt(n) each, which is what s(X) is in the mean. Directions that matter late have less:

    w = FIRST beta sqrt(m n) min(1, (lambda_2/||L||/POOR)^(1/4)) .

On a poorly connected network agent 1's damping does not reach everyone, and less is better (measured). The logistic
loss has the largest of its second derivatives at zero only, and is taken for one of `FITTED` of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.network import Network
from fdglm_fast.norms import agent_norms, column_squares, design_norm
from fdglm_fast.problem import Problem
from fdglm_fast.team import Team

FIRST = 0.25
FITTED = 0.3
POOR = 0.02  # ratio of the Laplacian's eigenvalues, second smallest to largest, below which a network damps less
SLACK = 1.0 + 2.0**-10  # b is so much more than it has to be: Sigma keeps an inverse
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LocalSteps:
    """The steps for a weight w, and what they are made of."""

    scale: Array  # s_c of the columns of the agents that are here, in agent order
    norms: Array  # (m,) |X_j S^(1/2)|, or what counts in their place
    bounds: Array  # (m,) b_j: the Laplacian is at most diag(b)
    chi: float  # |X|, which only the optimality residual needs
    w: float = 1.0
    held: bool = False  # whether the user chose w, and it stays

    @cached_property
    def demands(self) -> Array:
        """(m,) a_j."""
        blocks = np.maximum(self.norms, 1e-8 * self._largest) ** 2  # a block of zeros needs a finite step too
        return np.maximum(blocks, self._ratio * self.bounds)

    @cached_property
    def _largest(self) -> float:
        return float(self.norms.max()) or 1.0

    @cached_property
    def _ratio(self) -> float:
        """tau_v/tau."""
        mean = float(self.bounds.mean())
        return 0.0 if mean == 0.0 else self._largest**2 / mean

    @cached_property
    def tau_theta(self) -> float:
        return 1.0 / (self.w * math.sqrt(float(self.demands.mean())))

    @cached_property
    def tau_v(self) -> float:
        return self.tau_theta * self._ratio

    @cached_property
    def sigma(self) -> Array:
        return 1.0 / (self.tau_theta * self.demands)

    def with_weight(self, w: float) -> LocalSteps:
        return replace(self, w=w)

    def believed(self, n: int) -> float:
        """No bound on theta: steps that cannot be forced do not diverge."""
        return math.inf

    def identity(self) -> dict[str, float | str]:
        """What the iterates depend on, besides data and network: the weight, where it was chosen."""
        return {"primal weight": self.w if self.held else "auto"}

    def as_json(self) -> dict[str, Any]:
        sigma = self.sigma
        return {
            "rule": "local",
            "weight": self.w,
            "tau_theta": self.tau_theta,
            "tau_v": self.tau_v,
            "sigma": {"least": float(sigma.min()), "largest": float(sigma.max())},
            "chi": self.chi,
        }


def local_steps(
    team: Team,
    network: Network,
    chi: float | None = None,
    bounds: Array | None = None,
    weight: float | None = None,
) -> LocalSteps:
    """The steps for a team on a network; `bounds` where something else is in the place of its Laplacian.

    `weight` is one that is to stay; without it there is a first weight, which restarts change.
    """
    scale = column_scales(team)
    root, m = np.sqrt(scale), network.agents
    if bounds is None and network.is_uniform and m > 1:
        bounds = np.full(m, network.weighted_degrees[0] * m / (m - 1.0))
        norms = np.full(m, design_norm(team, root) / math.sqrt(m))
    else:
        bounds = SLACK * (network.degree_factor * network.weighted_degrees if bounds is None else bounds)
        norms = agent_norms(team, root)
    norm = chi or team.whole.norm or design_norm(team)
    return LocalSteps(scale, norms, bounds, norm, weight or first_weight(team.whole, network), weight is not None)


def first_weight(problem: Problem, network: Network) -> float:
    """The weight to begin with; a loss without a bounded curvature is taken for one of curvature one."""
    beta = (problem.loss.curvature or 1.0) * (FITTED if problem.loss.name == "logistic" else 1.0)
    reach = 1.0
    if network.spectral_gap:
        # Rounded, because eigenvalues are known to nine digits.
        reach = min(1.0, round((network.spectral_gap / network.laplacian_norm / POOR) ** 0.25, 6))
    return FIRST * beta * reach * math.sqrt(problem.agents * problem.n)


def column_scales(team: Team) -> Array:
    """s_c from the norms of the columns; one where a column is zero."""
    own = team.own
    squares = column_squares(own)
    if own.groups is not None:
        largest = np.zeros(int(own.groups.max()) + 1)
        np.maximum.at(largest, own.groups, squares)
        squares = largest[own.groups]
    return np.asarray(np.where(squares > 0.0, own.n / np.where(squares > 0.0, squares, 1.0), 1.0))
