"""What is measured at a point, against plain NumPy formulas, and the duality gap against the true suboptimality."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from specimens import LOSSES, PENALTIES, Specimen, specimen

from fdglm_fast.evaluate import Evaluator, Point
from fdglm_fast.network import build_network
from fdglm_fast.problem import Problem
from fdglm_fast.reference import Reference, solve_reference
from fdglm_fast.solver import Options, Result, solve
from fdglm_fast.steps import Given

Array = NDArray[np.float64]
OWNER = np.array([1, 3, 1, 2, 0, 1, 2, 1, 3, 1, 2])
NOT_SMOOTH = ("absolute", "quantile", "hinge")


def network() -> Any:
    return build_network("ring", 4)


@functools.cache
def case_of(loss: str, penalty: str) -> Specimen:
    """70 samples are three tiles, the last with 6 of them; the columns are scattered."""
    return specimen(loss, penalty, network(), shape=(70, 11), owner=OWNER, seed=5)


# ------------------------------------------------------------------------------ the formulas, in NumPy


def loss_values(loss: Any, z: Array, y: Array) -> Array:
    name, p = loss[0], loss[-1]
    e = z - y
    table = {
        "squared": lambda: e**2 / 2,
        "huber": lambda: np.where(np.abs(e) <= p, e**2 / 2, p * np.abs(e) - p * p / 2),
        "absolute": lambda: np.abs(e),
        "quantile": lambda: np.maximum(-p * e, (1 - p) * e),
        "logistic": lambda: np.logaddexp(0.0, -y * z),
        "hinge": lambda: np.maximum(0.0, 1 - y * z),
        "squared-hinge": lambda: np.maximum(0.0, 1 - y * z) ** 2,
        "poisson": lambda: np.exp(z) - y * z,
    }
    return np.asarray(table[name]())


def loss_slopes(loss: Any, z: Array, y: Array) -> Array:
    name, p = loss[0], loss[-1]
    e = z - y
    table = {
        "squared": lambda: e,
        "huber": lambda: np.clip(e, -p, p),
        "absolute": lambda: np.sign(e),
        "quantile": lambda: np.where(e > 0, 1 - p, -p),
        "logistic": lambda: -y / (1 + np.exp(y * z)),
        "hinge": lambda: np.where(y * z < 1, -y, 0.0),
        "squared-hinge": lambda: -2 * y * np.maximum(0.0, 1 - y * z),
        "poisson": lambda: np.exp(z) - y,
    }
    return np.asarray(table[name]())


def loss_conjugates(loss: Any, lam: Array, y: Array) -> Array:
    """sup_z lam z - loss(z), for lam inside the domain."""
    name = loss[0]
    p = -y * lam  # in [0, 1] for the logistic loss
    table = {
        "squared": lambda: lam**2 / 2 + lam * y,
        "huber": lambda: lam**2 / 2 + lam * y,
        "absolute": lambda: lam * y,
        "quantile": lambda: lam * y,
        "logistic": lambda: p * np.log(p) + (1 - p) * np.log(1 - p),
        "hinge": lambda: lam * y,
        "squared-hinge": lambda: lam * y + lam**2 / 4,
        "poisson": lambda: (lam + y) * np.log(lam + y) - (lam + y),
    }
    return np.asarray(table[name]())


def dual_prox(loss: Any, a: Array, y: Array) -> Array:
    """prox_{loss*}(a) for the losses that are not smooth."""
    if loss[0] == "hinge":
        return np.clip(a - y, np.minimum(-y, 0), np.maximum(-y, 0))
    low, high = (-1.0, 1.0) if loss[0] == "absolute" else (-loss[1], 1 - loss[1])
    return np.clip(a - y, low, high)


def group_columns(penalty: Any) -> list[NDArray[np.intp]]:
    groups = np.array(penalty[2])
    return [np.flatnonzero(groups == g) for g in np.unique(groups)]


def penalty_value(penalty: Any, t: Array) -> float:
    name = penalty[0]
    if name == "l1":
        return float(penalty[1] * np.abs(t).sum())
    if name == "l2":
        return float(penalty[1] / 2 * t @ t)
    if name == "elastic-net":
        return float(penalty[1] * (penalty[2] * np.abs(t).sum() + (1 - penalty[2]) / 2 * t @ t))
    if name == "group-l2":
        return float(penalty[1] * sum(math.sqrt(len(g)) * np.linalg.norm(t[g]) for g in group_columns(penalty)))
    if name == "nonneg":
        return 0.0 if (t >= 0).all() else math.inf
    if name == "box":
        return 0.0 if ((penalty[1] <= t) & (t <= penalty[2])).all() else math.inf
    return 0.0


def prox(penalty: Any, x: Array, eta: float) -> Array:
    name = penalty[0]
    if name == "l1":
        return np.sign(x) * np.maximum(np.abs(x) - eta * penalty[1], 0)
    if name == "l2":
        return x / (1 + eta * penalty[1])
    if name == "elastic-net":
        soft = np.sign(x) * np.maximum(np.abs(x) - eta * penalty[1] * penalty[2], 0)
        return np.asarray(soft / (1 + eta * penalty[1] * (1 - penalty[2])))
    if name == "group-l2":
        out = x.copy()
        for g in group_columns(penalty):
            out[g] *= max(0.0, 1 - eta * penalty[1] * math.sqrt(len(g)) / np.linalg.norm(x[g]))
        return out
    if name == "nonneg":
        return np.maximum(x, 0)
    return np.clip(x, penalty[1], penalty[2]) if name == "box" else x


def penalty_conjugate(penalty: Any, c: Array) -> tuple[float, float]:
    """(alpha, r*(alpha c)) for the largest alpha in [0, 1] that keeps r* finite."""
    name = penalty[0]
    if name == "l1":
        return min(1.0, penalty[1] / np.abs(c).max()), 0.0
    if name == "group-l2":
        sizes = [np.linalg.norm(c[g]) / (penalty[1] * math.sqrt(len(g))) for g in group_columns(penalty)]
        return min(1.0, 1 / float(max(sizes))), 0.0
    if name == "l2":
        return 1.0, float(c @ c) / (2 * penalty[1])
    if name == "elastic-net":
        over = np.maximum(np.abs(c) - penalty[1] * penalty[2], 0)
        return 1.0, float(over @ over) / (2 * penalty[1] * (1 - penalty[2]))
    return 1.0, float(np.maximum(penalty[1] * c, penalty[2] * c).sum())  # box


def expected_point(case: Specimen, theta: Array, lam: Array | None) -> tuple[float, float, float]:
    """Objective, residual and gap at theta; `lam` for losses that are not smooth. The gap is NaN without a formula."""
    X, y, n = case.X, case.y, len(case.y)
    chi = float(np.linalg.norm(X, 2))
    eta = n / chi**2
    lam_0 = loss_slopes(case.loss, np.zeros(n), y)
    used = loss_slopes(case.loss, X @ theta, y) if lam is None else lam
    c = X.T @ used / n
    objective = float(loss_values(case.loss, X @ theta, y).mean()) + penalty_value(case.penalty, theta)
    away = float(np.linalg.norm(theta - prox(case.penalty, theta - eta * c, eta)))
    residual = away / (eta * chi * float(np.linalg.norm(lam_0)) / n)
    if lam is not None:
        off = float(np.linalg.norm(lam - dual_prox(case.loss, lam + X @ theta, y)))
        residual = max(residual, off / float(np.linalg.norm(lam_0)))
    if case.penalty[0] in ("none", "nonneg"):
        return objective, residual, math.nan
    alpha, conjugate = penalty_conjugate(case.penalty, -c)
    gap = objective + float(loss_conjugates(case.loss, alpha * used, y).mean()) + conjugate
    return objective, residual, gap


def measured(case: Specimen, theta: Array, lam: Array | None) -> Point:
    problem = case.problem
    evaluator = Evaluator(problem, float(np.linalg.norm(case.X, 2)))
    duals = None
    if lam is not None:
        tiled = np.zeros_like(problem.tiles.y)
        tiled.reshape(-1)[: len(lam)] = lam
        duals = [tiled]
    return evaluator.measure([problem.in_agent_order(theta)], duals)[0]


# ------------------------------------------------------------------------------------------- the tests


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_measurements_are_the_formulas(loss: str, penalty: str) -> None:
    case = case_of(loss, penalty)
    rng = np.random.default_rng(1)
    theta = prox(case.penalty, rng.normal(0.0, 0.3, 11), 1.0)
    lam = None
    if loss.split(":")[0] in NOT_SMOOTH:  # a point inside the domain of loss*, not the one that belongs to theta
        lam = dual_prox(case.loss, rng.normal(0.0, 1.0, 70), case.y)
    objective, residual, gap = expected_point(case, theta, lam)
    point = measured(case, theta, lam)
    assert point.objective == pytest.approx(objective, rel=1e-12)
    assert point.residual == pytest.approx(residual, rel=1e-9)
    assert residual > 1e-2
    if math.isnan(gap):
        assert point.gap is None
    else:
        assert point.gap == pytest.approx(gap, rel=1e-9)
        assert gap > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_predictions_and_the_objective_at_zero(loss: str) -> None:
    case = case_of(loss, "l2")
    evaluator = Evaluator(case.problem)
    theta = np.random.default_rng(2).standard_normal(11)
    expected = case.X @ theta
    assert evaluator.predictions(case.problem.in_agent_order(theta)) == pytest.approx(expected, rel=1e-12)
    at_zero = float(loss_values(case.loss, np.zeros(70), case.y).mean())
    assert evaluator.objective_at_zero() == pytest.approx(at_zero, rel=1e-13)


def test_several_points_at_once() -> None:
    """Average and last iterate are measured in one pass: each gets its own numbers."""
    case = case_of("logistic", "l1")
    evaluator = Evaluator(case.problem, 3.0)
    points = [np.zeros(11), np.full(11, 0.1), np.arange(11.0)]
    assert evaluator.measure(points, None) == [evaluator.measure([p], None)[0] for p in points]


def test_float32_data_are_measured_in_double_precision() -> None:
    case = specimen("squared", "l2", network(), shape=(200, 11), dtype=np.float32)
    theta = np.random.default_rng(3).standard_normal(11)
    objective, residual, gap = expected_point(case, theta, None)
    point = measured(case, theta, None)
    assert point.objective == pytest.approx(objective, rel=1e-13)
    assert (point.residual, point.gap) == pytest.approx((residual, gap), rel=1e-5)


def test_a_point_outside_a_constraint_has_no_gap() -> None:
    case = case_of("squared", "box:-0.02:0.03")
    point = measured(case, np.full(11, 0.1), None)
    assert point.objective == math.inf and point.gap is None


def test_the_residual_vanishes_at_the_optimum_and_nowhere_near() -> None:
    case = case_of("logistic", "elastic-net:0.3")
    best = reference_of(case).theta
    assert measured(case, best, None).residual < 1e-9
    assert measured(case, best + 1e-3, None).residual > 1e-4


# -------------------------------------------------------------------------------------- the duality gap


def reference_of(case: Specimen) -> Reference:
    problem = case.problem
    groups = np.array(case.penalty[2]) if case.penalty[0] == "group-l2" else None
    return solve_reference(case.X, problem.response, problem.loss, problem.penalty, groups)


@functools.cache
def run_of(loss: str, penalty: str) -> Result:
    case = case_of(loss, penalty)
    options = Options(iterations=3000, record="log:25", steps=Given(rule="tight"), threads=1)
    return solve(case.problem, case.network, reference=reference_of(case), options=options)


@pytest.mark.parametrize("penalty", ["l1", "l2", "elastic-net:0.3", "group-l2", "box:-0.02:0.03"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gap_is_never_below_the_suboptimality(loss: str, penalty: str) -> None:
    result = run_of(loss, penalty)
    assert result.reference is not None
    best = result.reference.objective
    slack = 1e-10 * (abs(best) + result.objective_at_zero)  # how well the reference knows the minimum
    claimed = 0
    for record in result.trace:
        for objective, gap in (
            (record.objective_average, record.gap_average),
            (record.objective_last, record.gap_last),
        ):
            if gap is not None:
                assert gap >= objective - best - slack
                claimed += 1
    assert claimed >= len(result.trace)


@pytest.mark.parametrize("loss", ["squared", "huber:0.7", "logistic", "squared-hinge", "poisson"])
@pytest.mark.parametrize("penalty", ["l1", "l2", "elastic-net:0.3", "group-l2", "box:-0.02:0.03"])
def test_the_gap_closes(loss: str, penalty: str) -> None:
    """A bound that stayed far above would be of no use: it falls with the objective."""
    result = run_of(loss, penalty)
    gaps = [g for record in result.trace if (g := record.gap_last) is not None]
    assert gaps[-1] < 1e-3 * max(gaps[0], result.objective_at_zero)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_gap_is_claimed_without_a_penalty(loss: str) -> None:
    case = case_of(loss, "none")
    result = solve(case.problem, case.network, options=Options(iterations=30, record="every:5", threads=1))
    assert all(record.gap_average is None and record.gap_last is None for record in result.trace)


def test_no_relative_error_where_the_start_is_outside_the_constraint() -> None:
    """(L_t - L*)/(L_0 - L*) with L_0 infinite would be 0 from the first iteration on."""
    case = case_of("squared", "none")
    problem = Problem.from_arrays(case.X, case.y, agents=4, owner=OWNER, penalty="box:0.1:0.5")
    best = solve_reference(case.X, case.y, problem.loss, problem.penalty)
    result = solve(problem, case.network, reference=best, options=Options(iterations=50, threads=1))
    assert result.objective_at_zero == math.inf
    assert math.isfinite(result.trace[-1].objective_last)
    assert all(r.relative_error_average is None and r.relative_error_last is None for r in result.trace)
