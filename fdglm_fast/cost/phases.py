"""Which routine of the kernels belongs to which phase and agent. For the counting process only.

The kernels call each other through the names of their modules. Putting a wrapper in the place of a name tells the
ledger who is at work, without a change of the kernels: every operation is charged to the innermost routine below. What
is done outside of them all is `other`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from fdglm_fast.cost.counting import NOBODY, CountingMath, Ledger, Number, variable
from fdglm_fast.kernels import fast_updates, iterate, losses, penalties, theta, updates


class Routine(NamedTuple):
    """A name in a module of the kernels, its phase, and whom to charge: agent 1, the one in an argument, or neither."""

    module: Any
    name: str
    phase: str
    argument: int | None = None
    first_agent: bool = False


ROUTINES = (
    Routine(iterate, "theta_update", "theta"),  # all agents' columns: a number knows its owner
    Routine(iterate, "sum_groups", "theta"),
    Routine(iterate, "g_update", "theta", argument=0),
    Routine(theta, "prox_all", "prox"),
    Routine(theta, "add_theta", "average"),
    Routine(iterate, "v_update", "v", argument=0),
    Routine(iterate, "shared_sum", "shared", first_agent=True),
    Routine(updates, "lambda_half", "lambda", argument=0),
    Routine(updates, "loss_step", "dual", first_agent=True),
    Routine(updates, "report_dual", "average", first_agent=True),
    # u is formed where v+ is known, but the paper counts it, like w, with the lambda update that needs it.
    Routine(updates, "extrapolate", "lambda"),
    Routine(theta, "extrapolate", "lambda"),
    Routine(fast_updates, "reflect", "lambda"),
    Routine(fast_updates, "q_line", "lambda", argument=0),
    Routine(fast_updates, "mix", "lambda", argument=0),
    Routine(fast_updates, "prepare", "lambda", argument=0),
    Routine(updates, "listen", "lambda", argument=0),
    Routine(updates, "first_half", "lambda", first_agent=True),
    Routine(updates, "first_follow", "lambda", first_agent=True),
    # In the fast method lambda_1^half, and agent 1's late vector, there and at its neighbours, are counted with agent
    # 1's dual step.
    Routine(fast_updates, "first_step", "dual", first_agent=True),
    Routine(updates, "answer", "dual", first_agent=True),
    Routine(fast_updates, "hear", "dual", first_agent=True),
)


def install(ledger: Ledger, dual_steps: list[int]) -> None:
    """Make the kernels of this process report to `ledger`, and the operations of each dual step to `dual_steps`."""
    for routine in ROUTINES:
        original = getattr(routine.module, routine.name)
        setattr(routine.module, routine.name, _charged(original, routine, ledger))
    setattr(updates, "dual_step", _measured(updates.dual_step, ledger, dual_steps))  # noqa: B010
    setattr(fast_updates, "clear", _cleared(ledger))  # noqa: B010
    setattr(penalties, "prox", _stored(penalties.prox, 4))  # noqa: B010
    setattr(penalties, "soft_threshold", _stored(penalties.soft_threshold, 0))  # noqa: B010
    for module in (losses, penalties):
        setattr(module, "math", CountingMath)  # noqa: B010


def _charged(original: Callable[..., Any], routine: Routine, ledger: Ledger) -> Callable[..., Any]:
    @wraps(original)
    def call(*arguments: Any) -> Any:
        agent = NOBODY if routine.argument is None else int(arguments[routine.argument])
        with ledger.working(routine.phase, 0 if routine.first_agent else agent):
            return original(*arguments)

    return call


def _cleared(ledger: Ledger) -> Callable[..., Any]:
    """A row of zeros is a row of numbers like any other: adding it up counts."""

    def call(Z: Any, tile: int, row: int) -> None:
        Z[tile, row] = [Number(0.0, ledger, row) for _ in range(Z.shape[2])]

    return call


def _stored(prox: Callable[..., Any], argument: int) -> Callable[..., Any]:
    """A proximal map of an argument may answer with a literal or the end of a box; theta is a variable all the same."""

    @wraps(prox)
    def call(*arguments: Any) -> Any:
        return variable(prox(*arguments), arguments[argument])

    return call


def _measured(dual_step: Callable[..., Any], ledger: Ledger, steps: list[int]) -> Callable[..., Any]:
    """The same for lambda, which a loss may clip; each step's operations are kept, because they can differ."""

    @wraps(dual_step)
    def call(code: int, k: Any, a: Any, s: Any, y: Any) -> Any:
        before = ledger.counts.total()
        found = variable(dual_step(code, k, a, s, y), a)
        steps.append(ledger.counts.total() - before)
        return found

    return call
