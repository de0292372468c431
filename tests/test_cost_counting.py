"""Counting numbers: each convention by itself, without the kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fdglm_fast.cost.counting import DOUBLING, NOBODY, CountingMath, Ledger, Number, plain, variable

ledger = Ledger()


@pytest.fixture(autouse=True)
def empty() -> None:
    ledger.counts.clear()


def kinds() -> dict[str, int]:
    found: dict[str, int] = {}
    for (_, _, kind), count in ledger.counts.items():
        found[kind] = found.get(kind, 0) + count
    return found


def number(value: float, owner: int = NOBODY) -> Number:
    return Number(value, ledger, owner)


def constant(value: float) -> Number:
    return Number(value, ledger, constant=True)


@pytest.mark.parametrize(
    ("operation", "value", "kind"),
    [
        (lambda x, y: x + y, 5.0, "+"),
        (lambda x, y: x - y, 1.0, "-"),
        (lambda x, y: x * y, 6.0, "*"),
        (lambda x, y: x / y, 1.5, "/"),
        (lambda x, y: x < y, False, "compare"),
        (lambda x, y: x <= y, False, "compare"),
        (lambda x, y: x > y, True, "compare"),
        (lambda x, y: x >= y, True, "compare"),
        (lambda x, y: x == y, False, "compare"),
        (lambda x, y: x != y, True, "compare"),
    ],
)
def test_every_operation_is_one(operation: Callable[[Any, Any], Any], value: float, kind: str) -> None:
    for x, y in [(number(3.0), number(2.0)), (number(3.0), 2.0), (number(3.0), constant(2.0)), (3.0, number(2.0))]:
        ledger.counts.clear()
        found = operation(x, y)
        assert plain(found) == value
        assert kinds() == {kind: 1}


def test_doubling_needs_the_very_same_number() -> None:
    x = number(3.0)
    assert (x + x).value == 6.0
    assert kinds() == {DOUBLING: 1}
    assert (x + number(3.0)).value == 6.0
    assert kinds() == {DOUBLING: 1, "+": 1}


def test_an_accumulator_that_starts_with_the_whole_number_zero_stores() -> None:
    x = number(3.0)
    stored = 0 + x
    assert stored.value == 3.0 and kinds() == {}
    assert stored is not x  # so that stored + x is no doubling
    assert (stored + x).value == 6.0
    assert kinds() == {"+": 1}


@pytest.mark.parametrize("add", [lambda x: x + 0, lambda x: 0.0 + x, lambda x: x + 0.0, lambda x: 1 + x])
def test_other_additions_of_literals_count(add: Callable[[Number], Number]) -> None:
    add(number(3.0))
    assert kinds() == {"+": 1}


def test_constants_are_folded_and_variables_are_not() -> None:
    s, y = constant(0.5), constant(2.0)
    folded = (1.0 + s) * y
    assert folded.constant and kinds() == {}
    assert CountingMath.exp(s).constant and not (s > y) and kinds() == {}  # type: ignore[union-attr]
    a = number(4.0)
    found = (a - s * y) / (1.0 + s)  # the dual step of squared loss: two operations
    assert found.value == 2.0 and not found.constant
    assert kinds() == {"-": 1, "/": 1}


def test_signs_are_free_and_functions_are_one() -> None:
    x = number(-2.0)
    assert abs(-x).value == 2.0 and kinds() == {}
    assert plain(CountingMath.exp(x)) == math.exp(-2.0)
    assert plain(CountingMath.log(-x)) == math.log(2.0) and plain(CountingMath.log1p(-x)) == math.log1p(2.0)
    assert plain(CountingMath.sqrt(-x)) == math.sqrt(2.0) and CountingMath.exp(0.0) == 1.0
    assert kinds() == {"exp": 1, "log": 2, "sqrt": 1}


def test_numpy_leaves_the_operation_to_the_number() -> None:
    x = number(3.0)
    assert (np.float64(2.0) * x).value == 6.0  # type: ignore[attr-defined]
    assert kinds() == {"*": 1}
    array = np.empty(2, object)
    array[:] = [x, number(1.0)]
    array[0] += array[1]
    assert array[0].value == 4.0 and kinds() == {"*": 1, "+": 1}


@pytest.mark.parametrize("escape", [float, int, bool, math.sqrt, lambda x: x**2, lambda x: x // 2.0, hash])
def test_there_is_no_way_to_compute_unseen(escape: Callable[[Any], Any]) -> None:
    x = number(3.0)
    if escape is bool:
        assert bool(x)  # a truth value is no arithmetic
        return
    with pytest.raises(TypeError):
        escape(x)


def test_phases_and_agents() -> None:
    mine, yours = number(1.0, 1), number(2.0, 2)
    with ledger.working("v", 5):
        shared = mine + yours
        with ledger.working("lambda"):
            shared = shared * 2.0
    with ledger.working("theta"):
        yours - 1.0
        yours * shared  # the first operand's owner
    shared + 1.0
    assert shared.owner == 5
    assert ledger.counts == {
        ("v", 5, "+"): 1,
        ("lambda", 5, "*"): 1,
        ("theta", 2, "-"): 1,
        ("theta", 2, "*"): 1,
        ("other", 5, "+"): 1,
    }


def test_what_a_branch_returns_becomes_a_variable() -> None:
    x = number(1.0, 3)
    assert variable(x, x) is x
    for returned in (0.0, constant(2.0)):
        found = variable(returned, x)
        assert not found.constant and found.owner == 3 and found.value == plain(returned)
