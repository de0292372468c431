"""Losses: formulas against each other, the dual step against minimisers and exact numbers, responses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.kernels import losses as kernels
from fdglm_fast.losses import LOGISTIC, LOSS_NAMES, POISSON, Loss, parse_loss

SPECS = ["squared", "huber:0.7", "huber:30", "absolute", "quantile:0.9", "quantile:0.25"]
SPECS += ["logistic", "hinge", "squared-hinge", "poisson"]
LOSSES = [parse_loss(spec) for spec in SPECS]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=SPECS)
STEPS = [1e-8, 1e-4, 0.03, 1.0, 40.0, 1e4, 1e8]


def responses(loss: Loss) -> list[float]:
    return {"real": [0.0, 1.5, -20.0], "binary": [-1.0, 1.0], "count": [0.0, 1.0, 7.0]}[loss.labels]


def value(loss: Loss, z: float, y: float) -> float:
    return kernels.value(loss.code, loss.parameter, z, y)


def slope(loss: Loss, z: float, y: float) -> float:
    return kernels.slope(loss.code, loss.parameter, z, y)


def conjugate(loss: Loss, lam: float, y: float) -> float:
    return kernels.conjugate(loss.code, loss.parameter, lam, y)


def dual_step(loss: Loss, a: float, s: float, y: float) -> float:
    return kernels.dual_step(loss.code, loss.parameter, a, s, y)


def points(loss: Loss, count: int = 40, seed: int = 0) -> Iterator[tuple[float, float]]:
    """Random (z, y), kinks and far points among them."""
    rng = np.random.default_rng(seed)
    for y in responses(loss):
        for z in [y, 1.0, -1.0, 0.0, y + 0.7, -25.0, 25.0, *rng.normal(0.0, 3.0, count)]:
            yield float(z), y


def near_kink(loss: Loss, z: float, y: float) -> bool:
    kinks = [y, y - loss.parameter, y + loss.parameter] if loss.labels == "real" else [1.0, -1.0]
    return loss.name not in ("squared", "logistic", "poisson") and min(abs(z - kink) for kink in kinks) < 1e-3


# Formulas against each other


@pytest.mark.parametrize(
    ("spec", "z", "y", "expected"),
    [
        ("squared", 3.0, 1.0, 2.0),
        ("huber:2", 2.0, 1.0, 0.5),
        ("huber:2", -4.0, 1.0, 8.0),
        ("absolute", -4.0, 1.0, 5.0),
        ("quantile:0.9", 0.0, 10.0, 9.0),
        ("quantile:0.9", 10.0, 0.0, 1.0),
        ("logistic", 0.0, -1.0, math.log(2.0)),
        ("logistic", 1000.0, -1.0, 1000.0),
        ("hinge", -2.0, 1.0, 3.0),
        ("hinge", 2.0, 1.0, 0.0),
        ("squared-hinge", -2.0, 1.0, 9.0),
        ("squared-hinge", -2.0, -1.0, 0.0),
        ("poisson", 2.0, 3.0, math.exp(2.0) - 6.0),
        ("poisson", 1e4, 3.0, math.inf),
    ],
)
def test_values_by_hand(spec: str, z: float, y: float, expected: float) -> None:
    assert value(parse_loss(spec), z, y) == pytest.approx(expected, rel=1e-15)


@every_loss
def test_slope_and_curvature_are_differences(loss: Loss) -> None:
    h = 1e-5
    for z, y in points(loss):
        if near_kink(loss, z, y):
            continue
        scale = 1.0 + abs(value(loss, z, y))
        difference = (value(loss, z + h, y) - value(loss, z - h, y)) / (2.0 * h)
        assert slope(loss, z, y) == pytest.approx(difference, rel=1e-8, abs=1e-9 * scale)
        difference = (slope(loss, z + h, y) - slope(loss, z - h, y)) / (2.0 * h)
        curvature = kernels.curvature(loss.code, loss.parameter, z, y)
        assert curvature == pytest.approx(difference, rel=1e-8, abs=1e-9 * scale)


@pytest.mark.parametrize("spec", ["absolute", "quantile:0.9", "hinge", "squared-hinge"])
def test_at_a_kink_slope_and_curvature_are_zero(spec: str) -> None:
    loss = parse_loss(spec)
    assert slope(loss, 1.0, 1.0) == 0.0
    assert kernels.curvature(loss.code, loss.parameter, 1.0, 1.0) == 0.0


@every_loss
def test_fenchel_young(loss: Loss) -> None:
    rng = np.random.default_rng(1)
    for z, y in points(loss):
        lam = slope(loss, z, y)
        scale = 1.0 + abs(lam * z) + abs(value(loss, z, y))
        assert value(loss, z, y) + conjugate(loss, lam, y) == pytest.approx(lam * z, abs=1e-12 * scale)
        for other in rng.normal(0.0, 1.0, 5):
            total = value(loss, z, y) + conjugate(loss, float(other), y)
            assert total >= other * z - 1e-12 * (1.0 + abs(other * z))


@pytest.mark.parametrize(
    ("spec", "y", "low", "high"),
    [
        ("huber:30", 2.0, -30.0, 30.0),
        ("absolute", 2.0, -1.0, 1.0),
        ("quantile:0.9", 2.0, -0.9, 0.1),
        ("logistic", 1.0, -1.0, 0.0),
        ("hinge", -1.0, 0.0, 1.0),
        ("squared-hinge", 1.0, -math.inf, 0.0),
        ("poisson", 7.0, -7.0, math.inf),
    ],
)
def test_domain_of_the_conjugate(spec: str, y: float, low: float, high: float) -> None:
    loss = parse_loss(spec)
    for end, out in ((low, -1.0), (high, 1.0)):
        if math.isfinite(end):
            assert math.isfinite(conjugate(loss, end, y))
            assert conjugate(loss, end + out * 1e-13, y) == pytest.approx(conjugate(loss, end, y), abs=1e-15)
            assert conjugate(loss, end + out * 1e-9, y) == math.inf
        else:
            assert math.isfinite(conjugate(loss, out * 1e3, y))


@every_loss
def test_constants_of_the_theorem(loss: Loss) -> None:
    """|slope| <= rho or rho sqrt(value) on random points, and no smaller rho would do."""
    pairs = [pair for seed in range(3) for pair in points(loss, 300, seed)]
    slopes = np.array([abs(slope(loss, z, y)) for z, y in pairs] + [abs(slope(loss, 1e3, -1.0))])
    roots = np.array([math.sqrt(max(value(loss, z, y), 0.0)) for z, y in pairs] + [math.inf])
    if loss.lipschitz is not None:
        assert slopes.max() <= loss.lipschitz * (1.0 + 1e-14)
        assert slopes.max() >= loss.lipschitz * (1.0 - 1e-6)
    if loss.sqrt_lipschitz is not None:
        assert (slopes <= loss.sqrt_lipschitz * roots * (1.0 + 1e-14)).all()
        assert (slopes[:-1] >= loss.sqrt_lipschitz * roots[:-1] * (1.0 - 1e-6))[roots[:-1] > 0.0].any()
    assert (loss.lipschitz is None and loss.sqrt_lipschitz is None) == (loss.name == "poisson")


# The dual step


@every_loss
def test_dual_step_beats_a_grid(loss: Loss) -> None:
    for s in (0.03, 1.0, 40.0):
        for y in responses(loss):
            for a in (-30.0, -1.3, -0.5, 0.0, 0.2, 1.7, 30.0):
                lam = dual_step(loss, a, s, y)
                best = conjugate(loss, lam, y) + (lam - a) ** 2 / (2.0 * s)
                assert math.isfinite(best)
                for other in [*np.linspace(-40.0, 40.0, 81), *(lam + np.linspace(-0.1, 0.1, 41))]:
                    rival = conjugate(loss, float(other), y) + (other - a) ** 2 / (2.0 * s)
                    assert best <= rival + 1e-12 * (1.0 + abs(best))


@every_loss
def test_moreau_identity(loss: Loss) -> None:
    """a = lam + s z, where z = prox_{loss/s}(a/s) comes from SciPy's bounded minimiser."""
    for s in (0.1, 1.0, 10.0):
        for y in responses(loss):
            for a in (-6.0, -0.7, 0.0, 0.4, 5.0):
                found = minimize_scalar(
                    lambda z, s=s, y=y, a=a: value(loss, z, y) + 0.5 * s * (z - a / s) ** 2,
                    bounds=((a - 60.0) / s - 1.0, (a + 60.0) / s + 1.0) if loss.code != POISSON else (-90.0, 90.0),
                    method="bounded",
                    options={"xatol": 1e-11, "maxiter": 2000},
                )
                assert dual_step(loss, a, s, y) + s * found.x == pytest.approx(a, abs=2e-6 * max(1.0, s))


@every_loss
def test_dual_step_is_a_slope(loss: Loss) -> None:
    """lam is a subgradient at z = (a - lam)/s: Fenchel-Young with equality."""
    rng = np.random.default_rng(2)
    for s in (0.3, 1.0, 8.0):
        for y in responses(loss):
            for a in rng.normal(0.0, 4.0, 20):
                lam = dual_step(loss, float(a), s, y)
                z = (a - lam) / s
                total = value(loss, z, y) + conjugate(loss, lam, y)
                assert total == pytest.approx(lam * z, abs=1e-11 * (1.0 + abs(z)))


def exact_conjugate(loss: Loss, lam: Fraction, y: Fraction) -> Fraction | None:
    """loss*(lam) in rational arithmetic for the piecewise losses, None outside the domain."""
    k, p = Fraction(loss.parameter), y * lam
    if loss.name in ("squared", "huber"):
        return lam * lam / 2 + lam * y if loss.name == "squared" or abs(lam) <= k else None
    if loss.name == "quantile":
        return lam * y if -k <= lam <= Fraction(1.0 - loss.parameter) else None
    if loss.name == "absolute":
        return lam * y if abs(lam) <= 1 else None
    if loss.name == "hinge":
        return p if -1 <= p <= 0 else None
    return p + p * p / 4 if p <= 0 else None


@pytest.mark.parametrize("rounded", [np.float64, np.float32])
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec not in ("logistic", "poisson")])
def test_piecewise_steps_at_extremes(spec: str, rounded: type) -> None:
    """No neighbour of the answer does better, compared without rounding, for extreme a and s."""
    loss = parse_loss(spec)
    for s in (float(rounded(s)) for s in STEPS):
        for y in responses(loss):
            for a in (float(rounded(a)) for a in (-1e6, -33.3, -1.0, -1e-9, 0.0, 0.3, 1.0, 1e3, 1e6)):
                lam = Fraction(dual_step(loss, a, s, y))
                at = exact_conjugate(loss, lam, Fraction(y))
                assert at is not None
                # rounding of a - s y, a few ulp, is the accuracy that can be asked for
                reach = Fraction(1e-15) * (1 + abs(lam) + (abs(Fraction(a)) + Fraction(s)) / (1 + Fraction(s)))
                for other in (lam - 4 * reach, lam + 4 * reach, lam - 1, lam + 1, Fraction(0)):
                    rival = exact_conjugate(loss, other, Fraction(y))
                    if rival is not None:
                        pull = ((lam - Fraction(a)) ** 2 - (other - Fraction(a)) ** 2) / (2 * Fraction(s))
                        assert at + pull <= rival


def decimal_root(increasing: Callable[[Decimal], Decimal], low: Decimal, high: Decimal) -> Decimal:
    """The root of an increasing function by bisection to 45 digits."""
    for _ in range(400):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
        if high - low < Decimal("1e-45") * max(abs(high), Decimal("1e-20")):
            break
    return (low + high) / 2


def exact_logistic(a: float, s: float, y: float) -> float:
    with localcontext() as context:
        context.prec = 60
        b, step = Decimal(y) * Decimal(a), Decimal(s)

        def q(t: Decimal) -> Decimal:
            small = (-abs(t)).exp() if abs(t) < 2000 else Decimal(0)
            return small / (1 + small) if t > 0 else 1 / (1 + small)

        root = decimal_root(lambda t: step * t - q(t) - b, b / step, (b + 1) / step)
        return float(-Decimal(y) * q(root))


def exact_poisson(a: float, s: float, y: float) -> float:
    with localcontext() as context:
        context.prec = 60
        step, total = Decimal(s), Decimal(a) + Decimal(y)
        level = abs(total) + step + 2
        # exp(z) + s z = a + y: z is at most log of the level, and at least -(level + exp(z))/s
        high = level.ln() + 1
        z = decimal_root(lambda t: (t.exp() if t > -2000 else 0) + step * t - total, -2 * level / step - 2, high)
        return float(Decimal(a) - step * z)


@pytest.mark.parametrize("rounded", [np.float64, np.float32])
@pytest.mark.parametrize("a", [0.0, -0.3, -0.5, -0.999999, -1.0, -1.5, 0.7, 1e-9, -1e-9, 30.0, -30.0, 1e6, -1e6])
def test_logistic_step_is_exact(a: float, rounded: type) -> None:
    a = float(rounded(a))
    for s in (float(rounded(s)) for s in [*STEPS, 1e-3, 0.2, 700.0]):
        for y in (-1.0, 1.0):
            lam = kernels.dual_step(LOGISTIC, 0.0, a, s, y)
            exact = exact_logistic(a, s, y)
            # q = 1/(1 + exp(t)) is known to t ulp of itself, t <= 745 where it is not 0
            assert lam == pytest.approx(exact, rel=5e-13, abs=1e-300)
            assert abs(lam - exact) <= 4e-16
            assert -1.0 <= y * lam <= 0.0


@pytest.mark.parametrize("rounded", [np.float64, np.float32])
@pytest.mark.parametrize("a", [0.0, -0.3, -1.0, -7.0, 0.7, 30.0, -30.0, 1e6, -1e6])
def test_poisson_step_is_exact(a: float, rounded: type) -> None:
    a = float(rounded(a))
    for s in (float(rounded(s)) for s in STEPS):
        for y in (0.0, 1.0, 7.0, 1e6):
            lam = kernels.dual_step(POISSON, 0.0, a, s, y)
            assert lam == pytest.approx(exact_poisson(a, s, y), rel=1e-13, abs=1e-14 * (1.0 + y))
            assert lam >= -y


@pytest.mark.parametrize("s", [1e-12, 1e-8, 1e-4, 1e-2])
def test_poisson_step_does_not_cancel(s: float) -> None:
    """With a small s the answer is near -s log(y), which the difference exp(z) - y would lose."""
    lam = kernels.dual_step(POISSON, 0.0, 0.0, s, 1e6)
    assert lam == pytest.approx(-s * math.log(1e6), rel=1e-6)
    assert lam == pytest.approx(exact_poisson(0.0, s, 1e6), rel=1e-13)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.sampled_from(LOSSES),
    st.floats(-1e6, 1e6),
    st.floats(-8.0, 8.0),
    st.integers(0, 2),
    st.floats(1e-6, 1e3),
)
def test_dual_step_is_monotone_and_nonexpansive(loss: Loss, a: float, log_s: float, which: int, move: float) -> None:
    """A proximal map p has 0 <= p(a + move) - p(a) <= move, however extreme a and s."""
    s, y = 10.0**log_s, responses(loss)[which % len(responses(loss))]
    first, second = dual_step(loss, a, s, y), dual_step(loss, a + move, s, y)
    tolerance = 1e-14 * (abs(first) + abs(second) + abs(a) / (1.0 + s) + 10.0 * abs(y) + 1.0)
    assert -tolerance <= second - first <= move + abs(a) * 1e-15 + tolerance


@every_loss
def test_not_a_number_goes_through(loss: Loss) -> None:
    """A broken run must show: no clipping may turn NaN into a number, and infinities must not hang."""
    for s in (1e-8, 1.0, 1e8):
        assert math.isnan(dual_step(loss, math.nan, s, responses(loss)[1]))
        for a in (math.inf, -math.inf):
            assert not math.isnan(dual_step(loss, a, s, responses(loss)[1]))


# In compiled code


@numba.njit(parallel=True)
def all_functions(code, k, z, s, y, out):  # type: ignore[no-untyped-def]
    for i in numba.prange(z.shape[0]):
        out[0, i] = kernels.value(code, k, z[i], y[i])
        out[1, i] = kernels.slope(code, k, z[i], y[i])
        out[2, i] = kernels.curvature(code, k, z[i], y[i])
        out[3, i] = kernels.dual_step(code, k, z[i], s, y[i])
        out[4, i] = kernels.conjugate(code, k, out[3, i], y[i])


@every_loss
def test_inside_a_compiled_loop(loss: Loss) -> None:
    """Called from a threaded kernel, all functions agree with their plain Python selves."""
    pairs = np.array(list(points(loss)))
    out = np.full((5, len(pairs)), np.nan)
    all_functions(loss.code, loss.parameter, pairs[:, 0].copy(), 0.8, pairs[:, 1].copy(), out)
    plain = [getattr(f, "py_func", f) for f in (kernels.value, kernels.slope, kernels.curvature)]
    step, conj = (getattr(f, "py_func", f) for f in (kernels.dual_step, kernels.conjugate))
    for i, (z, y) in enumerate(pairs.tolist()):
        expected = [f(loss.code, loss.parameter, z, y) for f in plain]
        expected.append(step(loss.code, loss.parameter, z, 0.8, y))
        expected.append(conj(loss.code, loss.parameter, expected[3], y))
        np.testing.assert_allclose(out[:, i], expected, rtol=1e-13, atol=1e-13)


@every_loss
def test_float32_arguments(loss: Loss) -> None:
    """Single-precision arrays give what double precision gives on the same numbers, to single precision."""
    pairs = np.array([pair for pair in points(loss) if abs(pair[0]) < 10.0], dtype=np.float32)
    narrow, wide = np.empty((5, len(pairs)), np.float32), np.empty((5, len(pairs)))
    z, y, s = pairs[:, 0].copy(), pairs[:, 1].copy(), np.float32(0.8)
    all_functions(loss.code, loss.parameter, z, s, y, narrow)
    all_functions(loss.code, loss.parameter, z.astype(np.float64), float(s), y.astype(np.float64), wide)
    smooth = [not near_kink(loss, float(a), float(b)) for a, b in pairs]
    np.testing.assert_allclose(narrow[:2, smooth], wide[:2, smooth], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(narrow[3], wide[3], rtol=1e-5, atol=1e-5)


# Specifications and responses


def test_specs_round_trip() -> None:
    assert {loss.name for loss in LOSSES} == set(LOSS_NAMES)
    assert [loss.spec for loss in LOSSES] == SPECS
    assert [parse_loss(loss.spec) for loss in LOSSES] == LOSSES
    assert sorted({loss.code for loss in LOSSES}) == list(range(8))
    smooth = {"squared", "huber", "logistic", "squared-hinge", "poisson"}
    assert all(loss.smooth == (loss.name in smooth) for loss in LOSSES)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("squred", "unknown loss 'squred'; did you mean 'squared'?"),
        ("", "unknown loss ''; known: absolute, hinge, huber, "),
        ("squared:2", "loss 'squared' takes no parameter, but 'squared:2' gives one."),
        ("huber", "loss 'huber' needs its parameter: write huber:K."),
        ("huber:", "loss 'huber' needs its parameter: write huber:K."),
        ("huber:x", "'x' in loss 'huber:x' is not a finite number."),
        ("huber:inf", "'inf' in loss 'huber:inf' is not a finite number."),
        ("huber:0", "the threshold K of loss 'huber:K' must be positive, but it is 0."),
        ("quantile:1", "the level Q of loss 'quantile:Q' must lie in (0, 1), but it is 1."),
        ("quantile:0.5:2", "'0.5:2' in loss 'quantile:0.5:2' is not a finite number."),
    ],
)
def test_wrong_specs_get_a_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_loss(spec)
    assert str(caught.value).startswith(sentence)


def test_responses_that_fit() -> None:
    logistic, poisson, squared = parse_loss("logistic"), parse_loss("poisson"), parse_loss("squared")
    assert logistic.prepare_response([0, 1, 1]).tolist() == [-1.0, 1.0, 1.0]
    assert logistic.prepare_response(np.array([True, False])).tolist() == [1.0, -1.0]
    assert logistic.prepare_response(np.array([-1, 1], dtype=np.int8)).tolist() == [-1.0, 1.0]
    assert poisson.prepare_response(np.array([0.0, 3.0], dtype=np.float32)).tolist() == [0.0, 3.0]
    y = np.array([0.5, -2.0])
    prepared = squared.prepare_response(y)
    assert prepared.dtype == np.float64 and prepared.tolist() == [0.5, -2.0] and prepared is not y


@pytest.mark.parametrize(
    ("spec", "y", "sentence"),
    [
        ("squared", [[1.0], [2.0]], "y must be a non-empty vector, but its shape is (2, 1)."),
        ("squared", [], "y must be a non-empty vector, but its shape is (0,)."),
        ("squared", ["a"], "y must hold real numbers, but its type is <U1."),
        ("squared", [1j], "y must hold real numbers, but its type is complex128."),
        ("squared", [0.0, math.nan], "y[1] is nan, not a finite number."),
        ("poisson", [0.0, -math.inf], "y[1] is -inf, not a finite number."),
        ("hinge", [0, 1, 2], "hinge loss needs labels 0 and 1 or -1 and 1, but y[2] is 2."),
        (
            "logistic",
            [-1, 0, 1],
            "logistic loss needs labels 0 and 1 or -1 and 1, but y[1] is 0 beside labels that are -1.",
        ),
        ("logistic", [1, 1], "logistic loss needs two classes, but every label in y is 1."),
        ("poisson", [2, -1], "poisson loss needs counts (nonnegative integers), but y[1] is -1."),
        ("poisson", [2.5], "poisson loss needs counts (nonnegative integers), but y[0] is 2.5."),
    ],
)
def test_responses_that_do_not_fit(spec: str, y: list[object], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_loss(spec).prepare_response(y)
    assert str(caught.value) == sentence
