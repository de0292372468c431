"""Designs that others would call degenerate, and numbers at the edge of their type: right answers, or a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from specimens import LOSSES, Specimen, response
from test_oracle import assert_close

from fdglm_fast.engine import Engine
from fdglm_fast.errors import DataError
from fdglm_fast.evaluate import Evaluator
from fdglm_fast.network import build_network
from fdglm_fast.problem import Problem
from fdglm_fast.reference import solve_reference
from fdglm_fast.solver import Options, Result, solve
from fdglm_fast.steps import Given, choose_steps
from fdglm_fast.stopping import FINITE_EVERY, StopReason

rng = np.random.default_rng(7)
NORMAL = rng.standard_normal((30, 6))
DESIGNS: dict[str, Any] = {
    "badly scaled": NORMAL * 10.0 ** np.arange(-4, 8, 2),
    "rank deficient": NORMAL[:, :2] @ rng.standard_normal((2, 6)),
    "constant column": np.column_stack([NORMAL[:, :4], np.ones(30), np.full(30, -2.0)]),
    "zero column": np.column_stack([NORMAL[:, :4], np.zeros(30), NORMAL[:, 5]]),
    "duplicated columns": NORMAL[:, [0, 1, 0, 2, 1, 0]],
    "more columns than rows": rng.standard_normal((5, 13)),
    "one sample": rng.standard_normal((1, 6)),
    "one feature": rng.standard_normal((30, 1)),
    "one number": np.array([[2.0]]),
    "nothing but zeros": np.zeros((8, 4)),
}


def problem_of(X: Any, loss: str = "squared", agents: int | None = None, **model: Any) -> tuple[Problem, Any]:
    """A problem with blocks of one column, if not otherwise, and its response."""
    y = response(loss, X @ np.ones(X.shape[1]) / X.shape[1], np.random.default_rng(1))
    return Problem.from_arrays(X, y, agents=agents or X.shape[1], loss=loss, **model), y


@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic", "poisson"])
@pytest.mark.parametrize("design", DESIGNS)
def test_iterates_of_the_oracle(design: str, loss: str) -> None:
    X = DESIGNS[design]
    if loss == "logistic" and len(X) == 1:
        pytest.skip("one sample has one class")
    if loss == "poisson" and design == "badly scaled":
        X = X / 1e4  # the oracle's plain exp would overflow
    problem, y = problem_of(X, loss, penalty="l1", reg=0.01)
    network = build_network("ring" if problem.agents > 2 else "complete", problem.agents)
    case = Specimen(X, y, problem, network, LOSSES[loss], ("l1", 0.01))
    steps = choose_steps(problem, network, Given(rule="tight", R=1.0), None)
    record = case.naive_run(steps.sigma, steps.tau, 25)[-1]
    engine = Engine(problem, network, steps)
    engine.advance(25)
    scale = max(np.abs(record.theta).max(), 1e-300)
    assert_close(engine.last, record.theta, design, 10 * scale)
    assert_close(engine.average, record.theta_bar, design, 10 * scale)


def converged(problem: Problem, R: float, iterations: int = 20000) -> Result:
    network = build_network("complete", problem.agents)
    options = Options(iterations=iterations, record=f"every:{iterations}", steps=Given(rule="tight", R=max(R, 1e-3)))
    return solve(problem, network, options=options)


@pytest.mark.parametrize("design", [name for name in DESIGNS if name != "badly scaled"])
def test_least_squares_reach_the_minimum(design: str) -> None:
    """The last iterate's objective is that of NumPy's least squares, whatever the rank."""
    X = DESIGNS[design]
    problem, y = problem_of(X)
    best, *_ = np.linalg.lstsq(X, y, rcond=None)
    minimum = float(((X @ best - y) ** 2).sum() / (2 * len(y)))
    end = converged(problem, float(np.linalg.norm(best))).trace[-1]
    assert end.objective_last == pytest.approx(minimum, abs=1e-6 * problem_scale(y))
    assert solve_reference(X, y, problem.loss, problem.penalty).objective == pytest.approx(minimum, abs=1e-12)


def problem_scale(y: Any) -> float:
    return float((y**2).sum() / (2 * len(y))) + 1e-300


def test_badly_scaled_columns_have_a_right_reference_and_a_true_report() -> None:
    """Columns of 1e-4 to 1e6 converge slowly; what is reported of the way is true, and the reference is the minimum."""
    X = DESIGNS["badly scaled"]
    problem, y = problem_of(X)
    best, *_ = np.linalg.lstsq(X, y, rcond=None)
    minimum = float(((X @ best - y) ** 2).mean() / 2)
    reference = solve_reference(X, y, problem.loss, problem.penalty)
    assert reference.objective == pytest.approx(minimum, rel=1e-9)
    result = converged(problem, float(np.linalg.norm(best)), 500)
    measured = float(((X @ result.theta_last - y) ** 2).mean() / 2)
    assert result.trace[-1].objective_last == pytest.approx(measured, rel=1e-9) and measured >= minimum * (1 - 1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["squared", "huber:0.7", "absolute"])
def test_a_response_of_zeros_has_zero_coefficients(loss: str, dtype: Any) -> None:
    problem = Problem.from_arrays(NORMAL.astype(dtype), np.zeros(30), agents=3, loss=loss)
    result = solve(problem, build_network("path", 3), options=Options(iterations=50))
    assert not result.theta_average.any() and not result.theta_last.any()
    assert result.trace[-1].objective_last == 0.0


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared-hinge"])
def test_labels_of_one_class_are_refused(loss: str) -> None:
    with pytest.raises(DataError, match="two classes"):
        Problem.from_arrays(NORMAL, np.zeros(30), agents=2, loss=loss)


def test_counts_of_zero_with_a_penalty() -> None:
    """exp(z) alone has no minimum; with l2 it has one, where the gradient vanishes."""
    problem = Problem.from_arrays(NORMAL, np.zeros(30), agents=2, loss="poisson", penalty="l2", reg=0.5)
    theta = converged(problem, 1.0, 5000).theta_last
    gradient = NORMAL.T @ np.exp(NORMAL @ theta) / 30 + 0.5 * theta
    assert np.abs(gradient).max() < 1e-8


# --- large numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss, penalty", [("squared", "none"), ("logistic", "none"), ("poisson", "box:-64:64")])
def test_units_are_immaterial(loss: str, penalty: str, dtype: Any) -> None:
    """With columns 1024 times as large, all of theta is 1024 times smaller, to the last bit."""
    large, found = 1024.0, []
    y = response(loss, NORMAL @ np.ones(6) / 6, np.random.default_rng(1))
    for scale in (1.0, large):
        spec = penalty if scale == 1.0 else penalty.replace("64", repr(64 / large))
        problem = Problem.from_arrays((NORMAL * scale).astype(dtype), y, loss=loss, penalty=spec)
        steps = Given(chi=8.0 * scale, R=1.0 / scale, force=True)
        found.append(solve(problem, options=Options(iterations=300, steps=steps)))
    assert (large * found[1].theta_last).tobytes() == found[0].theta_last.tobytes()
    assert (large * found[1].theta_average).tobytes() == found[0].theta_average.tobytes()
    assert np.isfinite(found[0].trace[-1].objective_last) and np.abs(found[0].theta_last).max() > 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_objectives_at_predictions_of_a_thousand(dtype: Any) -> None:
    """x theta = 1000 and -1000: log(1 + exp) is linear or zero there, exp is zero or infinite, and nobody warns."""
    X = np.array([[1000.0], [-1000.0], [1000.0], [1.0]]).astype(dtype)
    logistic = Problem.from_arrays(X, [1.0, 0.0, 0.0, 1.0], loss="logistic")
    (point,) = Evaluator(logistic, 1.0).measure([np.ones(1)], None)
    assert point.objective == pytest.approx((1000.0 + np.log1p(np.exp(-1.0))) / 4, rel=1e-12)
    poisson = Problem.from_arrays(X, [0.0, 2.0, 0.0, 1.0], loss="poisson")
    minus, plus = Evaluator(poisson, 1.0).measure([-np.ones(1), np.ones(1)], None)
    assert minus.objective == plus.objective == np.inf  # a row of 1000 is on either side
    one_sided = Problem.from_arrays(X[1:2], [2.0], loss="poisson")
    (point,) = Evaluator(one_sided, 1.0).measure([np.ones(1)], None)
    assert point.objective == 2000.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_a_row_a_thousand_times_the_others(loss: str, dtype: Any) -> None:
    """Its prediction is near 1000 on the way and at the end; every iterate is a number, and the objective falls."""
    X = NORMAL.copy()
    X[3] *= -1000.0
    y = response(loss, X @ np.ones(6) / 6, np.random.default_rng(1))
    y[3] = (1.0 if X[3].sum() > 0 else -1.0) if loss == "logistic" else 0.0
    problem = Problem.from_arrays(X.astype(dtype), y, agents=3, loss=loss, penalty="l2", reg=1e-3)
    options = Options(iterations=3000, record="every:500", steps=Given(R=1.0))
    result = solve(problem, build_network("path", 3), options=options)
    assert result.stop_reason is StopReason.ITERATIONS and np.isfinite(result.theta_last).all()
    assert result.trace[-1].objective_average < result.objective_at_zero


def test_logistic_with_a_large_row_against_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    X = NORMAL.copy()
    X[3] *= 1000.0
    y = response("logistic", X @ np.ones(6) / 6, np.random.default_rng(1))
    problem = Problem.from_arrays(X, y, loss="logistic", penalty="l2", reg=0.01)
    reference = solve_reference(X, y, problem.loss, problem.penalty)
    rival = LogisticRegression(C=1 / (30 * 0.01), fit_intercept=False, tol=1e-12, max_iter=10000, solver="newton-cg")
    theta = rival.fit(X, y).coef_[0]
    assert np.abs(X @ theta).max() > 100
    (point,) = Evaluator(problem, 1.0).measure([theta], None)
    assert reference.objective <= point.objective * (1 + 1e-12)
    np.testing.assert_allclose(reference.theta, theta, rtol=0, atol=1e-4 * np.abs(theta).max())


# --- breakdown --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["squared", "huber:0.7", "absolute"])
def test_divergence_is_noticed_within_a_hundred_iterations(loss: str, dtype: Any, monkeypatch: Any) -> None:
    problem, _ = problem_of(NORMAL.astype(dtype), loss, agents=3)
    network = build_network("path", 3)
    ends: list[int] = []
    advance = Engine.advance

    def counted(engine: Engine, count: int) -> None:
        advance(engine, count)
        ends.append(engine.iteration)

    monkeypatch.setattr(Engine, "advance", counted)
    steps = Given(sigma=100.0, tau=100.0, R=1.0, force=True)
    result = solve(problem, network, options=Options(iterations=10**6, record="every:1000000", steps=steps))
    assert result.stop_reason in (StopReason.DIVERGED, StopReason.NOT_FINITE)
    assert ends[-1] <= result.iterations + FINITE_EVERY and np.isfinite(result.theta_last).all()
    engine = Engine(problem, network, result.steps)
    while np.abs(engine.state.theta).max() <= 1e8:  # when it happened
        advance(engine, 1)
    assert ends[-1] <= engine.iteration + FINITE_EVERY
