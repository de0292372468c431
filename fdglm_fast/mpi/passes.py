"""The measuring passes of agents on several ranks.

Each rank adds up the parts of its own agents in whole numbers. The sums meet where they are needed: at the rank of
agent 1, which has y and answers with loss'(z), or at every rank for X'X q. Whole numbers add up to the same in any
order. Where z = 0, which the bounds on its parts tell every rank, there is no answer: loss'(0) is -y for the squared
loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fdglm_fast.exact import sum_grid
from fdglm_fast.passes import Array, Passes
from fdglm_fast.problem import Problem

if TYPE_CHECKING:
    from fdglm_fast.mpi.team import RankTeam


class RankPasses(Passes):
    """The same passes as on one process, with one reduction and one broadcast each."""

    def __init__(self, problem: Problem, team: RankTeam) -> None:
        super().__init__(problem)
        self._team = team

    def _largest(self, theta: Array) -> Array:
        """For each theta (K, d) a bound on the parts of all agents; zero where X theta is."""
        return self._team.largest("scale of z", self.part_bounds(theta))

    def grid(self, theta: Array) -> Array:
        return sum_grid(self._largest(theta), self._team.whole.agents)

    def _cut(self, theta: Array, grid: Array) -> Any:
        from fdglm_fast.kernels.evaluate_parts import cut_parts

        counts = np.zeros((len(theta), self.shape[0], 2, self.shape[1]), np.int64)
        tiles, offsets = self.problem.tiles, self.problem.partition.offsets
        cut_parts(np.ascontiguousarray(theta), grid, counts, tiles, offsets, self._scratch[0])
        return counts

    def _join(self, counts: Any, grid: Array) -> Array:
        from fdglm_fast.kernels.evaluate_parts import join_parts

        z = np.zeros((len(counts), *self.shape))
        join_parts(counts, grid, z)
        return z

    def evaluate(self, theta: Array, given: Array | None) -> tuple[Array, Array, Array, Array]:
        """As on one process; z is known at the rank of agent 1 only, and lambda is NaN where it may not be sent."""
        from fdglm_fast.kernels.evaluate_parts import losses

        team, largest = self._team, self._largest(theta)
        grid = sum_grid(largest, team.whole.agents)
        told = np.flatnonzero((largest != 0.0) | (team.size == 1))
        counts = team.sum_at_first("sum of X theta", self._cut(theta[told], grid[told]))
        z = np.zeros((len(theta), *self.shape))
        lam = np.zeros_like(z) if given is None else np.array(given)
        sums = np.zeros((len(theta), self.groups, 2))
        if team.holds_first:
            z[told] = self._join(counts, grid[told])
            losses(z, lam, given is not None, sums, self.problem.tiles, self.model)
        known, lam = lam[told], np.full_like(z, np.nan)
        team.broadcast_first("loss'(z)", known)
        team.broadcast_first("sums of losses", sums)
        lam[told] = known
        return z, lam, sums.sum(axis=1), self.transposed(lam)

    def gram(self, q: Array) -> Array:
        grid = self.grid(q[np.newaxis])
        counts = self._team.sum_everywhere("X q of a norm", self._cut(q[np.newaxis], grid))
        return self.transposed(self._join(counts, grid))[0]
