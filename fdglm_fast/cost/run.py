"""What an iteration of a run costs by the model: the figures that `solve` carries in its JSON and its trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fdglm_fast.cost.model import (
    ROUNDS,
    answer_model,
    dual_model,
    fast_cost,
    is_weighted,
    look_cost,
    messages,
    paper_cost,
    phase_model,
    restart_cost,
)

if TYPE_CHECKING:
    from fdglm_fast.network import Network
    from fdglm_fast.problem import Problem


@dataclass(frozen=True)
class Effort:
    """What a run has done: iterations and, in the fast method, looks at the residual and restarts."""

    iterations: int
    looks: int = 0
    restarts: int = 0


@dataclass(frozen=True)
class RunCost:
    """Of one iteration: operations of an agent as the paper has them, of all agents by the model, and what they send.

    n is the number of samples, also where compression leaves fewer rows: agents that hold their own columns cannot
    compress what they send. In the fast method a look at the residual, and a restart, are an exchange each, and
    `look_flops` and `restart_flops` operations of the agent with the most neighbours; at a restart agent 1's lambda
    goes to every other agent once, from neighbour to neighbour, `reach` hops far.
    """

    flops_per_agent: float
    flops: int
    single: float  # operations of an iteration of a single agent, the unit of the paper's horizontal axis
    messages: int  # of one exchange
    bytes: int  # of one exchange
    exchanges: int  # an iteration
    look_flops: float = 0.0
    restart_flops: float = 0.0
    rounds: int = 1  # exchanges of a look or a restart
    relayed: int = 0  # bytes of agent 1's lambda on its way to all
    reach: int = 0
    waits: int = 0  # rounds of an iteration, in which agents wait for their neighbours

    @property
    def normalized(self) -> float:
        return self.flops_per_agent / self.single

    def normalized_ops(self, effort: Effort) -> float:
        """Operations of an agent so far, in iterations of a single agent."""
        besides = effort.looks * self.look_flops + effort.restarts * self.restart_flops
        return effort.iterations * self.normalized + besides / self.single

    def total_exchanges(self, effort: Effort) -> int:
        """Exchanges in which every agent sends, and hops of what is passed on."""
        return self._whole_exchanges(effort) + effort.restarts * self.reach

    def bytes_sent(self, effort: Effort) -> int:
        """By all agents together, so far."""
        return self._whole_exchanges(effort) * self.bytes + effort.restarts * self.relayed

    def _whole_exchanges(self, effort: Effort) -> int:
        """Those in which every agent sends to every neighbour."""
        return effort.iterations * self.exchanges + (effort.looks + effort.restarts) * self.rounds

    def as_json(self, iterations: int, effort: Effort | None = None) -> dict[str, float | int]:
        """`cost` in the JSON of a run; `flops_total` is of all agents and all iterations."""
        done = effort or Effort(iterations)
        return {
            "flops_per_agent_iteration": self.flops_per_agent,
            "flops_total": self.flops * iterations,
            "normalized_ops_per_iteration": self.normalized,
            "normalized_ops_total": self.normalized_ops(done),
            "messages_per_iteration": self.messages * self.exchanges,
            "bytes_per_iteration": self.bytes * self.exchanges,
            "exchanges_per_iteration": self.exchanges,
            "rounds_per_iteration": self.waits,
            "exchanges": self.total_exchanges(done) if self.messages else 0,
            "bytes_total": self.bytes_sent(done),
            "looks": done.looks,
            "restarts": done.restarts,
        }


def run_cost(problem: Problem, network: Network, method: str = "paper", gossip: int = 1) -> RunCost:
    """The cost of an iteration of `problem` on `network`; agent 1's dual step is in it where the model has it."""
    n, d, m = problem.n, problem.d, problem.agents
    pairs = np.stack([problem.partition.sizes, network.degrees], axis=1)
    kinds, counts = np.unique(pairs, axis=0, return_counts=True)
    name = problem.penalty.name
    flags = {"prox": name != "none", "weighted": is_weighted(network), "single": m == 1}
    spent = [sum(phase_model(n, d_j, degree, penalty=name, method=method, **flags).values()) for d_j, degree in kinds]
    total = sum(int(count) * each for count, each in zip(counts, spent, strict=True))
    total += answer_model(n, int(network.degrees[0])) if method == "fast" else 0
    sent = messages(network, n, problem.dtype.itemsize, method)
    sizes = n, d, m, network.max_degree
    fast = method == "fast"
    # Each round more is a sum over the neighbours, the Laplacian, and three numbers added up; agent 1's late vector
    # goes as many rounds as the others.
    more = gossip - 1 if gossip == 1 else 2 * gossip - 1
    rounds, again = (k * n * (network.max_degree + 5.0) for k in (more, gossip - 1))
    return RunCost(
        fast_cost(*sizes) + rounds if fast else paper_cost(*sizes),
        total + int(more * n * float((network.degrees + 5.0).sum())) + (dual_model(n, problem.loss.name) or 0),
        paper_cost(n, d, 1, 0),
        sent.total_count // sent.exchanges,
        sent.total_bytes // sent.exchanges,
        sent.exchanges * (more + 1),
        look_cost(*sizes) + again if fast else 0.0,
        restart_cost(*sizes) + again if fast else 0.0,
        gossip,
        (m - 1) * n * problem.dtype.itemsize if fast else 0,
        network.reach if fast else 0,
        0 if m == 1 else ROUNDS * gossip,
    )
