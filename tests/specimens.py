"""Small problems for the tests: every loss and penalty under the names of the package and of the oracle."""

from __future__ import annotations

from typing import Any, NamedTuple

import naive
import numpy as np
from numpy.typing import NDArray

from fdglm_fast.network import Network
from fdglm_fast.partition import contiguous, from_owner
from fdglm_fast.problem import Problem

Array = NDArray[np.float64]

LOSSES: dict[str, naive.Spec] = {
    "squared": ("squared",),
    "huber:0.7": ("huber", 0.7),
    "absolute": ("absolute",),
    "quantile:0.9": ("quantile", 0.9),
    "logistic": ("logistic",),
    "hinge": ("hinge",),
    "squared-hinge": ("squared-hinge",),
    "poisson": ("poisson",),
}
# The weights are such that each penalty changes the iterates of every loss (tested in test_oracle.py).
PENALTIES: dict[str, naive.Spec] = {
    "none": ("none",),
    "l1": ("l1", 0.05),
    "l2": ("l2", 0.4),
    "elastic-net:0.3": ("elastic-net", 0.1, 0.3),
    "group-l2": ("group-l2", 0.05),
    "nonneg": ("nonneg",),
    "box:-0.02:0.03": ("box", -0.02, 0.03),
}


class Specimen(NamedTuple):
    """One problem, for the package and for the oracle."""

    X: Array
    y: Array
    problem: Problem
    network: Network
    loss: naive.Spec
    penalty: naive.Spec

    @property
    def blocks(self) -> list[list[int]]:
        return [self.problem.partition.columns(j).tolist() for j in range(self.problem.agents)]

    @property
    def edges(self) -> naive.Edges:
        pairs = zip(self.network.edges.tolist(), self.network.weights.tolist(), strict=True)
        return [(i, j, w) for (i, j), w in pairs]

    def naive_run(self, sigma: float, tau: float, iterations: int) -> list[naive.Record]:
        """The oracle's iterates on this problem."""
        X, y = self.X.tolist(), self.y.tolist()
        return naive.solve(X, y, self.blocks, self.edges, self.loss, self.penalty, sigma, tau, iterations)


def response(loss: str, z: Array, rng: np.random.Generator) -> Array:
    """A response to the predictions z that suits the loss; both classes occur where there are classes."""
    if loss in ("logistic", "hinge", "squared-hinge"):
        y = np.where(z + rng.normal(0.0, 0.5, z.shape) > 0.0, 1.0, -1.0)
        y[:2] = (1.0, -1.0)
        return y
    if loss == "poisson":
        return rng.poisson(np.exp(np.clip(z, -3.0, 1.5))).astype(np.float64)
    return np.asarray(z + rng.normal(0.0, 0.5, z.shape))


def gaussian_data(loss: str, n: int, d: int, seed: int = 0, scale: float = 1.0) -> tuple[Array, Array]:
    """X standard normal times `scale`, and a response made from standard normal coefficients."""
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n, d))
    return X, response(loss, X @ rng.standard_normal(d) / np.sqrt(d), rng)


def group_numbers(owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Two groups an agent, one of every third of its columns: of different sizes, and not contiguous."""
    seen: dict[int, int] = {}
    numbers = []
    for agent in owner.tolist():
        numbers.append(2 * agent + (seen.get(agent, 0) % 3 == 2))
        seen[agent] = seen.get(agent, 0) + 1
    return np.array(numbers)


def specimen(
    loss: str,
    penalty: str,
    network: Network,
    *,
    shape: tuple[int, int] = (35, 11),
    owner: NDArray[np.int64] | None = None,
    seed: int = 0,
    dtype: Any = np.float64,
    scale: float = 1.0,
) -> Specimen:
    """A problem of that shape on a network; columns in contiguous blocks unless `owner` says whose they are."""
    X, y = gaussian_data(loss, *shape, seed=seed, scale=scale)
    m = network.agents
    partition = contiguous(shape[1], m) if owner is None else from_owner(owner, m)
    groups = group_numbers(partition.owner)
    told = PENALTIES[penalty]
    if told[0] == "group-l2":
        told = (*told, groups.tolist())
    reg = told[1] if told[0] in ("l1", "l2", "elastic-net", "group-l2") else 0.0
    design = X.astype(dtype)
    problem = Problem.from_arrays(design, y, agents=m, owner=owner, loss=loss, penalty=penalty, reg=reg, groups=groups)
    return Specimen(design.astype(np.float64), y, problem, network, LOSSES[loss], told)
