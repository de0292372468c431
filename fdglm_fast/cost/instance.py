"""A small problem to count on, and what was counted: what goes to the counting process and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.counting import DOUBLING

# theta is reported together with its prox; the averages are outside the paper's count, and nothing may be `other`.
PHASES = ("theta", "prox", "v", "lambda", "dual", "shared", "average", "other")
PAPER = ("theta", "v", "lambda")


@dataclass(frozen=True)
class Instance:
    """n samples in `tiles` equal tiles, summed up in groups of `group`; agent j has sizes[j] columns.

    `weights` is one per edge, empty for unit weights. `plan` says how neighbours are summed up: "paper", each added by
    itself, or "solver", as the kernels do it (shared sums, complements). `loss` and `penalty` are specifications; the
    weight of the penalty does not matter to its cost.
    """

    n: int
    sizes: tuple[int, ...]
    edges: tuple[tuple[int, int], ...] = ()
    weights: tuple[float, ...] = ()
    loss: str = "squared"
    penalty: str = "l1"
    tiles: int = 1
    group: int = 1
    plan: str = "paper"
    schedule: str = "tiles"
    iterations: int = 1
    seed: int = 0
    method: str = "paper"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Instance:
        lists = {"sizes": tuple(given["sizes"]), "edges": tuple((i, j) for i, j in given["edges"])}
        return cls(**{**given, **lists, "weights": tuple(given["weights"])})

    @property
    def agents(self) -> int:
        return len(self.sizes)

    def degrees(self) -> list[int]:
        found = np.bincount(np.array(self.edges, dtype=np.int64).reshape(-1), minlength=self.agents)
        return [int(degree) for degree in found]


@dataclass(frozen=True, eq=False)
class Count:
    """Operations of an instance: `kinds[phase][kind]` has one number per agent.

    `dual_steps` has the operations of each single dual step, which depend on the data for most losses; `unowned` are
    operations that could not be given to an agent, which there should not be.
    """

    agents: int
    kinds: dict[str, dict[str, list[int]]]
    dual_steps: list[int] = field(default_factory=list)
    unowned: int = 0

    def operations(self, phase: str) -> npt.NDArray[np.int64]:
        """By agent, doubling free; theta with its prox."""
        return self._sum(phase, [kind for name in PHASES for kind in self.kinds.get(name, {}) if kind != DOUBLING])

    def doublings(self, phase: str) -> npt.NDArray[np.int64]:
        return self._sum(phase, [DOUBLING])

    def total(self, phases: Sequence[str] = PAPER) -> npt.NDArray[np.int64]:
        return np.sum([self.operations(phase) for phase in phases], axis=0)

    def _sum(self, phase: str, kinds: Sequence[str]) -> npt.NDArray[np.int64]:
        total = np.zeros(self.agents, np.int64)
        for name in ("theta", "prox") if phase == "theta" else (phase,):
            for kind in set(kinds):
                total += np.array(self.kinds.get(name, {}).get(kind, [0] * self.agents), np.int64)
        return total
