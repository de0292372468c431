"""Polynomials in n, d_j and deg_j, fitted exactly, in rational numbers, to counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

VARIABLES = ("n", "d_j", "deg_j")
Exponents = tuple[int, int, int]
Point = tuple[int, int, int]

# Up to the third degree and up to the square of each variable: more than any update has, so that the fit would show it.
MONOMIALS: tuple[Exponents, ...] = tuple(
    sorted(((a, b, c) for a, b, c in product(range(3), repeat=3) if a + b + c <= 3), key=lambda e: (-sum(e), e))
)


@dataclass(frozen=True)
class Polynomial:
    """sum of coefficients[a, b, c] n^a d_j^b deg_j^c; only terms that are not zero are kept."""

    coefficients: Mapping[Exponents, Fraction]

    @classmethod
    def of(cls, coefficients: Mapping[Exponents, int | Fraction]) -> Polynomial:
        return cls({e: Fraction(c) for e, c in coefficients.items() if c != 0})

    def __call__(self, n: int, d_j: int, deg_j: int) -> Fraction:
        terms = (c * n ** e[0] * d_j ** e[1] * deg_j ** e[2] for e, c in self.coefficients.items())
        return sum(terms, Fraction(0))

    def __add__(self, other: Polynomial) -> Polynomial:
        both = {**self.coefficients, **other.coefficients}
        return Polynomial.of({e: self.coefficient(e) + other.coefficient(e) for e in both})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and dict(self.coefficients) == dict(other.coefficients)

    def coefficient(self, exponents: Exponents) -> Fraction:
        return self.coefficients.get(exponents, Fraction(0))

    def terms(self) -> list[tuple[Exponents, Fraction]]:
        """In the order in which one writes them: n d_j, n deg_j, n, d_j, ..."""
        return sorted(self.coefficients.items(), key=lambda item: (-sum(item[0]), tuple(-e for e in item[0])))

    def __str__(self) -> str:
        text = ""
        for exponents, c in self.terms():
            sign = (" - " if c < 0 else " + ") if text else ("-" if c < 0 else "")
            text += sign + _term(abs(c), exponents)
        return text or "0"


def monomial_name(exponents: Exponents) -> str:
    """n d_j^2, or 1."""
    powers = [name if e == 1 else f"{name}^{e}" for name, e in zip(VARIABLES, exponents, strict=True) if e]
    return " ".join(powers) or "1"


def _term(c: Fraction, exponents: Exponents) -> str:
    if not any(exponents):
        return str(c)
    return monomial_name(exponents) if c == 1 else f"{c} {monomial_name(exponents)}"


def fit(points: Sequence[Point], values: Sequence[int], *, single: bool = False) -> Polynomial | None:
    """The polynomial through all points, or None where there is none; for a `single` agent one without deg_j.

    Gaussian elimination on one equation a point. There have to be more points than monomials, and in general position,
    so that the polynomial is unique and the rest of the points is a test of it.
    """
    monomials = [e for e in MONOMIALS if not (single and e[2])]
    equations = [
        [*(Fraction(n**a * d**b * deg**c) for a, b, c in monomials), Fraction(value)]
        for (n, d, deg), value in zip(points, values, strict=True)
    ]
    for column in range(len(monomials)):
        _eliminate(equations, column)
    if any(row[-1] for row in equations[len(monomials) :]):
        return None
    return Polynomial.of({e: equations[k][-1] for k, e in enumerate(monomials)})


def _eliminate(equations: list[list[Fraction]], column: int) -> None:
    """Leave `column` in one equation only, number `column`, with the coefficient one."""
    pivot = next((r for r in range(column, len(equations)) if equations[r][column]), None)
    if pivot is None:
        raise ValueError("the points do not determine the polynomial")
    equations[column], equations[pivot] = equations[pivot], equations[column]
    lead = equations[column][column]
    equations[column] = [x / lead for x in equations[column]]
    for r, row in enumerate(equations):
        factor = row[column]
        if r != column and factor:
            equations[r] = [x - factor * y for x, y in zip(row, equations[column], strict=True)]
