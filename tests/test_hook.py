"""A kernel that asks Python: what it asks and what it is told, compiled and not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from fdglm_fast.kernels._jit import kernel
from fdglm_fast.kernels.hook import Hook, address_of, ask


@kernel
def doubled(hook: int, values: Any) -> Any:
    """Double every value, asking before each; ends when the answer is negative, and says how many were done."""
    for k in range(values.shape[0]):
        if ask(hook, 7, k) < 0:
            return k
        for b in prange(values.shape[1]):
            values[k, b] *= 2.0
    return values.shape[0]


def test_the_hook_sees_what_the_kernel_has_done_so_far() -> None:
    values, heard, seen = np.ones((5, 40)), [], []

    def answer(event: int, number: int) -> int:
        heard.append((event, number))
        seen.append(values.sum())
        return 0

    hook = Hook(answer)
    assert doubled(address_of(hook), values) == 5
    assert heard == [(7, k) for k in range(5)]
    assert seen == [200.0 + 40.0 * k for k in range(5)]
    assert (values == 2.0).all()


def test_a_negative_answer_ends_the_kernel() -> None:
    values = np.ones((5, 3))
    hook = Hook(lambda event, number: -1 if number == 2 else 0)
    assert doubled(address_of(hook), values) == 2
    assert values[:, 0].tolist() == [2.0, 2.0, 1.0, 1.0, 1.0]


def test_without_compiling() -> None:
    values = np.ones((2, 3))
    hook = Hook(lambda event, number: 0)
    plain: Any = getattr(doubled, "py_func", doubled)  # there is nothing else where the JIT is off
    assert plain(address_of(hook), values) == 2
    assert (values == 2.0).all()
