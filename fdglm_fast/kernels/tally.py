"""Counting what the kernels execute, agent by agent and phase by phase.

A kernel notes the operations of each routine it runs: those of the sums as they are really formed (shared sums,
complements), padding included. Without a tally, which is the normal case, `note` compiles to nothing.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import overload

from fdglm_fast.kernels._jit import INLINED

# Phases. SHARED are the sums that belong to no single agent.
THETA, V, LAMBDA, SHARED = range(4)
PHASES = ("theta", "v", "lambda", "shared")


def note(tally: Any, thread: int, phase: int, agent: int, operations: int) -> None:
    """tally[thread, phase, agent] += operations, if there is a tally."""
    if tally is not None:
        tally[thread, phase, agent] += operations


@overload(note, jit_options=INLINED)
def _note(tally, thread, phase, agent, operations):  # type: ignore[no-untyped-def]
    if isinstance(tally, types.NoneType):
        return lambda tally, thread, phase, agent, operations: None

    def counted(tally, thread, phase, agent, operations):  # type: ignore[no-untyped-def]
        tally[thread, phase, agent] += operations

    return counted
