"""Converged answers against scikit-learn, SciPy and linear programming, on star, geometric and random graphs.

Smooth losses are run until the optimality residual is 1e-10. On these well-conditioned problems that leaves the last
iterate within 1e-8 of the optimum, and the rival's own tolerance decides what can be asked for. The average forgets
its start like 1/T, and is compared with that in mind. Quantile and absolute loss are linear programs, on which the
method is O(1/T) for good: T = 40 000 there, and three digits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)
from specimens import gaussian_data

from fdglm_fast.network import build_network
from fdglm_fast.problem import Problem
from fdglm_fast.solver import Options, Result, solve
from fdglm_fast.steps import Given
from fdglm_fast.stopping import StopReason

Array = NDArray[np.float64]
AGENTS = 5
GRAPHS = ["star", "rgg:0.6", "er:0.5"]
every_graph = pytest.mark.parametrize("graph", GRAPHS)


class Model(NamedTuple):
    """A loss and a penalty, who else solves it, and how far apart the coefficients may be."""

    loss: str
    penalty: str
    reg: float
    rival: Callable[[Array, Array, float], Array]
    tolerance: float


def coefficients(estimator: Any, X: Array, y: Array) -> Array:
    return np.ravel(estimator.fit(X, y).coef_)


def huber(X: Array, y: Array, reg: float) -> Array:
    """Minimised by SciPy from the formula of the loss, k = 0.7."""

    def objective(theta: Array) -> tuple[float, Array]:
        e = X @ theta - y
        clipped = np.clip(e, -0.7, 0.7)
        return float(np.mean(clipped * e - clipped**2 / 2)), X.T @ clipped / len(y)

    found = minimize(objective, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-10})
    assert np.abs(found.jac).max() < 1e-8
    return np.asarray(found.x)


def squared_hinge(X: Array, y: Array, reg: float) -> Array:
    def objective(theta: Array) -> tuple[float, Array]:
        short = np.maximum(0.0, 1.0 - y * (X @ theta))
        value = np.mean(short**2) + reg / 2 * theta @ theta
        return float(value), -2 * X.T @ (y * short) / len(y) + reg * theta

    found = minimize(objective, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-10})
    assert np.abs(found.jac).max() < 1e-8
    return np.asarray(found.x)


MODELS = {
    "least squares": Model(
        "squared", "none", 0.0, lambda X, y, r: coefficients(LinearRegression(fit_intercept=False), X, y), 1e-8
    ),
    "ridge": Model(
        "squared", "l2", 0.3, lambda X, y, r: coefficients(Ridge(alpha=r * len(y), fit_intercept=False), X, y), 1e-8
    ),
    "lasso": Model(
        "squared",
        "l1",
        0.15,
        lambda X, y, r: coefficients(Lasso(alpha=r, fit_intercept=False, tol=1e-14, max_iter=100_000), X, y),
        1e-7,
    ),
    "elastic net": Model(
        "squared",
        "elastic-net:0.4",
        0.3,
        lambda X, y, r: coefficients(
            ElasticNet(alpha=r, l1_ratio=0.4, fit_intercept=False, tol=1e-14, max_iter=100_000), X, y
        ),
        1e-7,
    ),
    "nonnegative least squares": Model(
        "squared",
        "nonneg",
        0.0,
        lambda X, y, r: coefficients(LinearRegression(fit_intercept=False, positive=True), X, y),
        1e-8,
    ),
    "huber": Model("huber:0.7", "none", 0.0, huber, 1e-6),
    "logistic with l2": Model(
        "logistic",
        "l2",
        0.05,
        lambda X, y, r: coefficients(
            LogisticRegression(C=1 / (r * len(y)), fit_intercept=False, solver="newton-cholesky", tol=1e-12), X, y
        ),
        1e-7,
    ),
    "squared hinge with l2": Model("squared-hinge", "l2", 0.05, squared_hinge, 1e-6),
    "poisson": Model(
        "poisson",
        "none",
        0.0,
        lambda X, y, r: coefficients(
            PoissonRegressor(alpha=r, fit_intercept=False, solver="newton-cholesky", tol=1e-12), X, y
        ),
        1e-7,
    ),
    "poisson with l2": Model(
        "poisson",
        "l2",
        0.1,
        lambda X, y, r: coefficients(
            PoissonRegressor(alpha=r, fit_intercept=False, solver="newton-cholesky", tol=1e-12), X, y
        ),
        1e-7,
    ),
}


@functools.cache
def rival_of(name: str) -> tuple[Array, Array, Array]:
    """X, y and the rival's coefficients."""
    model = MODELS[name]
    X, y = gaussian_data(model.loss, 120, 8, seed=1)
    return X, y, model.rival(X, y, model.reg)


def run(model: Model, X: Array, y: Array, graph: str, options: Options) -> Result:
    problem = Problem.from_arrays(X, y, agents=AGENTS, loss=model.loss, penalty=model.penalty, reg=model.reg)
    return solve(problem, build_network(graph, AGENTS, seed=1), options=options)


@every_graph
@pytest.mark.parametrize("name", MODELS)
def test_smooth_losses(name: str, graph: str) -> None:
    """Coefficients to the rival's tolerance, exact zeros where it has them, and the average on its way."""
    model, (X, y, expected) = MODELS[name], rival_of(name)
    options = Options(iterations=60_000, tol=1e-10, record="log:2", steps=Given(rule="tight"), threads=1)
    result = run(model, X, y, graph, options)
    assert result.stop_reason is StopReason.TOLERANCE
    assert np.abs(result.theta_last - expected).max() <= model.tolerance
    assert np.array_equal(result.theta_last == 0, np.abs(expected) < 1e-9)
    # theta_bar - theta_hat is the sum of the distances on the way over T: a few units of |theta_hat| to forget
    distance = np.abs(result.theta_average - expected).max()
    assert distance <= 200 / result.iterations * np.abs(expected).max()


def test_some_coefficients_are_zero_in_these_problems() -> None:
    """Otherwise zeros would not be compared."""
    for name in ("lasso", "elastic net", "nonnegative least squares"):
        assert 0 < (np.abs(rival_of(name)[2]) < 1e-9).sum() < 8


def pinball(theta: Array, X: Array, y: Array, q: float) -> float:
    r = y - X @ theta
    return float(np.mean(np.maximum(q * r, (q - 1) * r)))


def least_absolute(X: Array, y: Array) -> Array:
    """min sum(t) subject to -t <= X theta - y <= t."""
    n, d = X.shape
    eye = np.eye(n)
    bounds = [(None, None)] * d + [(0, None)] * n
    rows, right = np.block([[X, -eye], [-X, -eye]]), np.concatenate([y, -y])
    found = linprog(np.append(np.zeros(d), np.ones(n)), A_ub=rows, b_ub=right, bounds=bounds)
    assert found.status == 0
    return np.asarray(found.x[:d])


LINEAR_PROGRAMS: dict[str, tuple[str, float, Callable[[Array, Array], Array]]] = {
    "quantile:0.8": (
        "quantile:0.8",
        0.8,
        lambda X, y: coefficients(QuantileRegressor(quantile=0.8, alpha=0.0, fit_intercept=False), X, y),
    ),
    "quantile:0.25": (
        "quantile:0.25",
        0.25,
        lambda X, y: coefficients(QuantileRegressor(quantile=0.25, alpha=0.0, fit_intercept=False), X, y),
    ),
    "absolute": ("absolute", 0.5, least_absolute),
}


@every_graph
@pytest.mark.parametrize("name", LINEAR_PROGRAMS)
def test_linear_programs(name: str, graph: str) -> None:
    """Objective to 2e-4 of the start's, coefficients of the average to 5e-3, in T = 40 000 iterations."""
    loss, q, rival = LINEAR_PROGRAMS[name]
    X, y = gaussian_data(loss, 60, 5, seed=1)
    expected = rival(X, y)
    options = Options(iterations=40_000, record="every:40000", steps=Given(rule="tight", R=1.0), threads=1)
    result = run(Model(loss, "none", 0.0, huber, 0.0), X, y, graph, options)
    best, start = pinball(expected, X, y, q), pinball(np.zeros(5), X, y, q)
    reached = pinball(result.theta_average, X, y, q)
    assert best - 1e-9 <= reached <= best + 2e-4 * start
    assert np.abs(result.theta_average - expected).max() <= 5e-3
    assert np.abs(expected).max() > 0.1
