"""Fitting polynomials exactly, and noticing what is none."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdglm_fast.cost.polynomial import MONOMIALS, Polynomial, fit

GRID = list(product((1, 2, 3), repeat=3))


def test_prints_as_one_writes() -> None:
    assert str(Polynomial.of({(1, 1, 0): 4, (1, 0, 1): 2, (1, 0, 0): 7, (0, 1, 0): 5})) == (
        "4 n d_j + 2 n deg_j + 7 n + 5 d_j"
    )
    assert str(Polynomial.of({(2, 0, 0): -1, (0, 0, 0): Fraction(1, 2), (0, 1, 0): 0})) == "-n^2 + 1/2"
    assert str(Polynomial.of({(1, 0, 0): 1, (0, 0, 1): -3})) == "n - 3 deg_j"
    assert str(Polynomial({})) == "0"


def test_adds_and_compares() -> None:
    one, other = Polynomial.of({(1, 0, 0): 2}), Polynomial.of({(1, 0, 0): -2, (0, 1, 0): 1})
    assert one + other == Polynomial.of({(0, 1, 0): 1})
    assert one != other


@settings(derandomize=True, max_examples=10, deadline=None)
@given(st.lists(st.fractions(-9, 9, max_denominator=4), min_size=len(MONOMIALS), max_size=len(MONOMIALS)))
def test_finds_any_polynomial_again(coefficients: list[Fraction]) -> None:
    wanted = Polynomial.of(dict(zip(MONOMIALS, coefficients, strict=True)))
    assert fit(GRID, [wanted(*point) for point in GRID]) == wanted  # type: ignore[misc]


def test_one_count_that_is_off_by_one_is_no_polynomial() -> None:
    values = [4 * n * d + 2 * n * g + 7 * n + 5 * d for n, d, g in GRID]
    assert str(fit(GRID, values)) == "4 n d_j + 2 n deg_j + 7 n + 5 d_j"
    for k in range(len(values)):
        assert fit(GRID, [value + (i == k) for i, value in enumerate(values)]) is None


def test_a_single_agent_has_no_degree() -> None:
    points = [(n, d, 0) for n, d in product((1, 2, 3), repeat=2)]
    values = [4 * n * d + n + 5 * d for n, d, _ in points]
    assert str(fit(points, values, single=True)) == "4 n d_j + n + 5 d_j"
    assert fit(points, [*values[:-1], values[-1] + 1], single=True) is None


def test_too_few_points_are_refused() -> None:
    with pytest.raises(ValueError, match="do not determine"):
        fit([(n, n, n) for n in range(1, 30)], list(range(29)))
