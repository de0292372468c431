"""The matrix X, read in blocks of rows that are widened to float64 one at a time."""

from __future__ import annotations

from collections.abc import Iterator

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

    def norm(self) -> float:
        """|X|_2, by Lanczos on the smaller of X'X and XX' from a fixed start, or densely where it is small."""
        if min(self.n, self.d) <= 64:
            small = self.gram() if self.d <= self.n else self._outer()
            return float(np.sqrt(max(linalg.eigvalsh(small)[-1], 0.0)))
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator(
            (self.d, self.d), matvec=lambda v: self.transpose_times(self.times(v.ravel())), dtype=np.float64
        )
        start = np.random.default_rng(0).standard_normal(self.d)
        top = eigsh(operator, k=1, which="LA", v0=start, tol=1e-8, return_eigenvectors=False)
        return float(np.sqrt(max(top[0], 0.0)))

    def _outer(self) -> Array:
        wide = np.asarray(self.X, dtype=np.float64)
        return wide @ wide.T

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
