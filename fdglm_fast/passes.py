"""What is measured in a pass over X: predictions, losses and X' lambda, for all agents of this process.

Sums over agents are exact (see `exact.py`), so that they are the same bits wherever the agents live.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from fdglm_fast.exact import sum_grid
from fdglm_fast.kernels.arrays import aligned_zeros, group_count, most_threads
from fdglm_fast.problem import Problem

Array = npt.NDArray[np.float64]


class Passes:
    """Passes over the columns of one process, with their scratch; vectors over samples are in tiles, (tiles, B)."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.model = problem, problem.model()
        X, threads = problem.tiles.X, most_threads()
        self.shape = (X.shape[0], X.shape[2])
        self.groups = group_count(X.shape[0])
        self._scratch = (
            aligned_zeros((threads, 1, X.shape[2]), np.float64),
            aligned_zeros((threads, 2, X.shape[2]), np.int64),
        )
        self._rows = aligned_zeros((threads, 1, X.shape[2]), X.dtype)

    @cached_property
    def peaks(self) -> Array:
        """max|X_j| of each agent."""
        from fdglm_fast.kernels.evaluate import largest_entries

        found = np.zeros((self.groups, self.problem.agents))
        largest_entries(self.problem.tiles, self.problem.partition.offsets, found)
        return np.asarray(found.max(axis=0))

    def part_bounds(self, theta: Array) -> Array:
        """For each theta (K, d) and agent a bound on |X_j theta_j|."""
        sizes = np.add.reduceat(np.abs(theta), self.problem.partition.offsets[:-1], axis=-1)
        return np.asarray(sizes * self.peaks)

    def grid(self, theta: Array) -> Array:
        """Where the parts of X theta are cut, for each theta (K, d)."""
        return sum_grid(self.part_bounds(theta).max(axis=-1), self.problem.agents)

    def at_zero(self) -> Array:
        """The sum of the losses at z = 0, and ||loss'(0)||; where y is."""
        from fdglm_fast.kernels.evaluate_parts import losses

        z, lam = np.zeros((2, 1, *self.shape))
        sums = np.zeros((1, self.groups, 2))
        losses(z, lam, False, sums, self.problem.tiles, self.model)
        return np.array([sums[0, :, 0].sum(), np.linalg.norm(lam)])

    def evaluate(self, theta: Array, given: Array | None) -> tuple[Array, Array, Array, Array]:
        """z and lambda (K, tiles, B), the sums of `loss_tile` (K, 2) and X'lambda (K, d) at the rows of theta."""
        from fdglm_fast.kernels.evaluate import evaluate

        K, d = theta.shape
        z = np.zeros((K, *self.shape))
        lam = np.zeros_like(z) if given is None else np.ascontiguousarray(given)
        sums = np.zeros((K, self.groups, 2))
        partial = np.zeros((K, self.groups, d))
        evaluate(
            np.ascontiguousarray(theta),
            self.grid(theta),
            given is not None,
            z,
            lam,
            sums,
            partial,
            self.problem.tiles,
            self.problem.partition.offsets,
            self.model,
            self._scratch,
            self._rows,
        )
        return z, lam, sums.sum(axis=1), partial.sum(axis=1)

    def gram(self, q: Array) -> Array:
        """X'X q."""
        from fdglm_fast.kernels.evaluate import gram_whole

        z, partial = np.zeros(self.shape), np.zeros((self.groups, self.problem.d))
        tiles, offsets = self.problem.tiles, self.problem.partition.offsets
        gram_whole(q, self.grid(q[np.newaxis])[0], z, partial, tiles, offsets, self._scratch, self._rows)
        return np.asarray(partial.sum(axis=0))

    def transposed(self, rows: Array) -> Array:
        """X' rows, for vectors (K, tiles, B)."""
        from fdglm_fast.kernels.evaluate import transpose

        partial = np.zeros((len(rows), self.groups, self.problem.d))
        problem = self.problem
        transpose(np.ascontiguousarray(rows), partial, problem.tiles, problem.partition.offsets, self._rows)
        return np.asarray(partial.sum(axis=1))
