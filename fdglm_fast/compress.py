"""Exact compression for the squared loss: d + 1 rows that give the same iterates as n.

With [X y] = Q R, every step of the iteration commutes with the rotation Q' of the sample space: v, lambda and the
predictions are rotated, theta is unchanged, and so are norms and the sum of squares. R has d + 1 rows; the n of the
formulas stays.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import UsageError, unknown_name
from fdglm_fast.losses import SQUARED, Loss

if TYPE_CHECKING:
    from fdglm_fast.problem import Problem

CHOICES = ("auto", "on", "off")
BLOCK_ROWS = 4096


def check_choice(choice: str, loss: Loss) -> None:
    if choice not in CHOICES:
        raise unknown_name("compression", choice, CHOICES)
    if choice == "on" and loss.code != SQUARED:
        raise UsageError(f"compression is exact for the squared loss only, not for '{loss.spec}'.")


class Sized(Protocol):
    """What the decision depends on; a problem has it, and so has a file that was not read yet."""

    @property
    def loss(self) -> Loss: ...
    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...


def wanted(choice: str, problem: Sized, sweep: bool = False) -> bool:
    """Whether to compress: auto does in sweeps, for the squared loss, when it halves the rows at least."""
    check_choice(choice, problem.loss)
    worth = problem.loss.code == SQUARED and problem.n > 2 * (problem.d + 1)
    return choice == "on" or (choice == "auto" and sweep and worth)


def compress(problem: Problem) -> Problem:
    """The same problem on the triangular factor of [X y], computed in float64 and stored in the type of the data."""
    from fdglm_fast.kernels.pack import pack
    from fdglm_fast.problem import empty_tiles

    R = triangular_factor(problem)
    tiles = empty_tiles(len(R), problem.d, problem.dtype)
    X = np.ascontiguousarray(R[:, :-1]).astype(problem.dtype)
    pack(X, 0, np.arange(problem.d), tiles.X)
    tiles.y.reshape(-1)[: len(R)] = R[:, -1]
    return dataclasses.replace(problem, tiles=tiles)


def triangular_factor(problem: Problem) -> npt.NDArray[np.float64]:
    """R of [X y] = Q R, rows in blocks on top of the R so far, so that Q and a copy of X are never formed."""
    from scipy.linalg import qr

    X, y = problem.tiles.X, problem.tiles.y
    step = max(1, BLOCK_ROWS // X.shape[2])
    R = np.zeros((0, problem.d + 1))
    for start in range(0, X.shape[0], step):
        part = X[start : start + step]
        rows = np.moveaxis(part, 1, 2).reshape(-1, problem.d).astype(np.float64)
        below = np.column_stack([rows, y[start : start + step].reshape(-1)])
        (R,) = qr(np.vstack([R, below]), mode="r", overwrite_a=True, check_finite=False)
        R = R[: problem.d + 1]
    return np.asarray(R)
