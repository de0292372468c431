"""Norms of X and of the agents' blocks X_j, by Lanczos' method on the tiles.

||X|| itself is found in the same way with one block of all columns, whose vectors are spread over the agents: sums over
agents are in a fixed order, so that it does not depend on where the agents are. It does depend a little on how many
they are, and is therefore rounded up to `DIGITS` digits: a sweep that computes it once agrees with each solve.

One pass over X applies X_j' X_j to a vector for all blocks at once, so the norms of 256 agents cost as many passes as
the norm of one. The largest Ritz value theta of a block is a lower bound of ||X_j||^2; with the residual r of its
Ritz vector, ||X_j||^2 lies within r of it, and theta + r is returned. Where that has not settled after `PASSES`
passes, the bound of Kuczynski and Wozniakowski for a random start is used: theta/(1 - eps) with sqrt(eps) = log(1.648
sqrt(d)/p)/(2k - 1) fails with a probability of at most p.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import DataError
from fdglm_fast.kernels.arrays import Tiles, aligned_zeros, group_count, most_threads
from fdglm_fast.problem import Problem
from fdglm_fast.team import Team

PASSES = 400
SETTLED = 1e-14  # residual, relative to the Ritz value
FAILURE = 1e-12
DIGITS = {"float64": 12, "float32": 5}
Array = npt.NDArray[np.float64]


class Gram:
    """q -> X_j' X_j q_j for every block j of columns, with its scratch."""

    def __init__(self, tiles: Tiles, offsets: npt.NDArray[np.int64]) -> None:
        self.tiles, self.offsets = tiles, offsets
        B, threads = tiles.X.shape[2], most_threads()
        self._partial = aligned_zeros((group_count(tiles.X.shape[0]), tiles.X.shape[1]), np.float64)
        self._line = aligned_zeros((threads, 1, B), np.float64)
        self._rows = aligned_zeros((threads, 1, B), tiles.X.dtype)

    def __call__(self, q: Array) -> Array:
        from fdglm_fast.kernels.evaluate import gram

        gram(q, self._partial, self.tiles, self.offsets, self._line, self._rows)
        return np.asarray(self._partial.sum(axis=0))


def block_norms(tiles: Tiles, offsets: npt.NDArray[np.int64]) -> Array:
    """An upper bound of ||X_j|| for every block, tight to about 1e-12 (1e-6 for float32)."""
    start = _start_vector(int(offsets[-1]))
    return _norms(Gram(tiles, offsets), _Lanczos(start, offsets), np.diff(offsets), tiles.X.dtype)


def agent_norms(team: Team, scale: Array | float = 1.0) -> Array:
    """|X_j diag(scale)| of all agents, as `block_norms`, each found where the agent is; `scale` of the own columns."""
    own, sizes = team.own, team.whole.partition.sizes
    lanczos = _Lanczos(own_columns(team, _start_vector(team.whole.d)), own.partition.offsets)
    gram = Gram(own.tiles, own.partition.offsets)
    longest = int(sizes.max())
    found = _norms(lambda q: scale * gram(scale * q), lanczos, sizes[team.members], own.dtype, longest)
    return team.gather("norms of the blocks", found)


def design_norm(team: Team, scale: Array | float = 1.0) -> float:
    """|X diag(scale)|, as an upper bound that is tight to the digits that are kept; `scale` of the own columns."""
    own, d = team.own, team.whole.d
    lanczos = _Lanczos(own_columns(team, _start_vector(d)), own.partition.offsets, team)
    norm = _norms(lambda q: scale * team.passes.gram(scale * q), lanczos, np.array([d]), own.dtype)
    return round_up(float(norm[0]), DIGITS[own.dtype.name])


def column_squares(problem: Problem) -> Array:
    """||x_c||^2 of the columns that are here."""
    squares = np.zeros(problem.d)
    for tile in problem.tiles.X:  # tile by tile: the order of the sum must not depend on which columns are here
        squares += (tile.astype(np.float64) ** 2).sum(axis=1)
    return squares


def round_up(value: float, digits: int) -> float:
    """The next number of so many significant decimal digits."""
    if not (math.isfinite(value) and value > 0.0):
        return value
    up = float(f"{value:.{digits - 1}e}")
    if up < value:
        exponent = f"{value:.{digits - 1}e}".partition("e")[2]
        up = float(f"{up + 10.0 ** (int(exponent) - digits + 1):.{digits - 1}e}")
    return up


def own_columns(team: Team, vector: Array) -> Array:
    """The part of a vector over all columns, in agent order, that belongs to the agents that are here."""
    offsets = team.whole.partition.offsets
    return np.concatenate([vector[offsets[j] : offsets[j + 1]] for j in team.members])


def _start_vector(d: int) -> Array:
    return np.random.default_rng(20220101).standard_normal(d)


def _norms(
    apply: Callable[[Array], Array],
    lanczos: _Lanczos,
    sizes: npt.NDArray[np.int64],
    dtype: npt.DTypeLike,
    longest: int | None = None,
) -> Array:
    """Bounds for the blocks of `sizes` columns; `longest` is the largest size, also of blocks that are elsewhere."""
    blocks, longest = len(sizes), longest or int(sizes.max())
    top, residual, settled = np.zeros(blocks), np.zeros(blocks), np.zeros(blocks, bool)
    limit = min(longest, PASSES)
    for k in range(1, limit + 1):
        image = apply(lanczos.q)
        if not np.isfinite(image).all():
            raise DataError(f"X has entries whose squares are too large for {np.dtype(dtype)}: scale its columns.")
        lanczos.extend(image)
        if k % 5 == 0 or k == limit or k <= 8:
            for j in np.flatnonzero(~settled):
                top[j], residual[j] = lanczos.ritz(int(j))
                settled[j] = residual[j] <= SETTLED * top[j] or k >= sizes[j]
            if settled.all():
                break
    bound = top + residual
    if not settled.all():
        root = math.log(1.648 * math.sqrt(float(longest)) / FAILURE) / (2 * lanczos.k - 1)
        bound = np.where(settled, bound, np.maximum(bound, top / (1.0 - min(root, 0.9) ** 2)))
    rounding = 1e-13 if dtype == np.float64 else 1e-6
    return np.asarray(np.sqrt(bound) * (1.0 + rounding))


class _Lanczos:
    """Lanczos' recursion with full reorthogonalisation, for all blocks side by side, or for one that a team shares.

    A shared block has the same numbers at each of its agents: their dot products are sums over the team.
    """

    def __init__(self, start: Array, offsets: npt.NDArray[np.int64], team: Team | None = None) -> None:
        self._start, self._sizes, self._team = offsets[:-1], np.diff(offsets), team
        self.k = 0
        self.q = start / np.repeat(np.sqrt(self._dots([start], start)[0]), self._sizes)
        self._basis: list[Array] = []
        self._alpha: list[Array] = []
        self._beta: list[Array] = []

    def _dots(self, vectors: list[Array], image: Array) -> Array:
        """The dot products with each of the vectors, (vectors, blocks)."""
        parts = np.stack([np.add.reduceat(q * image, self._start) for q in vectors])
        if self._team is None:
            return np.asarray(parts)
        return np.repeat(self._team.total("norm of X", parts)[:, np.newaxis], len(self._sizes), axis=1)

    def _largest(self, image: Array) -> Array:
        parts = np.maximum.reduceat(np.abs(image), self._start)
        return parts if self._team is None else np.full(parts.shape, self._team.largest("norm of X", parts))

    def extend(self, image: Array) -> None:
        """One more step, given the image of the last vector."""
        if not self._basis:  # work in units of the first image: its squares neither overflow nor vanish
            largest = self._largest(image)
            self._unit = np.where(largest > 0.0, largest, 1.0)
        image = image / np.repeat(self._unit, self._sizes)
        self._basis.append(self.q)
        alpha = self._dots([self.q], image)[0]
        for _ in range(2):  # twice is enough
            along = self._dots(self._basis, image)
            for share, q in zip(along, self._basis, strict=True):
                image = image - np.repeat(share, self._sizes) * q
        beta = np.sqrt(self._dots([image], image)[0])
        self._alpha.append(alpha)
        self._beta.append(beta)
        self.k += 1
        # A block whose Krylov space is exhausted has found its largest eigenvalue; its vector becomes zero.
        alive = beta > 1e-14 * np.abs(self._alpha[0])
        self.q = image * np.repeat(np.where(alive, 1.0 / np.where(alive, beta, 1.0), 0.0), self._sizes)

    def ritz(self, j: int) -> tuple[float, float]:
        """The largest Ritz value of block j and its residual."""
        from scipy.linalg import eigh_tridiagonal

        alpha = np.array([a[j] for a in self._alpha])
        beta = np.array([b[j] for b in self._beta])
        last = self.k - 1
        value, vector = eigh_tridiagonal(alpha, beta[:-1], select="i", select_range=(last, last))
        unit = float(self._unit[j])
        return unit * max(float(value[0]), 0.0), unit * abs(float(beta[-1] * vector[-1, 0]))
