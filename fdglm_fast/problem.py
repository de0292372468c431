"""What is solved: the data in tiles, who owns which columns, the loss and the penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.kernels.arrays import Model, Tiles, aligned_zeros, tile_count, tile_rows, tiles_per_group
from fdglm_fast.losses import Loss, parse_loss
from fdglm_fast.partition import Partition, check_groups_inside, contiguous, from_owner, group_numbers
from fdglm_fast.penalties import GROUP_L2, Penalty, group_scratch, parse_penalty

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """minimise (1/n) sum_i loss(x_i' theta, y_i) + sum_j r_j(theta_j).

    The tiles hold the columns in the order of their agents (`partition.order`); `n` is the number of samples in the
    formulas, which stays when compression leaves fewer rows. `norm` is ||X|| where it is known already.
    """

    tiles: Tiles
    n: int
    partition: Partition
    loss: Loss
    penalty: Penalty
    groups: npt.NDArray[np.int64] | None = None
    feature_names: tuple[str, ...] | None = None
    norm: float | None = None

    @classmethod
    def from_arrays(
        cls,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        agents: int = 1,
        owner: npt.ArrayLike | None = None,
        loss: str | Loss = "squared",
        penalty: str | Penalty = "none",
        reg: float = 0.0,
        groups: npt.ArrayLike | None = None,
    ) -> Problem:
        """A problem from arrays in memory; X keeps float32, anything else becomes float64.

        `owner` names the agent of each column (default: contiguous blocks); `groups` the group of each column.
        """
        from fdglm_fast.kernels.pack import pack

        design = np.ascontiguousarray(X)
        if design.ndim != 2 or 0 in design.shape:
            raise DataError(f"X must be a matrix with rows and columns, not of shape {design.shape}.")
        if design.dtype not in (np.float32, np.float64):
            design = design.astype(np.float64)
        partition = contiguous(design.shape[1], agents) if owner is None else from_owner(np.asarray(owner), agents)
        tiles = empty_tiles(design.shape[0], design.shape[1], design.dtype)
        if pack(design, 0, partition.order, tiles.X):
            row, column = np.argwhere(~np.isfinite(design))[0]
            raise DataError(f"X holds {design[row, column]} at row {row}, column {column}.")
        return cls.from_tiles(tiles, np.asarray(y), partition, loss, penalty, reg, groups)

    @classmethod
    def from_tiles(
        cls,
        tiles: Tiles,
        y: npt.NDArray[np.generic],
        partition: Partition,
        loss: str | Loss,
        penalty: str | Penalty,
        reg: float = 0.0,
        groups: npt.ArrayLike | None = None,
        feature_names: tuple[str, ...] | None = None,
    ) -> Problem:
        """A problem whose X is in tiles already; y is checked against the loss and put beside it."""
        rule = parse_loss(loss) if isinstance(loss, str) else loss
        r = parse_penalty(penalty, reg) if isinstance(penalty, str) else penalty
        if y.shape != (tiles.rows,):
            raise DataError(f"X has {tiles.rows} rows but y has shape {y.shape}.")
        tiles.y.reshape(-1)[: tiles.rows] = rule.prepare_response(y)
        ordered = None
        if r.code == GROUP_L2:
            ordered = group_numbers(groups, partition)
        return cls(tiles, tiles.rows, partition, rule, r, ordered, feature_names)

    @property
    def d(self) -> int:
        return int(self.tiles.X.shape[1])

    @property
    def agents(self) -> int:
        return self.partition.agents

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype(self.tiles.X.dtype)

    @property
    def compressed(self) -> bool:
        return self.tiles.rows != self.n

    @property
    def response(self) -> Array:
        """y as the loss uses it (labels are -1 and +1)."""
        return np.asarray(self.tiles.y.reshape(-1)[: self.tiles.rows])

    def model(self) -> Model:
        """The loss and the penalty as the kernels take them."""
        groups = np.zeros(0, np.int64) if self.groups is None else self.groups
        r = self.penalty
        return Model(
            self.n,
            self.loss.code,
            self.loss.parameter,
            r.code,
            r.reg,
            r.a,
            r.b,
            groups,
            group_scratch(groups),
        )

    def with_agents(self, agents: int) -> Problem:
        """The same data split among another number of agents, in contiguous blocks, without a copy."""
        if not self.partition.is_contiguous:
            raise UsageError("the columns are assigned to agents by the file, so that the number of agents is fixed.")
        partition = contiguous(self.d, agents)
        groups = self.groups
        if groups is not None:
            check_groups_inside(groups, partition)
        return replace(self, partition=partition)

    def in_user_order(self, theta: npt.NDArray[np.floating]) -> Array:
        """Coefficients in the order of the columns of the file."""
        out = np.empty(self.d)
        out[self.partition.order] = theta
        return out

    def in_agent_order(self, theta: npt.NDArray[np.floating]) -> Array:
        return np.asarray(theta, dtype=np.float64)[self.partition.order]

    def dense(self) -> npt.NDArray[np.floating]:
        """X as a matrix, columns in the user's order: a copy, for the centralised reference only."""
        X = self.tiles.X
        out = np.empty((X.shape[0] * X.shape[2], self.d), X.dtype)
        for k in range(X.shape[0]):
            out[k * X.shape[2] : (k + 1) * X.shape[2], self.partition.order] = X[k].T
        return out[: self.tiles.rows]


def empty_tiles(rows: int, d: int, dtype: npt.DTypeLike) -> Tiles:
    """Tiles of zeros for `rows` samples of d features."""
    tiles, B = tile_count(rows, dtype), tile_rows(dtype)
    return Tiles(
        aligned_zeros((tiles, d, B), dtype),
        aligned_zeros((tiles, B), np.float64),
        rows,
        tiles_per_group(tiles),
    )
