"""The cost model: operations and messages of one iteration, as closed forms.

Every scalar +, -, *, / and comparison is one operation; doubling is free (2x - y is one subtraction after a shift of
the exponent). Agent j with d_j columns and deg_j neighbours then spends

    theta    2 n d_j + 4 d_j              X_j' lambda_j, a gradient step, soft thresholding (3 d_j of it)
    v        n (deg_j + 3)                sum over the neighbours, Laplacian, a gradient step
    lambda   n (2 d_j + deg_j + 4) + d_j  u and w, sum over the neighbours, X_j w_j, a gradient step
    total    n (4 d_j + 2 deg_j + 7) + 5 d_j

The fast method (`fdglm_fast.halpern`) adds up neighbours once, mixes X_j w_j into what it sends, and goes not to T(z)
but to z + gain (T(z) - z) + pull (z_0 - z), which costs 5 operations for each number (in relaxed periods, without an
anchor, 2) and one more where T(z) - z is not at hand:

    theta    2 n d_j + 10 d_j
    v        7 n                           t (lambda - c), the next p
    lambda   n (2 d_j + deg_j + 10) + d_j  2 p+ - p, X_j w_j, both mixed, less the Laplacian, the next lambda
    total    n (4 d_j + deg_j + 17) + 11 d_j

With either method it is 2 n more as agent 1 with squared loss. Weighted edges multiply each neighbour first, n deg_j
more wherever neighbours are added up. Agent 1's lambda^half and vector of the fast method are formed last, 5 n, and its
neighbours add that vector on its own, 2 n each; all are counted with agent 1's dual step. One agent has no v: n (4 d +
1) + 5 d, or n (4 d + 7) + 11 d. The counter of `count.py` is independent of this file; `fdglm cost --check` compares
the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from fdglm_fast.network import Network

PHASES = ("theta", "v", "lambda")
SOFT_THRESHOLD = 3  # operations a coordinate: subtract, compare, restore the sign
# Operations a coordinate of the other proximal maps, where no branch cuts them short. The paper has none of these.
PROX = {"none": 0, "l1": SOFT_THRESHOLD, "l2": 1, "elastic-net": 4, "group-l2": 3, "nonneg": 1, "box": 2}
GROUP = 4  # group-l2, on top for each group: square root, comparison, division, subtraction
MOVE, FOLLOW = 1, 5  # operations a number of T(z) - z, and on from there: scaled, added; subtract, scale, add z_0
FAST_V, FAST_LAMBDA = 7, 10  # operations a sample of the fast method besides X_j w_j and the neighbours
ANSWER, HEARD = 5, 2  # operations a sample of agent 1's lambda^half and late vector, and at each of its neighbours
SQUARED_DUAL = 2  # operations a sample of agent 1's dual step, (a - s y)/(1 + s): s y and 1 + s are formed once
EXCHANGES = 2  # n-vectors that go over every edge, each way: lambda and u
FAST_EXCHANGES = 1  # in the fast method: 2 p+ - p
ROUNDS = 2  # in which they go, with either method: in the fast one agent 1's vector comes after its neighbours'


def paper_cost(n: int, d: int, m: int, max_degree: float) -> float:
    """Operations of an agent in one iteration, as the paper states them: n(4 d/m + 2 Delta + 7) + 5 d/m.

    For one agent n(4 d + 1) + 5 d.
    """
    if m == 1:
        return float(n * (4 * d + 1) + 5 * d)
    share = d / m
    return n * (4.0 * share + 2.0 * max_degree + 7.0) + 5.0 * share


def fast_cost(n: int, d: int, m: int, max_degree: float) -> float:
    """Operations of an agent in one iteration of the fast method: n(4d/m + Delta + 17) + 11d/m; one: n(4d+7) + 11d.

    Looks at the residual and restarts come on top.
    """
    if m == 1:
        return float(n * (4 * d + 7) + 11 * d)
    share = d / m
    return n * (4.0 * share + max_degree + FAST_V + FAST_LAMBDA) + 11.0 * share


def look_cost(n: int, d: int, m: int, max_degree: float) -> float:
    """Operations that a look at the size of a move adds: L lambda, its norm, d lambda, its norm and that of d theta."""
    around = max_degree + 4.0 if m > 1 else 0.0
    return n * (around + 3.0) + 4.0 * d / m


def restart_cost(n: int, d: int, m: int, max_degree: float) -> float:
    """Operations of a restart: dp, L dp, dp's products with it and itself, norms of d lambda and d theta."""
    around = max_degree + 6.0 if m > 1 else 0.0
    return n * (around + 3.0) + 4.0 * d / m


def normalized_cost(n: int, d: int, m: int, max_degree: float) -> float:
    """Width of one iteration on the paper's horizontal axis: the cost of an agent over that of a single agent."""
    return paper_cost(n, d, m, max_degree) / paper_cost(n, d, 1, 0)


def prox_model(penalty: str, d_j: int) -> int:
    """Operations of an agent's proximal map, 3 d_j for l1; group-l2 is counted with one group an agent."""
    return PROX[penalty] * int(d_j) + (GROUP if penalty == "group-l2" else 0)


def phase_model(
    n: int,
    d_j: int,
    degree: int,
    *,
    prox: bool,
    weighted: bool,
    single: bool,
    penalty: str = "l1",
    method: str = "paper",
) -> dict[str, int]:
    """Operations of one agent in one iteration, by phase; agent 1's dual step is apart (`dual_model`).

    `prox` says whether there is a penalty, and `penalty` which (the paper counts soft thresholding); `weighted` that
    the edges have different weights (a common weight is part of a step); `single` that there is one agent, without v.
    """
    n, d_j, degree = int(n), int(d_j), int(degree)
    fast = method == "fast"
    theta = 2 * n * d_j + d_j + (prox_model(penalty, d_j) if prox else 0) + ((MOVE + FOLLOW) * d_j if fast else 0)
    if single:
        return {"theta": theta, "v": 0, "lambda": n * (2 * d_j + 1) + d_j + ((MOVE + FOLLOW) * n if fast else 0)}
    products = n * degree if weighted else 0
    if fast:
        return {"theta": theta, "v": FAST_V * n, "lambda": n * (2 * d_j + degree + FAST_LAMBDA) + d_j + products}
    return {
        "theta": theta,
        "v": n * (degree + 3) + products,
        "lambda": n * (2 * d_j + degree + 4) + d_j + products,
    }


def is_weighted(network: Network) -> bool:
    """Whether the edges have different weights, so that each neighbour is multiplied by its own."""
    return len(network.weights) > 0 and bool(np.any(network.weights != network.weights[0]))


def dual_model(n: int, loss: str) -> int | None:
    """Operations of agent 1's dual step, 2 n for squared loss; the paper has no figure for the others (None)."""
    return SQUARED_DUAL * int(n) if loss == "squared" else None


def answer_model(n: int, degree: int) -> int:
    """Operations of agent 1's lambda^half and late vector in the fast method, its `degree` neighbours' included."""
    return int(n) * (ANSWER + HEARD * int(degree)) if degree else 0


def doublings(n: int, d_j: int, *, single: bool) -> dict[str, int]:
    """Operations on top where doubling counts as one: u = 2 v+ - v and w = 2 theta+ - theta, both for lambda."""
    return {"theta": 0, "v": 0, "lambda": int(d_j) + (0 if single else int(n))}


@dataclass(frozen=True, eq=False)
class Messages:
    """What is sent in one iteration: each agent sends lambda_j and u_j to each of its neighbours.

    Per agent `numbers[j]` = 2 deg_j n numbers in 2 deg_j messages; per edge 4 n numbers, 2 n each way. In the fast
    method there is one exchange in the place of two.
    """

    n: int
    itemsize: int
    degrees: npt.NDArray[np.int64]
    exchanges: int = EXCHANGES

    @property
    def count(self) -> npt.NDArray[np.int64]:
        """Messages that each agent sends."""
        return self.exchanges * self.degrees

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Numbers that each agent sends, 2 deg_j n."""
        return self.count * self.n

    @property
    def bytes(self) -> npt.NDArray[np.int64]:
        """Bytes that each agent sends."""
        return self.numbers * self.itemsize

    @property
    def edge_numbers(self) -> int:
        """Numbers that cross one edge, both ways together."""
        return 2 * self.exchanges * self.n if self.degrees.size > 1 else 0

    @property
    def edge_bytes(self) -> int:
        return self.edge_numbers * self.itemsize

    @property
    def total_count(self) -> int:
        """Messages of all agents."""
        return int(self.count.sum())

    @property
    def total_numbers(self) -> int:
        return int(self.numbers.sum())

    @property
    def total_bytes(self) -> int:
        return int(self.bytes.sum())


def messages(network: Network, n: int, itemsize: int, method: str = "paper") -> Messages:
    """The messages of one iteration on a network, for n samples stored in `itemsize` bytes each."""
    exchanges = FAST_EXCHANGES if method == "fast" else EXCHANGES
    return Messages(int(n), int(itemsize), np.asarray(network.degrees, dtype=np.int64), exchanges)
