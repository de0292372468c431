"""The rival's two BLAS passes over the blocks of X, agent by agent.

    lambda_j += X_j w_j  with w_j = s (2 theta_j+ - theta_j),   agent 1: prox,   g_j = X_j' lambda_j+

The second product belongs to the next theta update. Taking it here, instead of at the start of the next iteration,
means that the block X_j is read twice in a row: where it fits into a cache, the second pass costs little. (Cutting X by
rows as well, so that this holds for any block, is the solver's own schedule and not what the rival does.)

A layout is `columns`, X_j' as a (d_j, n) block, where products run along the samples, or `rows`, X_j as a (n, d_j)
block, where they run along an agent's features. A `batch` of agents whose blocks have the same size goes into one
stacked matmul, which calls BLAS agent by agent without coming back to Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]
Blocks = Matrix | Sequence[Matrix]  # stacked where all have the same size
Multiply = Callable[[Matrix, Matrix, Matrix], Any]  # (block, vector, out)

ROWS_WORTH = 64  # features an agent needs for the layout `rows` to be tried


class Products(NamedTuple):
    """X_j w and X_j' lambda, into `out`."""

    forward: Multiply
    back: Multiply


# np.dot of a matrix with a vector is gemv; matmul of stacks is one gemv for each of them.
_SINGLE = {
    "columns": Products(lambda B, w, out: np.dot(w, B, out=out), lambda B, lam, out: np.dot(B, lam, out=out)),
    "rows": Products(lambda B, w, out: np.dot(B, w, out=out), lambda B, lam, out: np.dot(lam, B, out=out)),
}


def _left(B: Matrix, vectors: Matrix, out: Matrix) -> None:
    np.matmul(vectors[:, None, :], B, out=out[:, None, :])


def _right(B: Matrix, vectors: Matrix, out: Matrix) -> None:
    np.matmul(B, vectors[:, :, None], out=out[:, :, None])


_STACKED = {"columns": Products(_left, _right), "rows": Products(_right, _left)}


def layouts_for(offsets: Offsets) -> tuple[str, ...]:
    return ("columns", "rows") if np.diff(offsets).min() >= ROWS_WORTH else ("columns",)


def _equal(offsets: Offsets) -> bool:
    return bool(np.ptp(np.diff(offsets)) == 0)


def batches_for(offsets: Offsets) -> tuple[int, ...]:
    """Agents that may go into one matmul: one, a sixteenth of them, or all."""
    m = len(offsets) - 1
    if not _equal(offsets):
        return (1,)
    return tuple(dict.fromkeys(batch for batch in (1, m // 16, m) if batch and m % batch == 0))


def blocks_of(X: Matrix, columns: Matrix, offsets: Offsets, layout: str) -> Blocks:
    """Each agent's contiguous block. `columns` (d, n) holds those of its layout already: they are not copied."""
    n, m = X.shape[0], len(offsets) - 1
    if _equal(offsets):
        if layout == "columns":
            return columns.reshape(m, -1, n)
        return np.ascontiguousarray(X.reshape(n, m, -1).transpose(1, 0, 2))
    spans = itertools.pairwise(offsets)
    if layout == "columns":
        return [columns[a:b] for a, b in spans]
    return [np.ascontiguousarray(X[:, a:b]) for a, b in spans]


class Passes:
    """lambda and g of all agents brought forward by their own columns, in place."""

    def __init__(
        self, blocks: Blocks, offsets: Offsets, layout: str, batch: int, lam: Matrix, w: Matrix, g: Matrix
    ) -> None:
        """lam is (m, n); w and g are (d,), in the order of the blocks."""
        m, n = lam.shape
        single = batch == 1
        self._products = (_SINGLE if single else _STACKED)[layout]
        self._line = np.empty(n if single else (batch, n), lam.dtype)
        self._work: list[tuple[Any, Matrix, Matrix, Matrix]] = []
        for first in range(0, m, batch):
            mine = first if single else slice(first, first + batch)
            part = slice(int(offsets[first]), int(offsets[first + batch]))
            shape = -1 if single else (batch, -1)
            self._work.append((blocks[mine], lam[mine], w[part].reshape(shape), g[part].reshape(shape)))

    def __call__(self, loss_step: Callable[[], None]) -> None:
        """`loss_step` is agent 1's prox, called when its lambda^half is known."""
        line, (forward, back) = self._line, self._products
        first = True
        for block, lam, w, g in self._work:
            forward(block, w, line)
            lam += line
            if first:
                loss_step()
                first = False
            back(block, lam, g)
