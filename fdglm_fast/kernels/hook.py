"""Calling back from a kernel: a Python function by its address, between two parallel loops.

What a kernel is given (tens of arrays) takes Python longer to hand over than a small part of an iteration takes to
compute. A kernel that stays inside, and asks Python for the little that it cannot do itself, is called once.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import overload

from fdglm_fast.kernels._jit import INLINED
from fdglm_fast.kernels.lanes import intrinsic

# What a kernel asks for. Before and after a piece of an iteration on ranks: to wait for its messages, and to send what
# it made. In the fast method: to send lambda for a look, to set the anchor, to add the other ranks' parts of sums.
READY, DONE, FIRST_READY, FIRST_DONE, LOOK, ANCHOR, SIZE, DISTANCES = range(8)

Hook = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)  # takes the interpreter's lock by itself


def address_of(hook: Any) -> int:
    """Where a `Hook` is; it must be kept for as long as it may be called."""
    return ctypes.cast(hook, ctypes.c_void_p).value or 0


def ask(address: int, event: int, number: int) -> int:
    """The answer of the hook at `address`."""
    return int(Hook(address)(event, number))


@intrinsic
def _ask(typing: Any, address: Any, event: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        target = builder.inttoptr(arguments[0], ir.FunctionType(word, [word, word]).as_pointer())
        return builder.call(target, arguments[1:])

    whole = types.int64
    return whole(whole, whole, whole), generate


@overload(ask, jit_options=INLINED)
def _ask_compiled(address, event, number):  # type: ignore[no-untyped-def]
    return lambda address, event, number: _ask(address, event, number)
