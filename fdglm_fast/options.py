"""How to iterate: what a user may choose, checked without the compiler, so that a wrong choice is told at once."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fdglm_fast.errors import UsageError, unknown_name
from fdglm_fast.trace import record_points

if TYPE_CHECKING:
    from fdglm_fast.evaluate import Point

RULES = ("theorem", "tight")
SCHEDULES = ("auto", "agents", "tiles")
METHODS = ("paper", "fast")
FAST_TOLERANCE = 1e-6  # of the fast method, unless another is asked for


def check_method(name: str) -> None:
    """Raise UsageError where there is no such method."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)


@dataclass(frozen=True)
class Given:
    """What the user fixed of the steps; None means: find out."""

    rule: str = "theorem"
    sigma: float | None = None
    tau: float | None = None
    chi: float | None = None
    D: float | None = None
    delta: float | None = None
    R: float | None = None
    force: bool = False

    def check(self) -> None:
        if self.rule not in RULES:
            raise unknown_name("step rule", self.rule, RULES)
        for name in ("sigma", "tau", "chi", "D", "delta", "R"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0.0):
                raise UsageError(f"{name} must be a positive number, not {value}.")
        if (self.sigma is None) != (self.tau is None):
            raise UsageError("sigma and tau must be given together.")

    def check_unused(self) -> None:
        """The fast method finds its steps from the agents' own data."""
        used = [name for name in ("sigma", "tau", "chi", "D", "delta", "R") if getattr(self, name) is not None]
        if used or self.rule != RULES[0] or self.force:
            what = used[0] if used else "a rule for the steps"
            raise UsageError(f"{what} belongs to --method paper; the fast method finds its own steps.")


@dataclass(frozen=True)
class Options:
    """How to run. `interrupted` is asked between calls of the kernels; `progress` is told how far it is.

    `method` is the paper's or the fast one (`fdglm_fast.halpern`), which has a tolerance unless told otherwise.

    `gossip` is the number of exchanges in an iteration of the fast method (`fdglm_fast.gossip`). `primal_weight` is
    its weight between primal and dual, kept as it is; without it there is a first guess, which restarts change.

    `checkpoint` is a file that the whole state is written to every `checkpoint_every` seconds and at the end;
    `resume` is such a file, to go on from.
    """

    method: str = "paper"
    gossip: int = 1
    primal_weight: float | None = None
    iterations: int = 5000
    tol: float | None = None
    time_limit: float | None = None
    record: str = "log:60"
    steps: Given = field(default_factory=Given)
    schedule: str = "auto"
    threads: int | None = None
    checkpoint: str | None = None
    checkpoint_every: float = 60.0
    resume: str | None = None
    progress: Callable[[int, Point | None], None] | None = None
    interrupted: Callable[[], bool] | None = None

    @property
    def tolerance(self) -> float | None:
        """The optimality residual to stop at, if there is one."""
        return FAST_TOLERANCE if self.tol is None and self.method == "fast" else self.tol

    def check(self) -> None:
        check_method(self.method)
        if self.method == "fast":
            self.steps.check_unused()
        if self.gossip < 1 or (self.gossip > 1 and self.method != "fast"):
            raise UsageError(f"--gossip {self.gossip}: more than one round an iteration is for --method fast.")
        self._check_weight()
        if self.iterations < 1:
            raise UsageError(f"the number of iterations must be at least 1, not {self.iterations}.")
        if self.tol is not None and not 0.0 < self.tol < math.inf:
            raise UsageError(f"the tolerance must be a positive number, not {self.tol}.")
        if self.time_limit is not None and not self.time_limit > 0.0:
            raise UsageError(f"the time limit must be positive, not {self.time_limit} seconds.")
        if self.schedule not in SCHEDULES:
            raise unknown_name("schedule", self.schedule, SCHEDULES)
        check_threads(self.threads, _cores())
        record_points(self.record, self.iterations)
        self.steps.check()

    def _check_weight(self) -> None:
        w = self.primal_weight
        if w is not None and self.method != "fast":
            raise UsageError("--primal-weight is for --method fast.")
        if w is not None and not (math.isfinite(w) and w > 0.0):
            raise UsageError(f"the primal weight must be a positive number, not {w}.")


def check_threads(threads: int | None, most: int) -> None:
    if threads is not None and not 1 <= threads <= most:
        raise UsageError(f"--threads must be from 1 to {most} on this machine, not {threads}.")


def _cores() -> int:
    """How many threads the kernels will have, by the rule of the compiler that is not imported yet."""
    chosen = os.environ.get("NUMBA_NUM_THREADS", "")
    if chosen.isdecimal():
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
