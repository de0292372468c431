"""Why a run ends. Each reason documents what it certifies."""

from __future__ import annotations

from enum import Enum


class StopReason(Enum):
    """ITERATIONS   the number of iterations that was asked for is done
    TOLERANCE    the optimality residual of the average or of the last iterate is at most --tol
    TIME         --time-limit seconds have passed since the solver started
    INTERRUPTED  the caller (Ctrl-C on the command line) asked to stop
    NOT_FINITE   an iterate left the finite numbers; the result holds the last state that was seen finite
    DIVERGED     with steps that were forced, theta has grown to GROWTH times R; the result holds the state before
    """

    ITERATIONS = "iterations"
    TOLERANCE = "tolerance"
    TIME = "time-limit"
    INTERRUPTED = "interrupted"
    NOT_FINITE = "not-finite"
    DIVERGED = "diverged"


BREAKDOWNS = frozenset({StopReason.NOT_FINITE, StopReason.DIVERGED})
GROWTH = 1e8  # an entry of theta that is so many times R is on its way to infinity
CHECK_EVERY = 50  # iterations between measurements when a tolerance is asked for
FINITE_EVERY = 100  # iterations between looks at the iterates


def exit_code(reason: StopReason, tolerance_asked: bool) -> int:
    """The process's exit code: 0 done, 4 stopped before the tolerance asked for, 5 breakdown, 130 interrupted."""
    if reason in BREAKDOWNS:
        return 5
    if reason is StopReason.INTERRUPTED:
        return 130
    if tolerance_asked and reason is not StopReason.TOLERANCE:
        return 4
    return 0
