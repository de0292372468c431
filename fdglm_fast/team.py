"""Who holds the agents: what is the same whether they live in one process or on many ranks.

A `Team` knows the whole problem, the part of it that is here, and how numbers of all agents become one: sums over the
agents have one order, whatever the placement, because every agent's number is known apart before they are added. This
one holds all agents; `mpi/team.py` has the one whose agents are spread over ranks. Whatever leaves an agent through a
team is named: the first argument of each method says what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from fdglm_fast.passes import Passes
from fdglm_fast.problem import Problem

if TYPE_CHECKING:
    from fdglm_fast.engine import Engine

Array = npt.NDArray[np.float64]
Value = TypeVar("Value")


class Team:
    """All agents in this process.

    whole    the problem as all agents have it (on ranks: without X and y)
    own      the part that is here: the columns of `members`, in the order of the agents
    passes   what needs a pass over X
    """

    def __init__(self, problem: Problem) -> None:
        self.whole = self.own = problem
        self.members: npt.NDArray[np.int64] = np.arange(problem.agents)
        self.passes = Passes(problem)

    size = 1  # processes
    speaks = True  # one process of the team talks to the user and writes what is common
    holds_first = True  # agent 1, and so y, is here

    def engine(self, method: str) -> Callable[..., Engine]:
        """What makes an engine of a method for these agents, from the own problem, the network and the steps."""
        from fdglm_fast.engine import Engine
        from fdglm_fast.halpern import FastEngine

        return partial(FastEngine, team=self) if method == "fast" else Engine

    def total(self, name: str, parts: Array) -> Array:
        """The sum over all agents of parts (..., own agents)."""
        return np.asarray(self.gather(name, parts).sum(axis=-1))

    def gather(self, name: str, parts: Array) -> Array:
        """The numbers (..., m) of all agents, from those of the agents that are here."""
        return parts + 0.0  # as a sum with zeros, which has no negative zero

    def largest(self, name: str, parts: Array) -> Array:
        """The largest over all agents of parts (..., own agents), NaN if one is."""
        return np.asarray(parts.max(axis=-1))

    def smallest(self, name: str, parts: Array) -> Array:
        return -self.largest(name, -parts)

    def from_first(self, name: str, value: Callable[[], Value]) -> Value:
        """What `value` gives where agent 1 is; it is not called elsewhere."""
        return value()

    def decide(self, name: str, value: Value) -> Value:
        """The value that the speaker has: times differ between processes, decisions may not."""
        return value

    def anyone(self, name: str, flag: bool) -> bool:
        return flag

    def together(self, work: Callable[[], Value]) -> Value:
        """Do what may fail in one process only; if it does, it fails with the same sentence in all."""
        return work()

    def agent_dots(self, a: Array, b: Array) -> Array:
        """a_j' b_j for the agents that are here; a and b in agent order, (..., d)."""
        return np.asarray(np.add.reduceat(a * b, self.own.partition.offsets[:-1], axis=-1))

    def dot(self, name: str, a: Array, b: Array) -> Any:
        """a' b over all agents, in the order of the agents."""
        return self.total(name, self.agent_dots(a, b))

    def collect(self, name: str, value: Value) -> list[Value]:
        """What each process has, in the order of the processes."""
        return [value]

    def in_user_order(self, theta: Array) -> Array:
        """Coefficients in the order of the columns of the file."""
        return self.whole.in_user_order(theta)

    def facts(self) -> dict[str, Any] | None:
        """What a report says about the placement; None for one process."""
        return None
