"""The part of a problem that one rank holds, and the whole without its data, as every rank knows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.kernels.arrays import Tiles, aligned_zeros, tile_count, tile_rows, tiles_per_group
from fdglm_fast.losses import Loss
from fdglm_fast.mpi.placement import Placement
from fdglm_fast.partition import Partition
from fdglm_fast.penalties import Penalty
from fdglm_fast.problem import Problem

Numbers = npt.NDArray[np.int64]


def without_data(rows: int, partition: Partition, dtype: npt.DTypeLike, loss: Loss, penalty: Penalty) -> Problem:
    """What a problem is about: everything but X and y, whose arrays have no tiles."""
    B, group = tile_rows(dtype), tiles_per_group(tile_count(rows, dtype))
    nothing = Tiles(np.zeros((0, partition.features, B), dtype), np.zeros((0, B)), rows, group)
    return Problem(nothing, rows, partition, loss, penalty)


def own_partition(partition: Partition, members: Numbers) -> Partition:
    """The columns of some agents, renumbered from 0, as they lie in the tiles of their rank."""
    sizes = partition.sizes[members]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    owner = np.repeat(np.arange(len(members), dtype=np.int64), sizes)
    return Partition(len(members), owner, np.arange(int(offsets[-1])), offsets)


def own_columns(partition: Partition, members: Numbers) -> Numbers:
    """The columns of some agents, as the file numbers them, in the order of the agents."""
    return np.concatenate([partition.columns(int(j)) for j in members])


def own_tiles(rows: int, d: int, dtype: npt.DTypeLike, holds_first: bool) -> Tiles:
    """Tiles of zeros for the own columns; y has none unless agent 1 is here."""
    tiles, B = tile_count(rows, dtype), tile_rows(dtype)
    y = aligned_zeros((tiles if holds_first else 0, B), np.float64)
    return Tiles(aligned_zeros((tiles, d, B), dtype), y, rows, tiles_per_group(tiles))


def own_groups(groups: Numbers | None) -> Numbers | None:
    """Groups of the own columns, renumbered in the same order."""
    return None if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1).astype(np.int64)


def split(problem: Problem, placement: Placement, rank: int) -> tuple[Problem, Problem]:
    """(whole without data, own part) of a problem in memory."""
    members, offsets = placement.members(rank), problem.partition.offsets
    columns: Any = np.concatenate([np.arange(offsets[j], offsets[j + 1]) for j in members])
    tiles = own_tiles(problem.tiles.rows, len(columns), problem.dtype, rank == placement.first_rank)
    tiles.X[...] = problem.tiles.X[:, columns]
    tiles.y[...] = problem.tiles.y[: len(tiles.y)]
    groups = own_groups(None if problem.groups is None else problem.groups[columns])
    whole = without_data(problem.tiles.rows, problem.partition, problem.dtype, problem.loss, problem.penalty)
    own = replace(problem, tiles=tiles, partition=own_partition(problem.partition, members), groups=groups)
    return replace(whole, n=problem.n, norm=problem.norm), own
