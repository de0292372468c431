"""Penalties: proximal maps against minimisers, conjugates by Fenchel-Young, dual points, specs."""

from __future__ import annotations

import math
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from fdglm_fast.errors import UsageError
from fdglm_fast.kernels import penalties as kernels
from fdglm_fast.penalties import PENALTY_NAMES, Penalty, group_scratch, parse_penalty

WEIGHTED = [("none", 0.0), ("l1", 0.8), ("l1", 0.0), ("l2", 1.7), ("elastic-net:0.3", 0.9)]
WEIGHTED += [
    ("elastic-net:0", 0.9),
    ("elastic-net:1", 0.9),
    ("nonneg", 0.0),
    ("box:-0.5:2", 0.0),
    ("box:1:1", 0.0),
]
SEPARABLE = [parse_penalty(spec, reg) for spec, reg in WEIGHTED]
GROUP = parse_penalty("group-l2", 0.6)
GROUPS = np.array([1, 0, 2, 1, 1, 0, 2, 1], dtype=np.int64)
NO_GROUPS = np.empty(0, dtype=np.int64)


def label(penalty: Penalty) -> str:
    return f"{penalty.spec}@{penalty.reg}"


separable = pytest.mark.parametrize("penalty", SEPARABLE, ids=label)
every_penalty = pytest.mark.parametrize("penalty", [*SEPARABLE, GROUP], ids=label)


def prox(penalty: Penalty, x: float, tau: float) -> float:
    return kernels.prox(penalty.code, penalty.reg, penalty.a, penalty.b, x, tau)


def value(penalty: Penalty, x: float) -> float:
    return kernels.value(penalty.code, penalty.reg, penalty.a, penalty.b, x)


def groups_of(penalty: Penalty) -> NDArray[np.int64]:
    return GROUPS if penalty is GROUP else NO_GROUPS


NO_SCALE = np.zeros(0)


def prox_all(penalty: Penalty, x: NDArray[np.float64], tau: float) -> NDArray[np.float64]:
    groups, out = groups_of(penalty), np.full_like(x, np.nan)
    norms = group_scratch(groups)
    kernels.prox_all(penalty.code, penalty.reg, penalty.a, penalty.b, groups, tau, NO_SCALE, x, out, norms)
    return out


def value_all(penalty: Penalty, x: NDArray[np.float64]) -> float:
    groups = groups_of(penalty)
    return kernels.value_all(penalty.code, penalty.reg, penalty.a, penalty.b, groups, x, group_scratch(groups))


# Values and proximal maps


def test_values_by_hand() -> None:
    x = np.array([1.0, -2.0, 0.0, 4.0, 3.0, 2.0, 0.5, 0.0])
    assert value_all(parse_penalty("none"), x) == 0.0
    assert value_all(parse_penalty("l1", 2.0), x) == 25.0
    assert value_all(parse_penalty("l2", 2.0), x) == pytest.approx(34.25)
    assert value_all(parse_penalty("elastic-net:0.25", 2.0), x) == pytest.approx(0.25 * 25.0 + 0.75 * 34.25)
    groups = 2.0 * math.sqrt(26.0) + math.sqrt(2.0) * math.sqrt(8.0) + math.sqrt(2.0) * 0.5
    assert value_all(GROUP, x) == pytest.approx(0.6 * groups)
    assert value_all(parse_penalty("nonneg"), x) == math.inf
    assert value_all(parse_penalty("nonneg"), np.abs(x)) == 0.0
    assert value_all(parse_penalty("box:-2:4"), x) == 0.0
    assert value_all(parse_penalty("box:-1.9:4"), x) == math.inf
    assert value_all(parse_penalty("box:-2:3.9"), x) == math.inf


def test_indicators_forgive_rounding_only() -> None:
    """0.1 as float32 is above 0.1, and an average may end an ulp outside: both are feasible, 1e-5 is not."""
    box = parse_penalty("box:-0.1:0.1")
    assert value(box, float(np.float32(0.1))) == 0.0 and float(np.float32(0.1)) > 0.1
    assert value(box, -float(np.float32(0.1))) == 0.0
    assert value(box, 0.1 + 1e-5) == math.inf and value(box, -0.1 - 1e-5) == math.inf
    nonneg = parse_penalty("nonneg")
    assert value(nonneg, -1e-13) == 0.0 and value(nonneg, -1e-9) == math.inf


@separable
def test_prox_beats_a_grid(penalty: Penalty) -> None:
    for tau in (1e-3, 0.4, 1.0, 25.0):
        for x in (-40.0, -1.1, -0.5, -0.01, 0.0, 0.3, 0.8, 1.0, 2.0, 7.0):
            best = prox(penalty, x, tau)
            least = tau * value(penalty, best) + 0.5 * (best - x) ** 2
            assert math.isfinite(least)
            for t in [0.0, *np.linspace(-45.0, 45.0, 91), *(best + np.linspace(-0.05, 0.05, 21))]:
                assert least <= tau * value(penalty, float(t)) + 0.5 * (t - x) ** 2 + 1e-12 * (1.0 + least)


@separable
def test_prox_is_the_minimiser(penalty: Penalty) -> None:
    low, high = (penalty.a, penalty.b + 1e-9) if penalty.name == "box" else (-20.0, 20.0)
    low = 0.0 if penalty.name == "nonneg" else low
    for tau in (0.2, 3.0):
        for x in (-5.0, -0.6, 0.1, 0.9, 6.0):
            found = minimize_scalar(
                lambda t, x=x, tau=tau: tau * value(penalty, t) + 0.5 * (t - x) ** 2,
                bounds=(low, high),
                method="bounded",
                options={"xatol": 1e-10, "maxiter": 1000},
            )
            assert prox(penalty, x, tau) == pytest.approx(found.x, abs=2e-6)


def exact_value(penalty: Penalty, t: Fraction) -> Fraction | None:
    """r(t) in rational arithmetic, None where it is infinite."""
    reg, a, b = Fraction(penalty.reg), Fraction(penalty.a), Fraction(penalty.b)
    if penalty.name == "l1":
        return reg * abs(t)
    if penalty.name == "l2":
        return reg * t * t / 2
    if penalty.name == "elastic-net":
        return reg * (a * abs(t) + (1 - a) * t * t / 2)
    feasible = t >= 0 if penalty.name == "nonneg" else a <= t <= b if penalty.name == "box" else True
    return Fraction(0) if feasible else None


@pytest.mark.parametrize("rounded", [np.float64, np.float32])
@separable
def test_prox_at_extremes(penalty: Penalty, rounded: type) -> None:
    """No neighbour of the answer does better, compared without rounding, for extreme x and tau."""
    for tau in (float(rounded(tau)) for tau in (1e-8, 1e-3, 0.1, 1.0, 1e4, 1e8)):
        for x in (float(rounded(x)) for x in (0.0, 1e-12, -1e-3, 0.3, -0.8, 40.0, -1e6, 1e6)):
            p, start = Fraction(prox(penalty, x, tau)), Fraction(x)
            at = exact_value(penalty, p)
            assert at is not None
            # rounding of x, a few ulp after the scaling, is the accuracy that can be asked for
            reach = Fraction(4e-15) * abs(start) / (1 + Fraction(tau) * Fraction(penalty.strongly_convex))
            for t in (p - reach, p + reach, p - 1, p + 1, Fraction(0), start):
                rival = exact_value(penalty, t)
                if rival is not None:
                    gain = Fraction(tau) * (rival - at) + ((t - start) ** 2 - (p - start) ** 2) / 2
                    assert gain >= 0


@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf])
@separable
def test_prox_lets_not_a_number_through(penalty: Penalty, x: float) -> None:
    p = prox(penalty, x, 0.5)
    assert math.isnan(p) if math.isnan(x) else not math.isnan(p)


def test_soft_threshold_is_exact() -> None:
    assert kernels.soft_threshold(3.0, 1.0) == 2.0
    assert kernels.soft_threshold(-3.0, 1.0) == -2.0
    assert kernels.soft_threshold(1.0, 1.0) == 0.0
    assert kernels.soft_threshold(-0.1, 0.0) == -0.1


def test_group_prox_is_the_minimiser() -> None:
    rng = np.random.default_rng(3)
    for tau in (0.1, 1.0):
        for spread in (0.3, 2.0):
            x = rng.normal(0.0, spread, GROUPS.size)

            def objective(t: NDArray[np.float64], x: NDArray[np.float64] = x, tau: float = tau) -> float:
                return tau * value_all(GROUP, t) + 0.5 * float(((t - x) ** 2).sum())

            p = prox_all(GROUP, x, tau)
            least = objective(p)
            found = minimize(objective, 0.9 * x, method="Powell", options={"xtol": 1e-9, "ftol": 1e-13})
            assert least <= found.fun + 1e-12
            assert found.fun == pytest.approx(least, rel=1e-4)
            for _ in range(200):
                assert least <= objective(p + rng.normal(0.0, 0.02, x.size)) + 1e-12


def test_group_prox_kills_and_shrinks_whole_groups() -> None:
    x = np.array([3.0, 0.1, 1.0, 0.0, 4.0, 0.1, 0.0, 0.0])
    p = prox_all(GROUP, x, 1.0)
    np.testing.assert_array_equal(p[GROUPS == 0], 0.0)
    np.testing.assert_allclose(p[GROUPS == 1], x[GROUPS == 1] * (1.0 - 0.6 * 2.0 / 5.0), rtol=1e-15)
    np.testing.assert_array_equal(prox_all(GROUP, np.zeros(8), 1.0), np.zeros(8))
    x[0] = np.nan
    assert np.isnan(prox_all(GROUP, x, 1.0)[GROUPS == 1]).all()


@every_penalty
def test_whole_vectors_agree_with_coordinates_and_work_in_place(penalty: Penalty) -> None:
    x = np.random.default_rng(4).normal(0.0, 1.5, GROUPS.size)
    p = prox_all(penalty, x, 0.7)
    if penalty is not GROUP:
        np.testing.assert_allclose(p, [prox(penalty, float(t), 0.7) for t in x], rtol=1e-15)
        assert value_all(penalty, p) == pytest.approx(sum(value(penalty, float(t)) for t in p), rel=1e-15)
    groups = groups_of(penalty)
    norms = np.full((3, 3), 1e9)  # scratch: what is in it must not matter
    kernels.prox_all(penalty.code, penalty.reg, penalty.a, penalty.b, groups, 0.7, NO_SCALE, x, x, norms)
    np.testing.assert_array_equal(x, p)


# Conjugates and dual points


@every_penalty
def test_fenchel_young(penalty: Penalty) -> None:
    """c't <= r(t) + r*(c), with equality at the subgradient c = (x - p)/tau that the prox delivers."""
    rng, groups = np.random.default_rng(5), groups_of(penalty)
    for tau in (0.3, 2.0):
        for spread in (0.2, 1.0, 6.0):
            x = rng.normal(0.0, spread, GROUPS.size)
            p = prox_all(penalty, x, tau)
            c = (x - p) / tau
            # a subgradient on the edge of the domain may leave it by rounding
            inside = c * (1.0 - 1e-13)
            total = value_all(penalty, p) + penalty.conjugate(inside, groups)
            assert total == pytest.approx(float(c @ p), abs=1e-11 * (1.0 + abs(c) @ abs(p)))
            for _ in range(20):
                t = prox_all(penalty, rng.normal(0.0, spread, x.size), 1e-3)
                slopes = rng.normal(0.0, spread, x.size)
                total = value_all(penalty, t) + penalty.conjugate(slopes, groups)
                assert total >= slopes @ t - 1e-12 * (1.0 + abs(slopes) @ abs(t))


def test_conjugates_by_hand() -> None:
    c = np.array([0.5, -1.0, 2.0])
    assert parse_penalty("none").conjugate(np.zeros(3), NO_GROUPS) == 0.0
    assert parse_penalty("none").conjugate(c, NO_GROUPS) == math.inf
    assert parse_penalty("l1", 2.0).conjugate(c, NO_GROUPS) == 0.0
    assert parse_penalty("l1", 1.999).conjugate(c, NO_GROUPS) == math.inf
    assert parse_penalty("l2", 2.0).conjugate(c, NO_GROUPS) == pytest.approx(5.25 / 4.0)
    assert parse_penalty("l2", 0.0).conjugate(c, NO_GROUPS) == math.inf
    assert parse_penalty("elastic-net:0.5", 2.0).conjugate(c, NO_GROUPS) == pytest.approx(0.5)
    assert parse_penalty("nonneg").conjugate(-np.abs(c), NO_GROUPS) == 0.0
    assert parse_penalty("nonneg").conjugate(c, NO_GROUPS) == math.inf
    assert parse_penalty("box:-1:3").conjugate(c, NO_GROUPS) == pytest.approx(1.5 + 1.0 + 6.0)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.sampled_from([*SEPARABLE, GROUP]),
    st.lists(st.floats(-1e3, 1e3), min_size=GROUPS.size, max_size=GROUPS.size),
)
def test_dual_scale_is_the_largest(penalty: Penalty, numbers: list[float]) -> None:
    c, groups = np.array(numbers), groups_of(penalty)
    alpha = penalty.dual_scale(c, groups)
    if alpha is None:
        # a cone has no way in, at any length
        assert penalty.conjugate(c, groups) == math.inf
        assert penalty.conjugate(1e-9 * c / np.abs(c).max(), groups) == math.inf
        return
    assert 0.0 < alpha <= 1.0
    assert penalty.conjugate(alpha * c, groups) < math.inf
    if alpha < 1.0:
        assert penalty.conjugate(alpha * (1.0 + 1e-9) * c, groups) == math.inf


@pytest.mark.parametrize(
    ("spec", "reg", "c", "alpha"),
    [
        ("l1", 1.0, [0.5, -4.0], 0.25),
        ("l1", 1.0, [0.5, -1.0], 1.0),
        ("l1", 1.0, [0.0, 0.0], 1.0),
        ("l1", 0.0, [0.5, 0.0], None),
        ("l2", 1.0, [9.0, 9.0], 1.0),
        ("l2", 0.0, [9.0, 9.0], None),
        ("elastic-net:0.5", 1.0, [9.0, 9.0], 1.0),
        ("elastic-net:1", 1.0, [9.0, 4.5], 1.0 / 9.0),
        ("group-l2", 1.0, [6.0, 8.0], math.sqrt(2.0) / 10.0),
        ("none", 0.0, [1.0, 0.0], None),
        ("none", 0.0, [0.0, 0.0], 1.0),
        ("nonneg", 0.0, [-1.0, 1.0], None),
        ("nonneg", 0.0, [-1.0, 0.0], 1.0),
        ("box:-1:1", 0.0, [9.0, 9.0], 1.0),
    ],
)
def test_dual_scale_by_hand(spec: str, reg: float, c: list[float], alpha: float | None) -> None:
    groups = np.zeros(2, dtype=np.int64) if spec == "group-l2" else NO_GROUPS
    scale = parse_penalty(spec, reg).dual_scale(np.array(c), groups)
    assert scale is None if alpha is None else scale == pytest.approx(alpha, rel=1e-15)


@separable
def test_modulus_of_strong_convexity(penalty: Penalty) -> None:
    """The second difference of r away from 0 is mu h^2."""
    h, t = 0.1, 1.0
    difference = value(penalty, t + h) - 2.0 * value(penalty, t) + value(penalty, t - h)
    if penalty.spec != "box:1:1":
        assert penalty.strongly_convex == pytest.approx(difference / h**2, abs=1e-12)
    assert GROUP.strongly_convex == 0.0


# In compiled code


@numba.njit(parallel=True)
def all_functions(code, reg, a, b, tau, x, out):  # type: ignore[no-untyped-def]
    for i in numba.prange(x.shape[0]):
        out[0, i] = kernels.prox(code, reg, a, b, x[i], tau)
        out[1, i] = kernels.value(code, reg, a, b, out[0, i])
        out[2, i] = kernels.soft_threshold(x[i], tau)


@numba.njit
def whole_vectors(code, reg, a, b, groups, tau, x, out, norms):  # type: ignore[no-untyped-def]
    kernels.prox_all(code, reg, a, b, groups, tau, NO_SCALE, x, out, norms)
    return kernels.value_all(code, reg, a, b, groups, out, norms)


@every_penalty
def test_inside_compiled_code(penalty: Penalty) -> None:
    x = np.random.default_rng(6).normal(0.0, 2.0, GROUPS.size)
    arguments = (penalty.code, penalty.reg, penalty.a, penalty.b)
    if penalty is not GROUP:
        out = np.full((3, x.size), np.nan)
        all_functions(*arguments, 0.7, x, out)
        np.testing.assert_allclose(out[0], prox_all(penalty, x, 0.7), rtol=1e-15)
        np.testing.assert_allclose(out[1], [value(penalty, float(t)) for t in out[0]], rtol=1e-15)
        np.testing.assert_allclose(out[2], np.sign(x) * np.maximum(np.abs(x) - 0.7, 0.0), rtol=1e-15)
    groups, p = groups_of(penalty), np.full_like(x, np.nan)
    total = whole_vectors(*arguments, groups, 0.7, x, p, group_scratch(groups))
    np.testing.assert_allclose(p, prox_all(penalty, x, 0.7), rtol=1e-15)
    assert total == pytest.approx(value_all(penalty, p), rel=1e-15)


@every_penalty
def test_float32_vectors(penalty: Penalty) -> None:
    x = np.random.default_rng(7).normal(0.0, 2.0, GROUPS.size).astype(np.float32)
    groups, p = groups_of(penalty), np.full(x.size, np.nan, dtype=np.float32)
    total = whole_vectors(penalty.code, penalty.reg, penalty.a, penalty.b, groups, 0.7, x, p, group_scratch(groups))
    exact = prox_all(penalty, x.astype(np.float64), 0.7)
    np.testing.assert_allclose(p, exact, rtol=1e-6, atol=1e-6)
    assert total == pytest.approx(value_all(penalty, exact), rel=1e-5)


# Specifications


def test_specs_round_trip() -> None:
    for penalty in [*SEPARABLE, GROUP]:
        assert parse_penalty(penalty.spec, penalty.reg) == penalty
    assert {penalty.name for penalty in [*SEPARABLE, GROUP]} == set(PENALTY_NAMES)
    assert parse_penalty("box:-1.50:2").spec == "box:-1.5:2"
    assert group_scratch(GROUPS).shape == (3, 3) and group_scratch(NO_GROUPS).shape == (3, 0)


@pytest.mark.parametrize(
    ("spec", "reg", "sentence"),
    [
        ("lasso", 1.0, "unknown penalty 'lasso'; "),
        ("elastic_net:1", 1.0, "unknown penalty 'elastic_net'; did you mean 'elastic-net'?"),
        ("l1:3", 1.0, "penalty 'l1' takes no parameter, but 'l1:3' gives one."),
        (
            "elastic-net",
            1.0,
            "penalty 'elastic-net' needs the form elastic-net:RATIO, but 'elastic-net' was given.",
        ),
        ("box:1", 0.0, "penalty 'box' needs the form box:LO:HI, but 'box:1' was given."),
        ("box:1:x", 0.0, "'x' in penalty 'box:1:x' is not a finite number."),
        ("box:-inf:1", 0.0, "'-inf' in penalty 'box:-inf:1' is not a finite number."),
        ("box:2:1", 0.0, "penalty 'box:LO:HI' needs LO <= HI, but 2 > 1."),
        (
            "elastic-net:1.5",
            1.0,
            "the RATIO of penalty 'elastic-net:RATIO' must lie in [0, 1], but it is 1.5.",
        ),
        ("l1", -1.0, "the penalty's weight must be a finite number >= 0, but it is -1."),
        ("l2", math.nan, "the penalty's weight must be a finite number >= 0, but it is nan."),
        ("none", 0.5, "penalty 'none' has no weight, but the weight 0.5 was given."),
        ("nonneg", 0.5, "penalty 'nonneg' has no weight, but the weight 0.5 was given."),
        ("box:0:1", 0.5, "penalty 'box' has no weight, but the weight 0.5 was given."),
    ],
)
def test_wrong_specs_get_a_sentence(spec: str, reg: float, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_penalty(spec, reg)
    assert str(caught.value).startswith(sentence)
