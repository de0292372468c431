"""The centralised answer: against other libraries, against its optimality conditions, and on awkward data.

Objectives and optimality conditions are written out again here, without the package's formulas.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize

from fdglm_fast.errors import DataError, NumericalError
from fdglm_fast.losses import parse_loss
from fdglm_fast.penalties import parse_penalty
from fdglm_fast.reference import Reference, solve_reference
from fdglm_fast.reference.active_set import ActiveSet
from fdglm_fast.reference.attained import _has_recession, _is_recession
from fdglm_fast.reference.certificate import duality_gap
from fdglm_fast.reference.design import Design
from fdglm_fast.reference.linear import ScaledCholesky
from fdglm_fast.reference.solve import _objective

Array = NDArray[np.float64]

SMOOTH = ["squared", "huber:0.5", "logistic", "squared-hinge", "poisson"]
KINKED = ["absolute", "quantile:0.9", "hinge"]
PENALTIES = [
    ("none", 0.0),
    ("l1", 0.05),
    ("l2", 0.1),
    ("elastic-net:0.4", 0.1),
    ("group-l2", 0.05),
    ("nonneg", 0.0),
    ("box:-0.2:0.3", 0.0),
    ("box:0.1:0.3", 0.0),
]
GROUPS = np.array([2, 0, 0, 1, 2, 3, 3, 1, 2])

every_loss = pytest.mark.parametrize("loss", SMOOTH + KINKED)
every_penalty = pytest.mark.parametrize(("penalty", "reg"), PENALTIES)


def make(loss: str, n: int = 60, d: int = 9, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    z = X @ (rng.standard_normal(d) * (rng.random(d) < 0.6) / np.sqrt(d))
    if loss in ("logistic", "hinge", "squared-hinge"):
        return X, np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0)
    if loss == "poisson":
        return X, rng.poisson(np.exp(z)).astype(float)
    return X, z + rng.standard_t(3, size=n)


def groups_of(d: int) -> NDArray[np.int64]:
    return np.resize(GROUPS, d) if d < 20 else np.arange(d) % 50


def answer(X: NDArray[np.floating], y: Array, loss: str, penalty: str = "none", reg: float = 0.0) -> Reference:
    groups = groups_of(X.shape[1])
    return solve_reference(X, y, parse_loss(loss), parse_penalty(penalty, reg), groups)


def losses(spec: str, z: Array, y: Array) -> Array:
    name, _, text = spec.partition(":")
    e = z - y
    if name == "squared":
        return e**2 / 2
    if name == "huber":
        k = float(text)
        return np.where(np.abs(e) <= k, e**2 / 2, k * np.abs(e) - k**2 / 2)
    if name in ("absolute", "quantile"):
        up, down = (float(text), 1 - float(text)) if text else (1.0, 1.0)
        return up * np.maximum(-e, 0) + down * np.maximum(e, 0)
    if name == "logistic":
        return np.logaddexp(0, -y * z)
    if name == "poisson":
        return np.exp(z) - y * z
    return np.maximum(0, 1 - y * z) ** (2 if name == "squared-hinge" else 1)


def slope_range(spec: str, z: Array, y: Array) -> tuple[Array, Array]:
    """The subdifferential of each loss, a kink counted as met within 1e-9."""
    name, _, text = spec.partition(":")
    e = z - y
    if name in ("absolute", "quantile", "hinge"):
        up, down = (float(text), 1 - float(text)) if text else (1.0, 1.0)
        ups, downs = np.full_like(y, up), np.full_like(y, down)
        if name == "hinge":
            ups, downs = (y > 0).astype(float), (y < 0).astype(float)
        return np.where(e > 1e-9, downs, -ups), np.where(e < -1e-9, -ups, downs)
    slope = {
        "squared": lambda: e,
        "huber": lambda: np.clip(e, -float(text), float(text)),
        "logistic": lambda: -y / (1 + np.exp(y * z)),
        "squared-hinge": lambda: -2 * y * np.maximum(0, 1 - y * z),
        "poisson": lambda: np.exp(z) - y,
    }[name]()
    return slope, slope


def penalty_value(spec: str, reg: float, t: Array) -> float:
    name, *numbers = spec.split(":")
    if name == "l1":
        return reg * np.abs(t).sum()
    if name == "l2":
        return reg / 2 * (t @ t)
    if name == "elastic-net":
        a = float(numbers[0])
        return reg * (a * np.abs(t).sum() + (1 - a) / 2 * (t @ t))
    if name == "group-l2":
        groups = groups_of(len(t))
        return reg * sum(np.sqrt((groups == g).sum()) * np.linalg.norm(t[groups == g]) for g in np.unique(groups))
    return 0.0


def into_domain(spec: str, t: Array) -> Array:
    if spec == "nonneg":
        return np.maximum(t, 0)
    if spec.startswith("box"):
        return np.clip(t, *map(float, spec.split(":")[1:]))
    return t


def objective(X: Array, y: Array, loss: str, penalty: str, reg: float, t: Array) -> float:
    return losses(loss, X @ t, y).mean() + penalty_value(penalty, reg, t)


def penalty_range(spec: str, reg: float, t: Array) -> tuple[Array, Array]:
    """Bounds on each coordinate of the subdifferential of r; for a group at 0 the box around the ball."""
    name, *numbers = spec.split(":")
    low, high = np.zeros_like(t), np.zeros_like(t)
    if name in ("l1", "elastic-net"):
        ratio = float(numbers[0]) if numbers else 1.0
        flat = reg * ratio * np.sign(t) + reg * (1 - ratio) * t
        return np.where(t == 0, -reg * ratio, flat), np.where(t == 0, reg * ratio, flat)
    if name == "l2":
        return reg * t, reg * t
    if name == "group-l2":
        groups = groups_of(len(t))
        for g in np.unique(groups):
            on, weight = groups == g, reg * np.sqrt((groups == g).sum())
            norm = np.linalg.norm(t[on])
            low[on] = weight * t[on] / norm if norm > 0 else -weight
            high[on] = weight * t[on] / norm if norm > 0 else weight
    if name == "nonneg":
        low[t == 0] = -np.inf
    if name == "box":
        low[t == float(numbers[0])], high[t == float(numbers[1])] = -np.inf, np.inf
    return low, high


def violation(X: Array, y: Array, loss: str, penalty: str, reg: float, t: Array) -> float:
    """The least s such that slopes lam exist with -X'lam/n within s of the subdifferential of r."""
    n, d = X.shape
    low, high = slope_range(loss, X @ t, y)
    r_low, r_high = penalty_range(penalty, reg, t)
    if loss in SMOOTH:
        c = -X.T @ low / n
        return float(max(np.max(r_low - c), np.max(c - r_high)))
    rows = [np.hstack((X.T / n, -np.ones((d, 1)))), np.hstack((-X.T / n, -np.ones((d, 1))))]
    right = np.concatenate((-r_low, r_high))
    keep = np.isfinite(right)
    bounds = [*zip(low, high, strict=True), (0, None)]
    cost = np.zeros(n + 1)
    cost[-1] = 1.0
    found = optimize.linprog(cost, np.vstack(rows)[keep], right[keep], bounds=bounds, method="highs")
    assert found.status == 0
    return float(found.fun)


@every_loss
@every_penalty
@pytest.mark.parametrize(("n", "d"), [(60, 9), (12, 18)])
def test_optimality(loss: str, penalty: str, reg: float, n: int, d: int) -> None:
    X, y = make(loss, n, d)
    if n < d and loss in ("logistic", "poisson") and penalty in ("none", "nonneg"):
        pytest.skip("not attained, see below")
    found = answer(X, y, loss, penalty, reg)
    theta = found.theta
    assert found.objective == pytest.approx(objective(X, y, loss, penalty, reg, theta), rel=1e-13, abs=1e-15)
    assert found.norm == np.linalg.norm(theta)
    assert found.residual < (1e-12 if loss in SMOOTH else 1e-10) and found.accuracy < 1e-10
    assert np.array_equal(theta, into_domain(penalty, theta))
    assert violation(X, y, loss, penalty, reg, theta) < 1e-9
    rng = np.random.default_rng(7)
    for size in (1e-1, 1e-3, 1e-5):
        for _ in range(40):
            other = into_domain(penalty, theta + size * rng.standard_normal(d) * (rng.random(d) < 0.5))
            assert objective(X, y, loss, penalty, reg, other) >= found.objective - 1e-13


@every_loss
@every_penalty
def test_gap_bounds_the_error(loss: str, penalty: str, reg: float) -> None:
    """Weak duality at points that are not optimal, from slopes and from the optimum's dual point."""
    X, y = make(loss)
    best = answer(X, y, loss, penalty, reg)
    o = _objective(X, y, parse_loss(loss), parse_penalty(penalty, reg), GROUPS)
    rng = np.random.default_rng(3)
    for size in (1e-6, 1e-2, 0.3):
        theta = into_domain(penalty, best.theta + size * rng.standard_normal(9))
        z = X @ theta
        gap = duality_gap(o, theta, z, o.slopes(z))
        assert gap >= o.value(theta, z) - best.objective - 1e-13


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(("penalty", "reg"), [("l1", 0.01), ("group-l2", 0.01), ("nonneg", 0.0), ("box:-1:0", 0.0)])
def test_many_more_columns_than_rows(loss: str, penalty: str, reg: float) -> None:
    """Only some of the columns are worked on at a time."""
    if loss == "logistic" and penalty == "nonneg":
        pytest.skip("not attained")
    X, y = make(loss, 20, 150)
    found = answer(X, y, loss, penalty, reg)
    assert found.residual < 1e-12 and found.accuracy < 1e-10
    assert violation(X, y, loss, penalty, reg, found.theta) < 1e-11


def test_gap_of_a_large_solution() -> None:
    """The ball of the gap must hold the minimiser: here |D theta| is many times |y|/sqrt(n)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = np.where(X @ np.array([40.0, -30.0, 20.0]) + rng.logistic(size=200) > 0, 1.0, -1.0)
    best = answer(X, y, "logistic")
    assert best.norm > 20.0
    o = _objective(X, y, parse_loss("logistic"), parse_penalty("none"), None)
    for part in (0.6, 0.9, 1.5):
        z = X @ (part * best.theta)
        error = o.value(part * best.theta, z) - best.objective
        assert error <= duality_gap(o, part * best.theta, z, o.slopes(z)) < 1.0


def test_least_squares() -> None:
    X, y = make("squared", 80, 12)
    found = answer(X, y, "squared")
    np.testing.assert_allclose(found.theta, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-11, atol=1e-13)
    assert found.method == "cholesky"
    assert found.objective_at_zero == pytest.approx(y @ y / 160, rel=1e-14)


@pytest.mark.parametrize(("n", "d"), [(80, 12), (12, 30)])
def test_ridge(n: int, d: int) -> None:
    from sklearn.linear_model import Ridge

    X, y = make("squared", n, d)
    other = Ridge(alpha=0.3 * n, fit_intercept=False, solver="svd").fit(X, y)
    np.testing.assert_allclose(answer(X, y, "squared", "l2", 0.3).theta, other.coef_, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(80, 12), (20, 60)])
@pytest.mark.parametrize("ratio", [1.0, 0.3])
def test_lasso_and_elastic_net(n: int, d: int, ratio: float) -> None:
    from sklearn.linear_model import ElasticNet

    X, y = make("squared", n, d)
    other = ElasticNet(alpha=0.1, l1_ratio=ratio, fit_intercept=False, tol=1e-13, max_iter=10**6).fit(X, y)
    found = answer(X, y, "squared", f"elastic-net:{ratio}", 0.1)
    np.testing.assert_allclose(found.theta, other.coef_, atol=1e-7)
    assert np.array_equal(found.theta != 0, other.coef_ != 0)
    if ratio == 1.0:
        assert np.array_equal(found.theta, answer(X, y, "squared", "l1", 0.1).theta)


@pytest.mark.parametrize("k", [0.05, 0.5, 3.0])
def test_huber(k: float) -> None:
    X, y = make("huber", 80, 8)
    spec = f"huber:{k}"
    found = answer(X, y, spec, "l2", 1e-3)

    def value(t: Array) -> tuple[float, Array]:
        gradient = X.T @ np.clip(X @ t - y, -k, k) / 80 + 1e-3 * t
        return objective(X, y, spec, "l2", 1e-3, t), gradient

    other = optimize.minimize(value, np.zeros(8), jac=True, method="BFGS", options={"gtol": 1e-10})
    np.testing.assert_allclose(found.theta, other.x, atol=1e-7)
    assert found.objective <= other.fun + 1e-15


@pytest.mark.parametrize(("loss", "up", "down"), [("quantile:0.9", 0.9, 0.1), ("absolute", 1.0, 1.0)])
@pytest.mark.parametrize("reg", [0.0, 0.05])
def test_quantile(loss: str, up: float, down: float, reg: float) -> None:
    """The linear programme in theta+, theta-, (y - z)+, (z - y)+."""
    X, y = make("quantile", 70, 8)
    cost = np.concatenate((np.full(16, reg), np.full(70, up / 70), np.full(70, down / 70)))
    equal = np.hstack((X, -X, np.eye(70), -np.eye(70)))
    other = optimize.linprog(cost, A_eq=equal, b_eq=y, method="highs")
    found = answer(X, y, loss, "l1", reg)
    assert found.objective == pytest.approx(other.fun, rel=1e-11)
    np.testing.assert_allclose(found.theta, other.x[:8] - other.x[8:16], atol=1e-9)


def test_quantile_is_a_quantile() -> None:
    """A column of ones gives the 90th percentile; scikit-learn's convention of Q."""
    y = np.random.default_rng(0).standard_normal(101)
    assert answer(np.ones((101, 1)), y, "quantile:0.9").theta[0] == pytest.approx(np.sort(y)[90], rel=1e-13)


@pytest.mark.parametrize(("n", "d"), [(80, 8), (20, 40)])
def test_logistic(n: int, d: int) -> None:
    from sklearn.linear_model import LogisticRegression

    X, y = make("logistic", n, d)
    model = LogisticRegression(C=1 / (n * 0.02), fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    found = answer(X, y, "logistic", "l2", 0.02)
    np.testing.assert_allclose(found.theta, model.fit(X, y).coef_[0], rtol=1e-9, atol=1e-11)


def test_poisson() -> None:
    from sklearn.linear_model import PoissonRegressor

    X, y = make("poisson", 80, 8)
    model = PoissonRegressor(alpha=0.02, fit_intercept=False, tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(answer(X, y, "poisson", "l2", 0.02).theta, model.coef_, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("loss", "name"), [("hinge", "hinge"), ("squared-hinge", "squared_hinge")])
def test_support_vectors(loss: str, name: str) -> None:
    from sklearn.svm import LinearSVC

    X, y = make(loss, 70, 6)
    model = LinearSVC(
        loss=name, C=1 / (70 * 0.05), fit_intercept=False, dual=True, tol=1e-11, max_iter=10**6, random_state=0
    )
    found = answer(X, y, loss, "l2", 0.05)
    np.testing.assert_allclose(found.theta, model.fit(X, y).coef_[0], atol=1e-6)
    assert found.objective <= objective(X, y, loss, "l2", 0.05, model.coef_[0]) + 1e-15


def test_nonneg_and_box() -> None:
    X, y = make("squared", 80, 15)
    np.testing.assert_allclose(answer(X, y, "squared", "nonneg").theta, optimize.nnls(X, y)[0], atol=1e-11)
    other = optimize.lsq_linear(X, y, (-0.1, 0.2), method="bvls", tol=1e-14)
    np.testing.assert_allclose(answer(X, y, "squared", "box:-0.1:0.2").theta, other.x, atol=1e-11)


def test_least_norm_when_wide_and_when_columns_repeat() -> None:
    X, y = make("squared", 12, 30)
    np.testing.assert_allclose(answer(X, y, "squared").theta, np.linalg.pinv(X) @ y, rtol=1e-10, atol=1e-12)
    X, y = make("squared", 60, 5)
    doubled = np.hstack((X, X, np.zeros((60, 1))))
    for loss in ("squared", "huber:0.5"):
        single, twice = answer(X, y, loss), answer(doubled, y, loss)
        half = single.theta / 2
        np.testing.assert_allclose(twice.theta, np.concatenate((half, half, [0.0])), rtol=1e-9, atol=1e-12)
        assert "row space" in twice.method


@pytest.mark.parametrize("loss", ["squared", "huber:1000"])
def test_nearly_repeated_columns(loss: str) -> None:
    """The Gram matrix is singular in double precision, X is not. No residual reaches 1000: Huber is quadratic."""
    X, y = make("squared", 60, 5)
    close = np.hstack((X, X[:, :2] + 1e-7 * np.random.default_rng(1).standard_normal((60, 2))))
    found = answer(close, y, loss)
    assert "row space" in found.method and found.norm > 1e5

    def exact(theta: Array) -> float:
        e = close.astype(np.longdouble) @ theta.astype(np.longdouble) - y
        return float((e @ e) / 120)

    # The same space in columns that are not nearly repeated, and so the minimum in a form that can be trusted.
    apart = np.hstack((X, (close[:, 5:].astype(np.longdouble) - X[:, :2]).astype(np.float64) * 1e7))
    best = np.linalg.lstsq(apart, y, rcond=None)[0]
    minimum = ((apart @ best - y) ** 2).mean() / 2
    assert abs(exact(found.theta) - minimum) < 1e-13
    assert abs(found.objective - minimum) < found.accuracy * minimum < 1e-9


@every_loss
@every_penalty
def test_repeated_columns(loss: str, penalty: str, reg: float) -> None:
    X, y = make(loss, 60, 5)
    doubled = np.hstack((X, X[:, :4]))
    found = answer(doubled, y, loss, penalty, reg)
    assert found.accuracy < 1e-10
    assert violation(doubled, y, loss, penalty, reg, found.theta) < 1e-9


@every_loss
@every_penalty
def test_one_column_and_no_signal(loss: str, penalty: str, reg: float) -> None:
    X, y = make(loss, 30, 1)
    grid = into_domain(penalty, np.linspace(-2, 2, 4001))
    found = solve_reference(X, y, parse_loss(loss), parse_penalty(penalty, reg), np.zeros(1, dtype=np.int64))
    values = losses(loss, X * grid, y[:, None]).mean(axis=0)
    values = values + [
        reg * abs(t) if penalty == "group-l2" else penalty_value(penalty, reg, t * np.ones(1)) for t in grid
    ]
    assert found.objective <= values.min() + 1e-14
    assert abs(found.theta[0] - grid[values.argmin()]) < 0.02 or penalty == "none"
    if parse_loss(loss).labels == "real" and not penalty.startswith("box:0.1"):
        silent = answer(X, np.zeros(30), loss, penalty if penalty != "group-l2" else "l1", reg)
        assert silent.objective == 0.0 and silent.theta[0] == 0.0 and silent.accuracy < 1e-15


def test_zero_matrix() -> None:
    X, y = np.zeros((10, 3)), np.arange(10.0)
    for loss in ("squared", "huber:1", "absolute"):
        for penalty, reg in PENALTIES[:-1]:
            found = answer(X, y, loss, penalty, reg)
            assert not found.theta.any() and found.objective == found.objective_at_zero


def test_float32_is_widened_and_repeats_bit_for_bit() -> None:
    for loss in ("squared", "logistic", "hinge"):
        X, y = make(loss)
        narrow = X.astype(np.float32)
        for penalty, reg in (("none", 0.0), ("l1", 0.05), ("group-l2", 0.05)):
            one, two = answer(narrow, y, loss, penalty, reg), answer(narrow.astype(np.float64), y, loss, penalty, reg)
            assert np.array_equal(one.theta, two.theta) and one.objective == two.objective


@pytest.mark.parametrize("loss", ["squared", "huber:0.1", "logistic", "poisson", "squared-hinge"])
@pytest.mark.parametrize(
    ("penalty", "reg"),
    [("l2", 1e-6), ("l1", 1e-5), ("elastic-net:0.5", 1e-5), ("group-l2", 1e-5), ("nonneg", 0.0), ("box:-1:1", 0.0)],
)
def test_nearly_dependent_columns(loss: str, penalty: str, reg: float) -> None:
    """Sums of exponentials: the condition number of X is about 1e16."""
    rng = np.random.default_rng(1)
    X = np.exp(-np.linspace(0, 1, 100)[:, None] * np.linspace(0.5, 40, 30))
    z = 3 * (X[:, 0] - 2 * X[:, 5] + X[:, 20])
    y = z + 0.1 * rng.standard_normal(100)
    if loss == "poisson":
        y = rng.poisson(np.exp(z)).astype(float)
    elif loss in ("logistic", "squared-hinge"):
        y = np.where(z + rng.logistic(size=100) > 0, 1.0, -1.0)
    found = answer(X, y, loss, penalty, reg)
    assert found.residual < 1e-12 and found.accuracy < 1e-10


def test_hopeless_columns_are_an_error() -> None:
    X = np.exp(-np.linspace(0, 1, 300)[:, None] * np.linspace(0.5, 40, 60))
    y = np.random.default_rng(0).standard_normal(300)
    with pytest.raises(NumericalError, match="nearly dependent"):
        answer(X, y, "squared")


@every_loss
@pytest.mark.parametrize("scale", [1e-5, 1e5])
def test_units_do_not_matter(loss: str, scale: float) -> None:
    X, y = make(loss)
    one, other = answer(X, y, loss), answer(X * scale, y, loss)
    assert other.objective == pytest.approx(one.objective, rel=1e-11)
    np.testing.assert_allclose(other.theta * scale, one.theta, rtol=1e-6, atol=1e-8)


def test_weight_zero_is_no_penalty() -> None:
    X, y = make("logistic")
    plain = answer(X, y, "logistic").theta
    for penalty in ("l1", "l2", "elastic-net:0.5", "group-l2"):
        assert np.array_equal(answer(X, y, "logistic", penalty, 0.0).theta, plain)


def test_separable_classes_have_no_minimiser() -> None:
    X, _ = make("logistic", 40, 4)
    apart = np.where(X @ np.array([1.0, -1.0, 0.5, 2.0]) > 0, 1.0, -1.0)
    with pytest.raises(DataError, match=r"not attained.*--penalty l2"):
        answer(X, apart, "logistic")
    assert answer(X, apart, "logistic", "l2", 1e-3).accuracy < 1e-10
    assert answer(X, apart, "squared-hinge").objective < 1e-20
    assert answer(X, apart, "hinge").objective < 1e-12


def test_classes_separable_in_part_have_no_minimiser() -> None:
    """Only the last column, which is 0 where the classes overlap, separates: the objective stays above 0."""
    X, y = make("logistic", 60, 4)
    X[:, 3] = np.where(np.arange(60) < 10, y * np.abs(X[:, 3]), 0.0)
    with pytest.raises(DataError, match="not attained"):
        answer(X, y, "logistic")
    X[0, 3] *= -1.0
    assert answer(X, y, "logistic").residual < 1e-12


def test_nonneg_may_have_no_minimiser() -> None:
    X, y = make("logistic", 40, 4)
    signed = np.abs(X) * y[:, None]
    with pytest.raises(DataError, match="'nonneg' is not attained"):
        answer(signed, y, "logistic", "nonneg")
    assert not answer(-signed, y, "logistic", "nonneg").theta.any()
    problem = parse_loss("logistic"), parse_penalty("nonneg"), None
    assert _has_recession(_objective(signed, y, *problem)) and not _has_recession(_objective(-signed, y, *problem))
    assert _has_recession(_objective(-signed, y, problem[0], parse_penalty("none"), None))


@pytest.mark.parametrize(("loss", "n", "d", "seed"), [("poisson", 6, 8, 3), ("logistic", 20, 30, 4)])
def test_the_linear_programme_finds_a_direction(
    loss: str, n: int, d: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Newton step is allowed to show it, so that only the programme can."""
    monkeypatch.setattr("fdglm_fast.reference.attained._is_recession", lambda *_: False)
    X, y = make(loss, n, d, seed)
    with pytest.raises(DataError, match="'nonneg' is not attained"):
        answer(X, y, loss, "nonneg")


def test_recession_of_nonneg_has_no_negative_part() -> None:
    X, v = np.array([[1.0, -2.0], [2.0, -1.0], [1.0, 1.0]]), np.array([1.0, -0.5])
    z = X @ v
    for penalty, expected in (("none", True), ("nonneg", False)):
        o = _objective(X, np.sign(z), parse_loss("logistic"), parse_penalty(penalty), None)
        assert _is_recession(o, v, z) is expected
        assert not _is_recession(o, -v, -z) and not _is_recession(o, 0 * v, 0 * z)


def test_poisson_may_have_no_minimiser() -> None:
    X, y = make("poisson", 50, 3)
    X[:, 2] = np.where(y == 0, np.abs(X[:, 2]), 0.0)
    with pytest.raises(DataError, match="samples with count 0"):
        answer(X, y, "poisson")
    assert not answer(X, y, "poisson", "nonneg").theta[2]
    with pytest.raises(DataError, match="'nonneg' is not attained"):
        answer(X * np.array([1.0, 1.0, -1.0]), y, "poisson", "nonneg")
    with pytest.raises(DataError, match="not attained"):
        answer(np.ones((5, 1)), np.zeros(5), "poisson")


def test_overflow_is_an_error() -> None:
    X, y = make("poisson")
    with pytest.raises(NumericalError, match="overflows"):
        answer(1e4 * X, y, "poisson", "box:0.1:0.3")


def test_bad_arguments() -> None:
    X, y = make("squared")
    with pytest.raises(DataError, match="row for each response"):
        answer(X, y[:-1], "squared")
    with pytest.raises(DataError, match="group number"):
        solve_reference(X, y, parse_loss("squared"), parse_penalty("group-l2", 0.1))


def test_active_set_alone() -> None:
    """From a far start, against projected descent run to the end."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((40, 25))
    H, g = A.T @ A / 40 + 0.01 * np.eye(25), rng.standard_normal(25)
    for spec, reg in (("l1", 0.3), ("elastic-net:0.5", 0.3), ("nonneg", 0.0), ("box:-0.3:0.5", 0.0)):
        start = into_domain(spec, rng.standard_normal(25))
        t = ActiveSet(H, parse_penalty(spec, reg), start, g + H @ start).minimise()
        low, high = penalty_range(spec, reg, t)
        c = -(g + H @ t)
        assert max(np.max(low - c), np.max(c - high)) < 1e-12


def test_blocks_and_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make("squared", 101, 7)
    weights, columns = np.random.default_rng(0).random(101), np.array([0, 2, 6])
    monkeypatch.setattr("fdglm_fast.reference.design.BLOCK_BYTES", 8 * 7 * 10)
    for matrix in (X, X.astype(np.float32), np.asfortranarray(X)):
        design, wide = Design(matrix), matrix.astype(np.float64)
        np.testing.assert_allclose(design.times(np.arange(7.0)), wide @ np.arange(7.0), rtol=1e-13)
        np.testing.assert_allclose(design.transpose_times(y), wide.T @ y, rtol=1e-12)
        part = wide[:, columns]
        np.testing.assert_allclose(design.gram(weights, columns), part.T @ (weights[:, None] * part), rtol=1e-12)
        assert design.norm == pytest.approx(np.linalg.norm(wide, 2), rel=1e-6)
        basis = design.row_basis()
        np.testing.assert_allclose(basis.T @ basis, np.eye(7), atol=1e-13)
    H = X.T @ X
    factor = ScaledCholesky(H * np.outer(*[10.0 ** np.arange(7)] * 2))
    np.testing.assert_allclose(
        factor.solve(y[:7]) * 10.0 ** np.arange(7), np.linalg.solve(H, y[:7] / 10.0 ** np.arange(7))
    )
    assert 1 / np.linalg.cond(H) < 3 * factor.rcond < 3
    wide_norm = np.random.default_rng(2).standard_normal((80, 200))
    assert Design(wide_norm).norm == pytest.approx(np.linalg.norm(wide_norm, 2), rel=1e-6)
