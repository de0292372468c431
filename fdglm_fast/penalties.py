"""The penalties: their names and weights, and the conjugates from which a duality gap is made.

Proximal maps and values are compiled and live in `fdglm_fast.kernels.penalties`; this module stays free of
Numba.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import UsageError, unknown_name
from fdglm_fast.losses import parse_number, show_number

# Codes by which compiled code tells the penalties apart.
NONE, L1, L2, ELASTIC_NET, GROUP_L2, NONNEG, BOX = range(7)

_CODES = {
    "none": NONE,
    "l1": L1,
    "l2": L2,
    "elastic-net": ELASTIC_NET,
    "group-l2": GROUP_L2,
    "nonneg": NONNEG,
    "box": BOX,
}
_FORMS = {ELASTIC_NET: "elastic-net:RATIO", BOX: "box:LO:HI"}
PENALTY_NAMES: tuple[str, ...] = tuple(_CODES)

# A dual point scaled onto the edge of the domain may miss it by rounding.
SLACK = 1e-12


@dataclass(frozen=True)
class Penalty:
    """A separable convex penalty r(theta) with weight `reg`.

    none 0;  l1 reg |t|_1;  l2 reg/2 |t|_2^2;  elastic-net:a reg (a |t|_1 + (1-a)/2 |t|_2^2);
    group-l2 reg sum_g sqrt(|g|) |t_g|_2;  nonneg and box:a:b the indicators of t >= 0 and of a <= t <= b.
    """

    name: str
    code: int
    reg: float
    a: float = 0.0
    b: float = 0.0

    @property
    def spec(self) -> str:
        """The string that `parse_penalty` turns, with `reg`, into this penalty."""
        if self.code == ELASTIC_NET:
            return f"{self.name}:{show_number(self.a)}"
        if self.code == BOX:
            return f"{self.name}:{show_number(self.a)}:{show_number(self.b)}"
        return self.name

    @property
    def strongly_convex(self) -> float:
        """The modulus mu: the largest mu with r - mu/2 |theta|^2 convex."""
        return self._weights()[1]

    def _weights(self) -> tuple[float, float]:
        """(w1, w2) with r(t) = w1 |t|_1 + w2/2 |t|_2^2; zeros where r has no such part."""
        if self.code == L1:
            return self.reg, 0.0
        if self.code == L2:
            return 0.0, self.reg
        if self.code == ELASTIC_NET:
            return self.reg * self.a, self.reg * (1.0 - self.a)
        return 0.0, 0.0

    def conjugate(self, c: NDArray[np.float64], groups: NDArray[np.int64]) -> float:
        """r*(c) = sup_t c't - r(t), infinite where the supremum is.

        w1 |t|_1 + w2/2 |t|^2 has sum max(|c| - w1, 0)^2/(2 w2), and for w2 = 0 the indicator of |c| <= w1;
        group-l2 the indicator of |c_g|_2 <= reg sqrt(|g|); nonneg that of c <= 0; box has sum max(a c, b c).
        """
        if self.code == BOX:
            return float(np.maximum(self.a * c, self.b * c).sum())
        if self.code == NONNEG:
            return 0.0 if (c <= 0.0).all() else math.inf
        w1, w2 = self._weights()
        if w2 > 0.0:
            return float((np.maximum(np.abs(c) - w1, 0.0) ** 2).sum() / (2.0 * w2))
        sizes, limits = self._ball(c, groups)
        return 0.0 if (sizes <= limits * (1.0 + SLACK)).all() else math.inf

    def dual_scale(self, c: NDArray[np.float64], groups: NDArray[np.int64]) -> float | None:
        """The largest alpha in [0, 1] with r*(alpha c) finite; None where only alpha = 0 would do.

        Without a norm in r (none, or any weighted penalty at reg = 0), and for nonneg, a c of infinite r*
        cannot be scaled into the domain, and no dual point is claimed.
        """
        if self.conjugate(c, groups) < math.inf:
            return 1.0
        if self.code == NONNEG:
            return None
        sizes, limits = self._ball(c, groups)
        outside = sizes > limits
        alpha = float((limits[outside] / sizes[outside]).min())
        return alpha if alpha > 0.0 else None

    def _ball(
        self, c: NDArray[np.float64], groups: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sizes and limits such that the domain of a norm's conjugate is sizes(c) <= limits, entrywise."""
        if self.code == GROUP_L2:
            members = np.bincount(groups)
            return np.sqrt(np.bincount(groups, weights=c * c)), self.reg * np.sqrt(members)
        return np.abs(c), np.full(c.shape, self._weights()[0])


def group_scratch(groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """The scratch `norms` that the compiled group penalty asks for: three numbers for each group."""
    return np.zeros((3, int(groups.max()) + 1 if groups.size else 0))


def parse_penalty(spec: str, reg: float = 0.0) -> Penalty:
    """The penalty named by NAME, elastic-net:RATIO or box:LO:HI, with weight `reg`."""
    name, *texts = spec.split(":")
    if name not in _CODES:
        raise unknown_name("penalty", name, PENALTY_NAMES)
    code = _CODES[name]
    form = _FORMS.get(code, name)
    if len(texts) != form.count(":"):
        if not form.count(":"):
            raise UsageError(f"penalty '{name}' takes no parameter, but '{spec}' gives one.")
        raise UsageError(f"penalty '{name}' needs the form {form}, but '{spec}' was given.")
    a, b = ([parse_number("penalty", spec, text) for text in texts] + [0.0, 0.0])[:2]
    _check_range(code, a, b)
    _check_reg(code, name, reg)
    return Penalty(name, code, float(reg), a, b)


def _check_range(code: int, a: float, b: float) -> None:
    if code == ELASTIC_NET and not 0.0 <= a <= 1.0:
        given = show_number(a)
        raise UsageError(f"the RATIO of penalty 'elastic-net:RATIO' must lie in [0, 1], but it is {given}.")
    if code == BOX and a > b:
        given = f"{show_number(a)} > {show_number(b)}"
        raise UsageError(f"penalty 'box:LO:HI' needs LO <= HI, but {given}.")


def _check_reg(code: int, name: str, reg: float) -> None:
    if not (math.isfinite(reg) and reg >= 0.0):
        raise UsageError(f"the penalty's weight must be a finite number >= 0, but it is {show_number(reg)}.")
    if reg > 0.0 and code in (NONE, NONNEG, BOX):
        raise UsageError(f"penalty '{name}' has no weight, but the weight {show_number(reg)} was given.")
