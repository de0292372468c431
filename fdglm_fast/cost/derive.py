"""The paper's formula, derived: fitted polynomials beside the paper's, coefficient by coefficient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fdglm_fast.cost.fitting import Fit, Kind, add, fit_kinds
from fdglm_fast.cost.instance import PAPER
from fdglm_fast.cost.polynomial import Exponents, Polynomial, monomial_name

ND, NG, N, D = (1, 1, 0), (1, 0, 1), (1, 0, 0), (0, 1, 0)

# What the paper's footnotes say, written out; `fdglm_fast.cost.model` has the same as code.
THETA = {ND: 2, D: 4}
THETA_NO_PENALTY = {ND: 2, D: 1}
V = {NG: 1, N: 3}
LAMBDA = {ND: 2, NG: 1, N: 4, D: 1}


@dataclass(frozen=True)
class Case:
    """A statement about the cost: what it is about, the formula as one would write it, and its terms by phase."""

    name: str
    formula: str
    kind: Kind
    paper: Mapping[str, Mapping[Exponents, int]]

    @property
    def phases(self) -> Sequence[str]:
        return tuple(self.paper)


CASES = (
    Case("l1 penalty", "n (4 d_j + 2 deg_j + 7) + 5 d_j", Kind(), {"theta": THETA, "v": V, "lambda": LAMBDA}),
    Case(
        "no penalty: 3 d_j less",
        "n (4 d_j + 2 deg_j + 7) + 2 d_j",
        Kind(penalty="none"),
        {"theta": THETA_NO_PENALTY, "v": V, "lambda": LAMBDA},
    ),
    Case(
        "agent 1, squared loss: 2 n more",
        "n (4 d_j + 2 deg_j + 9) + 5 d_j",
        Kind(),
        {"theta": THETA, "v": V, "lambda": LAMBDA, "dual": {N: 2}},
    ),
    Case(
        "one agent",
        "n (4 d + 1) + 5 d",
        Kind(single=True),
        {"theta": THETA, "v": {}, "lambda": {ND: 2, N: 1, D: 1}},
    ),
    Case(
        "weighted edges: 2 n deg_j more",
        "n (4 d_j + 4 deg_j + 7) + 5 d_j",
        Kind(weighted=True),
        {"theta": THETA, "v": {NG: 2, N: 3}, "lambda": {ND: 2, NG: 2, N: 4, D: 1}},
    ),
)


@dataclass(frozen=True, eq=False)
class Derivation:
    """A case and the fit that is to confirm it."""

    case: Case
    fit: Fit

    def fitted(self) -> Polynomial | None:
        return add([self.fit.phases[phase] for phase in self.case.phases])

    def paper(self) -> Polynomial:
        total = Polynomial({})
        for terms in self.case.paper.values():
            total = total + Polynomial.of(terms)
        return total

    def confirmed(self) -> bool:
        """Every coefficient of every phase is the paper's, nothing was done outside of the phases, no count was off."""
        phases = self.case.paper.items()
        same = all(self.fit.phases[phase] == Polynomial.of(terms) for phase, terms in phases)
        return same and self.fit.phases["other"] == Polynomial({}) and not self.fit.wrong

    def as_json(self) -> dict[str, Any]:
        fitted, paper = self.fitted(), self.paper()
        return {
            "case": self.case.name,
            "formula": self.case.formula,
            "phases": {
                phase: {"fitted": _text(self.fit.phases[phase]), "paper": str(Polynomial.of(terms))}
                for phase, terms in self.case.paper.items()
            },
            "fitted": _text(fitted),
            "paper": str(paper),
            "coefficients": [] if fitted is None else _coefficients(fitted, paper),
            "doublings": _text(add([self.fit.doublings[phase] for phase in PAPER])),
            "points": self.fit.points,
            "held_out": self.fit.held_out,
            "confirmed": self.confirmed(),
            "wrong": self.fit.wrong,
        }


def derive() -> list[Derivation]:
    """Count, fit and compare, for all cases."""
    kinds = list(dict.fromkeys(case.kind for case in CASES))
    fits = dict(zip(kinds, fit_kinds(kinds)[0], strict=True))
    return [Derivation(case, fits[case.kind]) for case in CASES]


def _coefficients(fitted: Polynomial, paper: Polynomial) -> list[dict[str, Any]]:
    """Every monomial that either has, in the order in which one writes them."""
    both = {**fitted.coefficients, **paper.coefficients}
    order = [exponents for exponents, _ in Polynomial(both).terms()]
    return [
        {
            "monomial": monomial_name(e),
            "fitted": str(fitted.coefficient(e)),
            "paper": str(paper.coefficient(e)),
            "difference": str(fitted.coefficient(e) - paper.coefficient(e)),
        }
        for e in order
    ]


def _text(polynomial: Polynomial | None) -> str | None:
    return None if polynomial is None else str(polynomial)
