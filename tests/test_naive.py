"""The oracle itself, against the paper's lines, a dense Chambolle-Pock, elimination by hand and Theorem 1."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

import naive
import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOSSES: list[naive.Spec] = [
    ("squared",),
    ("huber", 0.7),
    ("absolute",),
    ("quantile", 0.9),
    ("logistic",),
    ("hinge",),
    ("squared-hinge",),
    ("poisson",),
]
PENALTIES: list[naive.Spec] = [
    ("none",),
    ("l1", 0.3),
    ("l2", 0.4),
    ("elastic-net", 0.5, 0.3),
    ("group-l2", 0.2, [1, 0, 1, 2, 2]),
    ("nonneg",),
    ("box", -0.2, 0.5),
]
BLOCKS = [[0, 2], [1], [3, 4]]
EDGES = [(0, 1, 0.5), (1, 2, 2.0), (0, 2, 1.25)]


def name_of(spec: naive.Spec) -> str:
    return str(spec[0])


def labels(loss: naive.Spec, rng: random.Random, n: int) -> list[float]:
    """Responses that suit the loss."""
    if loss[0] in ("logistic", "hinge", "squared-hinge"):
        return [rng.choice([-1.0, 1.0]) for _ in range(n)]
    if loss[0] == "poisson":
        return [float(rng.randrange(4)) for _ in range(n)]
    return [rng.gauss(0, 2) for _ in range(n)]


def gaussian(rng: random.Random, n: int, d: int) -> list[list[float]]:
    return [[rng.gauss(0, 1) for _ in range(d)] for _ in range(n)]


# ------------------------------------------------------------------------------------------ one step


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_dual_step_beats_a_grid(loss: naive.Spec) -> None:
    """Nothing on a grid around it does better on the line (FD-GLM-4)."""
    rng = random.Random(3)
    for _ in range(60):
        n = rng.choice([1, 4, 30])
        sigma = n * 10 ** rng.uniform(-1.5, 1.5)
        a = rng.gauss(0, 3) * max(1.0, sigma / n)
        y = labels(loss, rng, 1)[0]

        def line(lam: float, a: float = a, y: float = y, n: int = n, sigma: float = sigma) -> float:
            w = n / sigma * (a - lam)
            if loss[0] == "poisson" and w > 700:
                return math.inf  # exp would overflow
            return naive.loss_value(loss, w, y) / n + lam**2 / (2 * sigma)

        lam = naive.dual_step(loss, a, y, n, sigma)
        least = line(lam)
        reach = 10 * (1 + abs(a))
        grid = [lam + sign * reach * 0.8**k for k in range(70) for sign in (-1, 1)]
        assert all(line(other) >= least - 1e-13 * (1 + abs(least)) for other in grid)


@pytest.mark.parametrize("loss", [("logistic",), ("poisson",)], ids=name_of)
def test_bisection_is_exact_to_double_precision(loss: naive.Spec) -> None:
    """lam = ell'(w), w = (a - lam)/s: the condition changes sign within a few units of the last place."""
    rng = random.Random(4)
    for _ in range(200):
        s = 10 ** rng.uniform(-6, 6)
        a = rng.gauss(0, 1) * 10 ** rng.uniform(-3, 3)
        y = labels(loss, rng, 1)[0]

        def residual(lam: float, a: float = a, s: float = s, y: float = y) -> float:
            w = (a - lam) / s
            if loss[0] == "logistic":
                return lam + y / (1 + math.exp(min(y * w, 700.0)))
            return lam + y - math.exp(min(w, 700.0))

        lam = naive.dual_step(loss, a, y, 1, s)
        width = 1e-14 * (1 + abs(lam) + abs(y) + (abs(a) if loss[0] == "poisson" else 0))
        assert residual(lam - width) < 0 < residual(lam + width)


@pytest.mark.parametrize("penalty", PENALTIES, ids=name_of)
def test_prox_beats_random_points(penalty: naive.Spec) -> None:
    """prox minimises tau r(t) + ||t - u||^2/2, and agents apply it to their own columns only."""
    rng = random.Random(5)
    for _ in range(20):
        tau = 10 ** rng.uniform(-1, 0.5)
        u = [rng.gauss(0, 1) for _ in range(5)]

        def cost(t: list[float], tau: float = tau, u: list[float] = u) -> float:
            r = naive.penalty_value(penalty, t)
            return tau * r + sum((x - c) ** 2 for x, c in zip(t, u, strict=True)) / 2

        t = [0.0] * 5
        for block in BLOCKS:
            part = naive.prox(penalty, tau, [u[c] for c in block], block)
            for c, value in zip(block, part, strict=True):
                t[c] = value
        least = cost(t)
        assert math.isfinite(least)
        for k in range(60):
            other = [x + rng.gauss(0, 1) * 0.7**k for x in t]
            assert cost(other) >= least - 1e-10


def test_a_split_group_is_refused() -> None:
    with pytest.raises(ValueError, match="split between agents"):
        naive.prox(("group-l2", 1.0, [0, 0, 1]), 0.5, [1.0], [0])


# ------------------------------------------------------------------------------------- the iteration


def dual_prox(loss: naive.Spec, a: Array, y: Array, s: float) -> Array:
    """prox of s ell* on the dual side: bisect s (ell*)'(lam) + lam = a over the domain of ell*.

    (ell*)' is the inverse of ell'; this shares no formula with the primal line the oracle works on.
    """
    big = np.full_like(y, 1e3)
    p = loss[1] if len(loss) > 1 else 0.0
    table: dict[str, tuple[Array, Array, Callable[[Array], Array]]] = {
        "squared": (-big, big, lambda lam: lam + y),
        "huber": (0 * y - p, 0 * y + p, lambda lam: lam + y),
        "absolute": (0 * y - 1, 0 * y + 1, lambda lam: y),
        "quantile": (0 * y - p, 0 * y + 1 - p, lambda lam: y),
        "logistic": (
            np.minimum(-y, 0),
            np.maximum(-y, 0),
            lambda lam: y * np.log((1 + y * lam) / (-y * lam)),
        ),
        "hinge": (np.minimum(-y, 0), np.maximum(-y, 0), lambda lam: y),
        "squared-hinge": (np.where(y > 0, -big, 0), np.where(y > 0, 0, big), lambda lam: y + lam / 2),
        "poisson": (-y, big, lambda lam: np.log(lam + y)),
    }
    low, high, inverse_slope = table[loss[0]]
    for _ in range(80):
        lam = (low + high) / 2
        # an end of the domain reached by rounding is already the answer
        with np.errstate(divide="ignore"):
            below = s * inverse_slope(lam) + lam < a
        low, high = np.where(below, lam, low), np.where(below, high, lam)
    return (low + high) / 2


def dense_chambolle_pock(
    X: Array, y: Array, loss: naive.Spec, penalty: naive.Spec, steps: tuple[float, float], iterations: int
) -> tuple[Array, Array]:
    """z+ = prox_{tau g}(z - tau K' lam), lam+ = prox_{sigma h*}(lam + sigma K(2 z+ - z)); K of section 2."""
    (n, d), m, (sigma, tau) = X.shape, len(BLOCKS), steps
    K = np.zeros((m * n, d + m * n))
    for j, block in enumerate(BLOCKS):
        for c in block:
            K[j * n : (j + 1) * n, c] = X[:, c]
    K[:, d:] = np.kron(np.array(naive.laplacian(m, EDGES)), np.eye(n))
    K /= n
    z, lam = np.zeros(d + m * n), np.zeros(m * n)
    path_z, path_lam = [], []
    for _ in range(iterations):
        ahead = z - tau * K.T @ lam
        ahead[:d] = naive.prox(penalty, tau, ahead[:d].tolist(), list(range(d)))
        lam = lam + sigma * K @ (2 * ahead - z)
        lam[:n] = dual_prox(loss, lam[:n], y, sigma / n)
        z = ahead
        path_z.append(z)
        path_lam.append(lam)
    return np.array(path_z), np.array(path_lam)


@pytest.mark.parametrize(("loss", "penalty"), [(loss, PENALTIES[k % 7]) for k, loss in enumerate(LOSSES)], ids=name_of)
def test_same_iterates_as_dense_chambolle_pock(loss: naive.Spec, penalty: naive.Spec) -> None:
    rng = random.Random(11)
    n, d, iterations = 6, 5, 25
    X, y, steps = gaussian(rng, n, d), labels(loss, rng, n), (3.0, 0.4)
    records = naive.solve(X, y, BLOCKS, EDGES, loss, penalty, *steps, iterations)
    z, lam = dense_chambolle_pock(np.array(X), np.array(y), loss, penalty, steps, iterations)
    assert len(records) == iterations
    assert np.abs(z[-1]).max() > 1e-3
    for t, record in enumerate(records):
        np.testing.assert_allclose(record.theta, z[t, :d], rtol=0, atol=1e-12)
        np.testing.assert_allclose(np.ravel(record.v), z[t, d:], rtol=0, atol=1e-12)
        np.testing.assert_allclose(np.ravel(record.lam), lam[t], rtol=0, atol=1e-12)
        np.testing.assert_allclose(record.theta_bar, z[: t + 1, :d].mean(axis=0), rtol=0, atol=1e-12)


def eliminate(A: list[list[float]], b: list[float]) -> list[float]:
    """Gaussian elimination with partial pivoting."""
    size = len(b)
    rows = [[*A[i], b[i]] for i in range(size)]
    for k in range(size):
        pivot = max(range(k, size), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, size):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x - factor * p for x, p in zip(rows[i], rows[k], strict=True)]
    x = [0.0] * size
    for k in reversed(range(size)):
        x[k] = (rows[k][size] - sum(rows[k][j] * x[j] for j in range(k + 1, size))) / rows[k][k]
    return x


def ridge_by_hand(X: list[list[float]], y: list[float], reg: float) -> list[float]:
    """(X'X/n + reg I) theta = X'y/n."""
    n, d = len(X), len(X[0])
    gram = [[sum(row[a] * row[b] for row in X) / n + reg * (a == b) for b in range(d)] for a in range(d)]
    return eliminate(gram, [sum(row[a] * r for row, r in zip(X, y, strict=True)) / n for a in range(d)])


@pytest.mark.parametrize("blocks", [[[0, 1, 2, 3, 4]], BLOCKS], ids=["one agent", "three agents"])
def test_fixed_point_is_the_ridge_solution(blocks: list[list[int]]) -> None:
    """The iterates settle on the optimum, all lam_j on the common slope z - y, and one agent keeps v = 0."""
    rng = random.Random(12)
    n, reg, penalty = 7, 0.3, ("l2", 0.3)
    X, y = gaussian(rng, n, 5), labels(("squared",), rng, n)
    edges = EDGES if len(blocks) > 1 else []
    last = naive.solve(X, y, blocks, edges, ("squared",), penalty, 2.0, 0.5, 4000)[-1]
    theta_hat = ridge_by_hand(X, y, reg)
    np.testing.assert_allclose(last.theta, theta_hat, rtol=0, atol=1e-11)
    for lam in last.lam:
        np.testing.assert_allclose(lam, np.array(X) @ theta_hat - y, rtol=0, atol=1e-11)
    assert any(x != 0 for row in last.v for x in row) == (len(blocks) > 1)
    best = naive.objective(X, y, theta_hat, ("squared",), penalty)
    for k in range(5):
        moved = [t + 1e-3 * (c == k) for c, t in enumerate(theta_hat)]
        assert naive.objective(X, y, moved, ("squared",), penalty) > best


# --------------------------------------------------------------------------------------- the theorem


def logistic_ridge_by_newton(X: Array, y: Array, reg: float) -> list[float]:
    """The minimiser of mean log(1 + exp(-y X theta)) + reg/2 |theta|^2; undamped, small data."""
    theta = np.zeros(X.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(y * (X @ theta)))
        gradient = -X.T @ (y * p) / len(y) + reg * theta
        hessian = (X.T * (p * (1 - p))) @ X / len(y) + reg * np.eye(len(theta))
        theta = theta - np.linalg.solve(hessian, gradient)
    assert np.abs(gradient).max() < 1e-14
    return [float(t) for t in theta]


@pytest.mark.parametrize("loss_class", ["lipschitz", "sqrt-lipschitz"])
@pytest.mark.parametrize("blocks", [[[0, 1, 2, 3, 4]], BLOCKS], ids=["one agent", "three agents"])
def test_corrected_bound_holds(loss_class: str, blocks: list[list[int]]) -> None:
    """Logistic (rho = 1) and squared (rho = sqrt 2), all T up to 400, exact chi, D, delta and R."""
    rng = random.Random(13)
    n, m, reg = 8, len(blocks), 0.05
    loss: naive.Spec = ("logistic",) if loss_class == "lipschitz" else ("squared",)
    X, y = gaussian(rng, n, 5), labels(loss, rng, n)
    if loss_class == "lipschitz":
        theta_hat = logistic_ridge_by_newton(np.array(X), np.array(y), reg)
    else:
        theta_hat = ridge_by_hand(X, y, reg)
    edges = EDGES if m > 1 else []
    spectrum = np.linalg.eigvalsh(np.array(naive.laplacian(m, edges)))
    D, delta = (float(spectrum[-1]), float(spectrum[1])) if m > 1 else (0.0, math.inf)
    rho = 1.0 if loss_class == "lipschitz" else math.sqrt(2)
    constants = naive.Constants(n, m, float(np.linalg.norm(X, 2)), D, delta, math.hypot(*theta_hat), rho)
    records = naive.solve(X, y, blocks, edges, loss, ("l2", reg), *naive.theorem_steps(*constants), 400)
    best = naive.objective(X, y, theta_hat, loss, ("l2", reg))
    claims = 0
    for T, record in enumerate(records, start=1):
        value = naive.objective(X, y, record.theta_bar, loss, ("l2", reg))
        limit = naive.bound(loss_class, best, T, constants)
        assert best - 1e-13 <= value <= limit
        claims += math.isfinite(limit)
    assert claims > 250


def test_factor_is_the_one_of_the_proof() -> None:
    """The proof has 1 + 2 m n rho^2/(T sigma); the printed factor's excess over 1 is m n times smaller."""
    constants = naive.Constants(n=50, m=4, chi=3.0, D=5.0, delta=0.5, R=2.0, rho=1.3)
    sigma, tau = naive.theorem_steps(*constants)
    assert tau * sigma == pytest.approx((50 / 8.0) ** 2, rel=1e-14)
    T, best = naive.first_iteration(constants) + 7, 2.5
    inner = best + (1 + 2 * 3.0**2 / 0.5**2) * 2.0**2 / (T * tau)
    excess = 2 * 4 * 50 * 1.3**2 / (T * sigma)
    assert naive.bound("sqrt-lipschitz", best, T, constants) == pytest.approx((1 + excess) * inner, rel=1e-14)
    assert naive.printed_bound(best, T, constants) == pytest.approx((1 + excess / 200) * inner, rel=1e-14)
    lipschitz = best + inner - best + 4 * 50 * 1.3**2 / (T * sigma)
    assert naive.bound("lipschitz", best, T, constants) == pytest.approx(lipschitz, rel=1e-14)
    assert naive.bound("sqrt-lipschitz", best, naive.first_iteration(constants) - 1, constants) == math.inf


class Excess(NamedTuple):
    """(F(theta_bar_T) - best)/(bound - best) for each bound; above 1 the bound is broken."""

    T: int
    printed: float
    corrected: float


def clamped_excess(n: int, m: int, best: float, iterations: int) -> list[Excess]:
    """One feature x = (1,..,1)/sqrt(n), squared loss, theta kept in [0, R] while y asks for more.

    y_i = R/sqrt(n) + sqrt(2 best), so that theta_hat = R and the minimum is `best`. chi = 1 and, for two
    agents, D = delta = 1; the second agent then owns the feature. R makes first_iteration = 8 exactly.
    """
    rho = math.sqrt(2)
    reach = 1.0 if m == 1 else 2 * math.sqrt(3)  # (chi + D) sqrt(1 + 2 chi^2/delta^2)
    R = 3.99 / (reach * rho * math.sqrt(m / n))
    constants = naive.Constants(n, m, 1.0, 1.0, 1.0, R, rho)
    X = [[1 / math.sqrt(n)] for _ in range(n)]
    y = [R / math.sqrt(n) + math.sqrt(2 * best)] * n
    blocks, edges = ([[0]], []) if m == 1 else ([[], [0]], [(0, 1, 0.5)])
    penalty = ("box", 0.0, R)
    assert all(naive.objective(X, y, [R * k / 20], ("squared",), penalty) > best for k in range(20))
    assert naive.objective(X, y, [R], ("squared",), penalty) == pytest.approx(best, rel=1e-12)
    steps = naive.theorem_steps(*constants)
    records = naive.solve(X, y, blocks, edges, ("squared",), penalty, *steps, iterations)
    first = naive.first_iteration(constants)
    assert first == 8
    out = []
    for T in range(first, iterations + 1):
        gap = naive.objective(X, y, records[T - 1].theta_bar, ("squared",), penalty) - best
        printed = naive.printed_bound(best, T, constants) - best
        corrected = naive.bound("sqrt-lipschitz", best, T, constants) - best
        out.append(Excess(T, gap / printed, gap / corrected))
    return out


@pytest.mark.parametrize("m", [1, 2])
def test_printed_factor_fails(m: int) -> None:
    """The square-root bound with the printed m^(1/2) n^(3/2) is false, and for every T, not only early ones.

    Where to look: the proof loses nothing to the factor unless lam* = ell'(X theta_hat) is large and X'lam*
    is not zero. Without a penalty X'lam* = 0, and no case was found: over 10 000 random problems of one
    feature the gap reached at most 0.44 (squared), 0.51 (Huber) and 0.39 (squared hinge) of what is printed.
    A constraint that holds theta_hat back keeps X'lam* away from zero. For one agent it can be done by hand:
    theta_1 = 0 and, once best >= 1, theta_t = R for t >= 2. With A = (chi R rho/sqrt n)/T the gap is then
    A sqrt(best) + A^2/4, while print allows A (1 + 2 (best + A)/n). So print fails for every valid T
    (A <= 1/2) as soon as sqrt(best) > 1 + (2 best + 1)/n. The search below is over n and best alone.
    """
    cases = [(n, best) for n in (10, 40, 100) for best in (0.25, 1.0, 4.0, 9.0, 25.0, 50.0)]
    worst = max(cases, key=lambda case: clamped_excess(case[0], m, case[1], 8)[0].printed)
    assert worst == (100, 50.0)
    path = clamped_excess(worst[0], m, worst[1], 150)
    assert len(path) == 143
    assert all(excess.printed > 2 for excess in path)
    assert all(excess.corrected <= 1 for excess in path)


def test_printed_factor_fails_for_ridge() -> None:
    """A finite penalty is enough: theta_hat = 1, R = 1, rate 1, so the bound speaks from T = 2 on."""
    n, gain, penalty = 100, math.sqrt(0.5) * (1 - 1e-9), ("l2", 3.5)
    X, y = [[gain] for _ in range(n)], [8 * gain] * n
    theta_hat = ridge_by_hand(X, y, 3.5)
    constants = naive.Constants(n, 1, gain * 10, 0.0, math.inf, theta_hat[0], math.sqrt(2))
    best = naive.objective(X, y, theta_hat, ("squared",), penalty)
    last = naive.solve(X, y, [[0]], [], ("squared",), penalty, *naive.theorem_steps(*constants), 2)[-1]
    value = naive.objective(X, y, last.theta_bar, ("squared",), penalty)
    assert naive.first_iteration(constants) == 2
    assert value > 1.02 * naive.printed_bound(best, 2, constants)
    assert value <= naive.bound("sqrt-lipschitz", best, 2, constants)
