"""Several rounds of exchange in an iteration: a polynomial of the Laplacian in the place of the Laplacian.

With the nonzero eigenvalues of L in [a, b], c_1 = (b + a)/(b - a) and c_2 = 2/(b + a),

    P_K(L) = I - T_K(c_1 (I - c_2 L)) / T_K(c_1)

(Chebyshev's T_K) is zero on consensus and has its other eigenvalues within 1/T_K(c_1) of one, for K rounds: agents form
y_1 = c_1 (z - c_2 L z) and y_{k+1} = 2 c_1 (y_k - c_2 L y_k) - y_{k-1} by exchanging y_k with their neighbours, and
z - y_K / T_K(c_1) at the end. Fast on graphs with a small spectral gap, where messages are cheap.

Neither engine plays the rounds: P_K(L) is formed once, and applied like a network in which everybody within K hops is a
neighbour. On ranks a vector goes straight to all ranks that have such an agent. What is counted is what the rounds
would send, and as many again for agent 1's late vector (see `fdglm_fast.kernels.fast_updates`), which has to go as far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import UsageError
from fdglm_fast.network import Network

MOST_GAIN = 1e15  # T_K(c_1), beyond which P_K(L) is a projection to rounding
MOST_AGENTS = 2048  # the polynomial is a full matrix
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gossip:
    """What is in the place of the Laplacian."""

    rounds: int
    matrix: Array  # P_K(L), exactly symmetric, with rows that sum to zero
    largest: float  # no eigenvalue of it is larger


def gossip(network: Network, rounds: int) -> Gossip:
    """P_K(L) of a network; the same bits wherever it is formed, for no product is left to a threaded library."""
    if network.agents > MOST_AGENTS:
        raise UsageError(f"--gossip takes at most {MOST_AGENTS} agents, not {network.agents}.")
    a, b = network.spectral_gap, network.laplacian_norm
    assert a is not None
    L = network.laplacian().tocsr()
    if b - a <= 1e-9 * b:  # complete graph: one round is all there is to gain
        return Gossip(rounds, np.asarray(L.toarray() / b), 1.0)
    c_1, c_2 = (b + a) / (b - a), 2.0 / (b + a)

    def step(z: Array) -> Array:
        return np.asarray(c_1 * (z - c_2 * (L @ z)))

    before = np.eye(network.agents)
    y, t, t_before = step(before), c_1, 1.0
    for _ in range(rounds - 1):
        y, before = 2.0 * step(y) - before, y
        t, t_before = 2.0 * c_1 * t - t_before, t
        if t > MOST_GAIN:
            raise UsageError(f"--gossip {rounds}: on this network fewer rounds are as good as all agents' mean.")
    M = np.eye(network.agents) - y / t
    M = 0.5 * (M + M.T)
    M[np.abs(M) < 1e-14] = 0.0
    np.fill_diagonal(M, 0.0)
    np.fill_diagonal(M, -M.sum(axis=1))
    return Gossip(rounds, np.asarray(M), 1.0 + 1.0 / t)
