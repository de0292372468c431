"""A problem in memory: the solver's tiles, and the layouts that BLAS likes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.local_steps import LocalSteps
from fdglm_fast.network import Network
from fdglm_fast.problem import Problem
from fdglm_fast.steps import Given, StepSizes, choose_steps

SEED = 0
ROWS_AT_A_TIME = 256

Matrix = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Data:
    """X with standard normal entries and y = X theta + noise, in three layouts of the same numbers."""

    problem: Problem  # of one agent; `with_agents` splits it without a copy
    X: Matrix  # (n, d), a sample a row
    columns: Matrix  # (d, n), a column of X contiguous: the columns of an agent are one block
    y: npt.NDArray[np.float64]
    radius: float  # ||theta||

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])


def make_data(n: int, d: int, dtype: str) -> Data:
    """Draw a problem; float32 holds the rounded numbers of float64, so that both types solve the same one."""
    rng = np.random.default_rng(SEED)
    theta = rng.standard_normal(d) / math.sqrt(d)
    X, y = np.empty((n, d), dtype), np.empty(n)
    for start in range(0, n, ROWS_AT_A_TIME):
        part = rng.standard_normal((min(ROWS_AT_A_TIME, n - start), d))
        X[start : start + len(part)] = part
        y[start : start + len(part)] = part @ theta + 0.1 * rng.standard_normal(len(part))
    problem = Problem.from_arrays(X, y, agents=1)
    return Data(problem, X, np.ascontiguousarray(X.T), y, float(np.linalg.norm(theta)))


def steps_for(data: Data, network: Network) -> StepSizes:
    """The theorem's steps, with the bound sqrt(n) + sqrt(d) + 6 on ||X|| of a normal matrix (but for odds of e^-18)."""
    chi = math.sqrt(data.n) + math.sqrt(data.d) + 6.0
    problem = data.problem.with_agents(network.agents)
    return choose_steps(problem, network, Given(chi=chi, R=data.radius, force=True), None)


def fast_steps_for(data: Data, network: Network) -> LocalSteps:
    """The steps of the fast method, with the same kind of bound on the norms of the blocks."""
    return normal_local_steps(data.n, data.d, data.d, network)


def normal_local_steps(n: int, d: int, columns: int, network: Network) -> LocalSteps:
    """They do not depend on the draw; `columns` of the d are here."""
    m = network.agents
    norm = math.sqrt(n) + math.sqrt(d / m) + 6.0
    return LocalSteps(np.ones(columns), np.full(m, norm), 2.0 * network.weighted_degrees, norm)


def ordinary_duals(shape: tuple[int, int]) -> Matrix:
    """A lambda (m, n) of ordinary size to time with, instead of the zeros of the start.

    Far from agent 1 the first iterations hold numbers so small that arithmetic on them is many times slower.
    """
    period = 8191  # a prime: no two agents get the same numbers
    return np.resize(np.random.default_rng(SEED).standard_normal(period), shape)
