"""What an iteration of a run costs by the model: the figures that `solve` carries in its JSON and its trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fdglm_fast.cost.model import dual_model, is_weighted, messages, normalized_cost, paper_cost, phase_model

if TYPE_CHECKING:
    from fdglm_fast.network import Network
    from fdglm_fast.problem import Problem


@dataclass(frozen=True)
class RunCost:
    """Of one iteration: operations of an agent as the paper has them, of all agents by the model, and what they send.

    n is the number of samples, also where compression leaves fewer rows: agents that hold their own columns cannot
    compress what they send.
    """

    flops_per_agent: float
    flops: int
    normalized: float
    messages: int
    bytes: int

    def as_json(self, iterations: int) -> dict[str, float | int]:
        """`cost` in the JSON of a run; `flops_total` is of all agents and all iterations."""
        return {
            "flops_per_agent_iteration": self.flops_per_agent,
            "flops_total": self.flops * iterations,
            "normalized_ops_per_iteration": self.normalized,
            "messages_per_iteration": self.messages,
            "bytes_per_iteration": self.bytes,
        }


def run_cost(problem: Problem, network: Network) -> RunCost:
    """The cost of an iteration of `problem` on `network`; agent 1's dual step is in it where the model has it."""
    n, d, m = problem.n, problem.d, problem.agents
    pairs = np.stack([problem.partition.sizes, network.degrees], axis=1)
    kinds, counts = np.unique(pairs, axis=0, return_counts=True)
    name = problem.penalty.name
    flags = {"prox": name != "none", "weighted": is_weighted(network), "single": m == 1}
    spent = [sum(phase_model(n, d_j, degree, penalty=name, **flags).values()) for d_j, degree in kinds]
    total = sum(int(count) * each for count, each in zip(counts, spent, strict=True))
    sent = messages(network, n, problem.dtype.itemsize)
    sizes = n, d, m, network.max_degree
    return RunCost(
        paper_cost(*sizes),
        total + (dual_model(n, problem.loss.name) or 0),
        normalized_cost(*sizes),
        sent.total_count,
        sent.total_bytes,
    )
