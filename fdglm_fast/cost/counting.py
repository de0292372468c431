"""Numbers that count what is done to them.

A `Number` behaves like a float and charges every +, -, *, /, comparison, exp, log and square root to a `Ledger`. The
conventions, under which the paper's formula is exact:

doubling   `x + x`, with the very same number twice, is a doubling, and kept apart: a shift of the exponent, free in the
           paper's count. `Count.operations` leaves doublings out, `Count.doublings` has them.
storing    0 + x, where 0 is the literal whole number that an accumulator starts with, stores x: no operation.
constants  Numbers that stay the same from iteration to iteration (steps, weights, degrees, y, parameters of the loss
           and the penalty) are constants. What is computed from constants and literals alone is computed once, before
           the iteration, and is a constant: not counted. An operation of a constant with a variable is. The entries of
           X are no constants.
rows       A number times an array is a multiplication for each number in it; so are sums of arrays, which NumPy adds.
signs      Negation and absolute value change one bit: free. A comparison is one operation.

An operation of two literals cannot be seen; the updates have none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

DOUBLING = "doubling"
OTHER = "other"
NOBODY = -1


class Ledger:
    """Operations by phase, agent and kind. The agent is the one at work or, if none is named, the number's owner."""

    def __init__(self) -> None:
        self.phase = OTHER
        self.agent = NOBODY
        self.counts: Counter[tuple[str, int, str]] = Counter()

    def charge(self, kind: str, owner: int) -> None:
        self.counts[self.phase, owner if self.agent == NOBODY else self.agent, kind] += 1

    @contextmanager
    def working(self, phase: str, agent: int = NOBODY) -> Iterator[None]:
        """Charge to `phase`, and to `agent` where one is named, else to whoever is at work already."""
        before = self.phase, self.agent
        self.phase, self.agent = phase, self.agent if agent == NOBODY else agent
        try:
            yield
        finally:
            self.phase, self.agent = before


def _over_rows(operation: Callable[[Number, Any], Number]) -> Callable[[Number, Any], Any]:
    @wraps(operation)
    def apply(self: Number, other: Any) -> Any:
        if not isinstance(other, np.ndarray):
            return operation(self, other)
        out = np.empty(other.shape, object)
        out[...] = [operation(self, each) for each in other]
        return out

    return apply


class Number:
    """A float with an owner (an agent) that charges its operations to a ledger. There is no way back to a float."""

    __slots__ = ("constant", "ledger", "owner", "value")
    __array_ufunc__ = None  # NumPy's own numbers leave the operation to us
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: float, ledger: Ledger, owner: int = NOBODY, constant: bool = False) -> None:
        self.value, self.ledger, self.owner, self.constant = value, ledger, owner, constant

    def _charge(self, kind: str, other: Number | float) -> tuple[int, bool]:
        """Charge an operation with `other`; the owner of the result, and whether it is a constant."""
        if not isinstance(other, Number):
            owner, constant = self.owner, self.constant
        else:
            owner = self.owner if self.owner != NOBODY else other.owner
            constant = self.constant and other.constant
        if not constant:
            self.ledger.charge(kind, owner)
        return owner if self.ledger.agent == NOBODY else self.ledger.agent, constant

    def _result(self, kind: str, other: Number | float, value: float) -> Number:
        owner, constant = self._charge(kind, other)
        return Number(value, self.ledger, owner, constant)

    def __add__(self, other: Number | float) -> Number:
        return self._result(DOUBLING if other is self else "+", other, self.value + plain(other))

    def __radd__(self, other: float) -> Number:
        if type(other) is int and other == 0:
            return Number(self.value, self.ledger, self.owner, self.constant)
        return self._result("+", other, other + self.value)

    def __sub__(self, other: Number | float) -> Number:
        return self._result("-", other, self.value - plain(other))

    def __rsub__(self, other: float) -> Number:
        return self._result("-", other, other - self.value)

    @_over_rows
    def __mul__(self, other: Number | float) -> Number:
        return self._result("*", other, self.value * plain(other))

    @_over_rows
    def __rmul__(self, other: Number | float) -> Number:
        return self._result("*", other, plain(other) * self.value)

    def __truediv__(self, other: Number | float) -> Number:
        return self._result("/", other, self.value / plain(other))

    def __rtruediv__(self, other: float) -> Number:
        return self._result("/", other, other / self.value)

    def __lt__(self, other: Number | float) -> bool:
        self._charge("compare", other)
        return self.value < plain(other)

    def __le__(self, other: Number | float) -> bool:
        self._charge("compare", other)
        return self.value <= plain(other)

    def __gt__(self, other: Number | float) -> bool:
        self._charge("compare", other)
        return self.value > plain(other)

    def __ge__(self, other: Number | float) -> bool:
        self._charge("compare", other)
        return self.value >= plain(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Number, float, int)):
            return NotImplemented
        self._charge("compare", other)
        return self.value == plain(other)

    def __ne__(self, other: object) -> bool:
        if not isinstance(other, (Number, float, int)):
            return NotImplemented
        self._charge("compare", other)
        return self.value != plain(other)

    def __neg__(self) -> Number:
        return Number(-self.value, self.ledger, self.owner, self.constant)

    def __abs__(self) -> Number:
        return Number(abs(self.value), self.ledger, self.owner, self.constant)

    def function(self, kind: str, apply: Callable[[float], float]) -> Number:
        """A function of one number, as one operation."""
        return self._result(kind, 0.0, apply(self.value))


def plain(number: Number | float) -> float:
    return number.value if isinstance(number, Number) else number


def variable(number: Number | float, like: Number) -> Number:
    """The same value as a variable: a branch may return a literal or a constant, but what is stored is a result."""
    if isinstance(number, Number) and not number.constant:
        return number
    return Number(plain(number), like.ledger, like.owner)


def _counted(kind: str, apply: Callable[[float], float]) -> Callable[[Number | float], Number | float]:
    def function(x: Number | float) -> Number | float:
        return x.function(kind, apply) if isinstance(x, Number) else apply(x)

    return function


class CountingMath:
    """Stands in for the module `math` in the kernels' pointwise functions."""

    inf, nan = math.inf, math.nan
    exp = staticmethod(_counted("exp", math.exp))
    log = staticmethod(_counted("log", math.log))
    log1p = staticmethod(_counted("log", math.log1p))
    sqrt = staticmethod(_counted("sqrt", math.sqrt))
