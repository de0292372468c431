"""Norms of X and of the agents' blocks X_j, by Lanczos' method on the tiles.

One pass over X applies X_j' X_j to a vector for all blocks at once, so the norms of 256 agents cost as many passes as
the norm of one. The largest Ritz value theta of a block is a lower bound of ||X_j||^2; with the residual r of its
Ritz vector, ||X_j||^2 lies within r of it, and theta + r is returned. Where that has not settled after `PASSES`
passes, the bound of Kuczynski and Wozniakowski for a random start is used: theta/(1 - eps) with sqrt(eps) = log(1.648
sqrt(d)/p)/(2k - 1) fails with a probability of at most p.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import DataError
from fdglm_fast.kernels.arrays import Tiles, aligned_zeros, group_count, most_threads

PASSES = 400
SETTLED = 1e-12  # residual, relative to the Ritz value
FAILURE = 1e-12
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
        image = np.asarray(self._partial.sum(axis=0))
        if not np.isfinite(image).all():
            raise DataError(f"X has entries whose squares are too large for {self.tiles.X.dtype}: scale its columns.")
        return image


def block_norms(tiles: Tiles, offsets: npt.NDArray[np.int64], scale: Array | float = 1.0) -> Array:
    """An upper bound of ||X_j diag(scale)|| for every block, tight to about 1e-12 (1e-6 for float32)."""
    sizes = np.diff(offsets)
    blocks = len(sizes)
    apply = Gram(tiles, offsets)
    lanczos = _Lanczos(offsets)
    top, residual, settled = np.zeros(blocks), np.zeros(blocks), np.zeros(blocks, bool)
    limit = min(int(sizes.max()), PASSES)
    for k in range(1, limit + 1):
        lanczos.extend(scale * apply(scale * lanczos.q))
        if k % 5 == 0 or k == limit or k <= 8:
            for j in np.flatnonzero(~settled):
                top[j], residual[j] = lanczos.ritz(int(j))
                settled[j] = residual[j] <= SETTLED * top[j] or k >= sizes[j]
            if settled.all():
                break
    bound = top + residual
    if not settled.all():
        root = math.log(1.648 * math.sqrt(float(sizes.max())) / FAILURE) / (2 * lanczos.k - 1)
        bound = np.where(settled, bound, np.maximum(bound, top / (1.0 - min(root, 0.9) ** 2)))
    rounding = 1e-13 if tiles.X.dtype == np.float64 else 1e-6
    return np.sqrt(bound) * (1.0 + rounding)


class _Lanczos:
    """Lanczos' recursion with full reorthogonalisation, for all blocks side by side."""

    def __init__(self, offsets: npt.NDArray[np.int64]) -> None:
        self._start, self._sizes = offsets[:-1], np.diff(offsets)
        self.k = 0
        self.q = np.random.default_rng(20220101).standard_normal(int(offsets[-1]))
        self.q /= np.repeat(np.sqrt(self._dots(self.q, self.q)), self._sizes)
        self._basis: list[Array] = []
        self._alpha: list[Array] = []
        self._beta: list[Array] = []

    def _dots(self, a: Array, b: Array) -> Array:
        return np.asarray(np.add.reduceat(a * b, self._start))

    def extend(self, image: Array) -> None:
        """One more step, given the image of the last vector."""
        if not self._basis:  # work in units of the first image: its squares neither overflow nor vanish
            largest = np.maximum.reduceat(np.abs(image), self._start)
            self._unit = np.where(largest > 0.0, largest, 1.0)
        image = image / np.repeat(self._unit, self._sizes)
        self._basis.append(self.q)
        alpha = self._dots(self.q, image)
        for _ in range(2):  # twice is enough
            for q in self._basis:
                image = image - np.repeat(self._dots(q, image), self._sizes) * q
        beta = np.sqrt(self._dots(image, image))
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
