"""The rival: the paper's iteration as a careful NumPy user writes it, for squared loss without a penalty.

Everything that is large is allocated once and updated in place; the steps t = tau/n and s = sigma/n are folded into
the Laplacian and into w; X is touched by two BLAS products per agent (`passes.py`), lambda and v by the exchange
(`exchange.py`). BLAS has as many threads as the solver; the rest of NumPy has one.

    theta+ = theta - t g;   w = s (2 theta+ - theta)
    exchange:  v+ = v - t L lambda,  lambda += s L (2 v+ - v)
    passes:    lambda_j += X_j w_j;  lambda_1 = (lambda_1 - s y)/(1 + s);  g_j = X_j' lambda_j
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_bench.exchange import Exchange
from fdglm_bench.passes import Blocks, Passes
from fdglm_fast.network import Network
from fdglm_fast.steps import StepSizes


@dataclass(frozen=True)
class Variant:
    """One way of writing the iteration: how X is laid out and gone through, how L is applied and to how much."""

    layout: str = "columns"
    batch: int = 1
    product: str | None = None  # None: one agent, nothing to exchange
    chunk: int = 0

    def describe(self) -> dict[str, Any]:
        """For the JSON report."""
        return {"layout": self.layout, "batch": self.batch, "product": self.product, "chunk": self.chunk or None}


class NumpyRival:
    """All agents' state, advanced by NumPy; the counterpart of `fdglm_fast.engine.Engine`."""

    def __init__(
        self,
        blocks: Blocks,
        y: npt.NDArray[np.float64],
        offsets: npt.NDArray[np.int64],
        network: Network,
        steps: StepSizes,
        variant: Variant,
    ) -> None:
        m, n, d, dtype = network.agents, len(y), int(offsets[-1]), blocks[0].dtype
        self._t, self._s = steps.tau / n, steps.sigma / n
        self.theta, self.theta_sum = np.zeros(d), np.zeros(d)
        self.lam = np.zeros((m, n), dtype)
        self.v = np.zeros((m if m > 1 else 0, n), dtype)
        self._w, self._g = np.zeros(d, dtype), np.zeros(d, dtype)
        self._shrink = 1.0 / (1.0 + self._s)
        self._pull = (self._s / (1.0 + self._s) * y).astype(dtype)
        self._passes = Passes(blocks, offsets, variant.layout, variant.batch, self.lam, self._w, self._g)
        self._exchange = None
        if variant.product is not None:
            chunk = min(variant.chunk, n)
            self._exchange = Exchange(network, variant.product, chunk, self._t, self._s, self.lam, self.v)

    def advance(self, count: int) -> None:
        """`count` iterations of all agents."""
        for _ in range(count):
            self.update_theta()
            self.exchange()
            self.pass_over_X()

    def update_theta(self) -> None:
        new = self.theta - self._t * self._g
        np.multiply(2.0 * new - self.theta, self._s, out=self._w, casting="same_kind")
        self.theta = new
        self.theta_sum += new

    def exchange(self) -> None:
        if self._exchange is not None:
            self._exchange()

    def pass_over_X(self) -> None:
        self._passes(self._loss_step)

    def _loss_step(self) -> None:
        """lambda_1 = (lambda_1^half - s y)/(1 + s)."""
        first = self.lam[0]
        first *= self._shrink
        first -= self._pull
