"""What can go wrong, and the exit code that says so.

Every error that a user can cause is raised as one of these, with one sentence that names the fault.
The command line prints the sentence and leaves with `exit_code`; a library user catches `FdglmError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FdglmError(Exception):
    """Base of all errors raised on purpose; `exit_code` is the process's."""

    exit_code = 1


class UsageError(FdglmError):
    """An option that makes no sense: unknown name, parameter out of range, output that exists."""

    exit_code = 2


class DataError(FdglmError):
    """Data or a graph that cannot be used: missing, malformed, non-finite, disconnected."""

    exit_code = 3


class NumericalError(FdglmError):
    """The iterates left the finite numbers."""

    exit_code = 5


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}."
    return UsageError(f"unknown {kind} '{name}'; {hint}")
