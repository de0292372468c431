"""The matrix X, read in blocks of rows that are widened to float64 one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Array = NDArray[np.float64]
Columns = NDArray[np.int64]

BLOCK_BYTES = 1 << 25


class Design:
    """Products with X (n x d) that never hold more than a block of a widened or scaled copy."""

    def __init__(self, X: NDArray[np.floating]) -> None:
        self.X = X
        self.n, self.d = X.shape

    def blocks(self, columns: Columns | None = None) -> Iterator[tuple[slice, Array]]:
        """Rows of X, or of the given columns of it, in float64: a view where X is float64 and whole."""
        rows = max(1, BLOCK_BYTES // (8 * self.d))
        for start in range(0, self.n, rows):
            part = slice(start, min(start + rows, self.n))
            block = self.X[part] if columns is None else self.X[part][:, columns]
            yield part, np.asarray(block, dtype=np.float64)

    def times(self, theta: Array) -> Array:
        """X theta."""
        z = np.empty(self.n)
        for part, block in self.blocks():
            z[part] = block @ theta
        return z

    def absolute_times(self, theta: Array) -> Array:
        """|X| |theta|: what the rounding of X theta is relative to."""
        z = np.empty(self.n)
        for part, block in self.blocks():
            z[part] = np.abs(block) @ np.abs(theta)
        return z

    def transpose_times(self, s: Array) -> Array:
        """X' s."""
        total = np.zeros(self.d)
        for part, block in self.blocks():
            total += s[part] @ block
        return total

    def gram(self, weights: Array | None = None, columns: Columns | None = None) -> Array:
        """X' diag(weights) X, of the given columns only; weights >= 0, all 1 when None."""
        size = self.d if columns is None else len(columns)
        total = np.zeros((size, size))
        for part, block in self.blocks(columns):
            scaled = block if weights is None else block * np.sqrt(weights[part])[:, None]
            total += scaled.T @ scaled
        return total

    @cached_property
    def plain_gram(self) -> Array:
        """X'X, kept."""
        return self.gram()

    @cached_property
    def column_norms(self) -> Array:
        """|x_j|_2."""
        total = np.zeros(self.d)
        for _, block in self.blocks():
            total += np.einsum("ij,ij->j", block, block)
        return np.sqrt(total)

    @cached_property
    def norm(self) -> float:
        """|X|_2, from the smaller of X'X and XX': densely where that is small, else by Lanczos from a fixed start."""
        if self.d <= self.n:
            square = self.plain_gram
        else:
            wide = np.asarray(self.X, dtype=np.float64)
            square = wide @ wide.T
        if len(square) <= 64:
            top = linalg.eigvalsh(square)[-1]
        else:
            from scipy.sparse.linalg import eigsh

            start = np.random.default_rng(0).standard_normal(len(square))
            top = eigsh(square, k=1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0]
        return float(np.sqrt(max(top, 0.0)))

    def row_basis(self) -> Array:
        """An orthonormal basis V (d x rank) of the row space of X: X = X V V'.

        From the singular values of a triangular factor, which are those of X; those below eps max(n, d) of
        the largest count as zero.
        """
        if self.d <= self.n:
            _, sizes, rows = linalg.svd(self._triangle())
            basis = rows.T
        else:
            wide = np.asarray(self.X, dtype=np.float64)
            orthonormal, triangle = linalg.qr(wide.T, mode="economic")
            left, sizes, _ = linalg.svd(triangle)
            basis = orthonormal @ left
        cutoff = np.finfo(np.float64).eps * max(self.n, self.d) * sizes[0]
        return np.ascontiguousarray(basis[:, : int((sizes > cutoff).sum())])

    def _triangle(self) -> Array:
        """R with R'R = X'X, by a QR factorisation that takes in one block of rows after the other."""
        triangle = np.empty((0, self.d))
        for _, block in self.blocks():
            (triangle,) = linalg.qr(np.vstack((triangle, block)), mode="r", overwrite_a=True)
            triangle = triangle[: self.d]
        return triangle

    def projected(self, basis: Array) -> Design:
        """X V."""
        product = np.empty((self.n, basis.shape[1]))
        for part, block in self.blocks():
            product[part] = block @ basis
        return Design(product)
