"""Steps of the fast method, from what each agent knows of its own data and its degree.

    S         = diag(s_c),  s_c = n/|x_c|^2
    tau_theta = 1/(w chi)
    tau_v     = tau_theta chi^2/mean(b_j)
    sigma_j   = 1/(tau_theta |X_j S^(1/2)|^2 + tau_v b_j)

with chi = max_j |X_j S^(1/2)| and b_j twice the weighted degree of agent j; theta's step is tau_theta S. The scales
s_c, as if columns had a mean square of one, make the method blind to the units in which they are measured; a group of
group-l2 has one scale, its smallest. The steps are valid for every weight w between primal and dual: the Laplacian is
at most twice its diagonal, so that with K = [blkdiag X_j | L^(1/2)] and T = diag(tau_theta S, tau_v)

    K T K' = tau_theta blkdiag(X_j S X_j') + tau_v L  <=  tau_theta |X_j S^(1/2)|^2 + tau_v diag(b)  =  diag(1/sigma) .

The 1/n of the objective is part of the steps: the proximal map of the penalty takes n tau_theta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.network import Network
from fdglm_fast.norms import agent_norms, column_squares, design_norm
from fdglm_fast.team import Team

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LocalSteps:
    """The steps for a weight w, and what they are made of."""

    scale: Array  # s_c of the columns of the agents that are here, in agent order
    norms: Array  # (m,) |X_j S^(1/2)|
    bounds: Array  # (m,) b_j: the Laplacian is at most diag(b)
    chi: float  # |X|, which only the optimality residual needs
    w: float = 1.0

    @property
    def largest(self) -> float:
        return float(self.norms.max()) or 1.0

    @property
    def tau_theta(self) -> float:
        return 1.0 / (self.w * self.largest)

    @property
    def tau_v(self) -> float:
        mean = float(self.bounds.mean())
        return 0.0 if mean == 0.0 else self.tau_theta * self.largest**2 / mean

    @property
    def sigma(self) -> Array:
        norms = np.maximum(self.norms, 1e-8 * self.largest)  # a block of zeros needs a finite step too
        return 1.0 / (self.tau_theta * norms**2 + self.tau_v * self.bounds)

    def with_weight(self, w: float) -> LocalSteps:
        return replace(self, w=w)

    def believed(self, n: int) -> float:
        """No bound on theta: steps that cannot be forced do not diverge."""
        return math.inf

    def identity(self) -> dict[str, float]:
        """What the iterates depend on, besides data and network: that follows from them."""
        return {}

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


def local_steps(team: Team, network: Network, chi: float | None = None, bounds: Array | None = None) -> LocalSteps:
    """The steps for a team on a network; `bounds` where something else is in the place of its Laplacian."""
    scale = column_scales(team)
    twice = 2.0 * network.weighted_degrees if bounds is None else bounds
    return LocalSteps(scale, agent_norms(team, np.sqrt(scale)), twice, chi or team.whole.norm or design_norm(team))


def column_scales(team: Team) -> Array:
    """s_c from the norms of the columns; one where a column is zero."""
    own = team.own
    squares = column_squares(own)
    if own.groups is not None:
        largest = np.zeros(int(own.groups.max()) + 1)
        np.maximum.at(largest, own.groups, squares)
        squares = largest[own.groups]
    return np.asarray(np.where(squares > 0.0, own.n / np.where(squares > 0.0, squares, 1.0), 1.0))
