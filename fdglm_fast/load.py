"""From a file to a problem: blocks of rows are read by one thread and packed into tiles by the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.kernels.arrays import tile_rows
from fdglm_fast.losses import Loss
from fdglm_fast.memory import human_size, require_memory, solve_bytes
from fdglm_fast.partition import assign
from fdglm_fast.penalties import Penalty
from fdglm_fast.problem import Problem, empty_tiles

if TYPE_CHECKING:
    from fdglm_fast.hdf5 import Source

DTYPES = {"f32": np.float32, "f64": np.float64}


def load_problem(
    source: Source,
    agents: int,
    loss: Loss,
    penalty: Penalty,
    *,
    dtype: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    method: str = "paper",
) -> Problem:
    """The problem in an open file, split among `agents` by its `partition` dataset or else in contiguous blocks.

    X keeps float32 unless `dtype` asks otherwise. `progress` is told rows done and rows in all; `method` decides how
    much memory there has to be.
    """
    kind = chosen_dtype(source, dtype)
    partition = assign(source.d, agents, source.partition_owner())
    needed = solve_bytes(source.n, source.d, agents, kind.itemsize, method)
    fits = "fewer agents, --dtype f32 or a machine with more memory would do"
    require_memory(needed, f"a solve of {source.n} x {source.d} {kind.name} with {agents} agents ({fits})")
    y = source.require_response()
    names = source.feature_names()
    tiles = empty_tiles(source.n, source.d, kind)
    fill(source, tiles.X, partition.order, progress)
    labels = tuple(names) if names is not None else None
    return Problem.from_tiles(tiles, y, partition, loss, penalty, groups=source.groups(), feature_names=labels)


def chosen_dtype(source: Source, dtype: str | None) -> np.dtype[Any]:
    if dtype is None:
        return source.solve_dtype
    if dtype not in DTYPES:
        raise UsageError(f"the type must be f32 or f64, not '{dtype}'.")
    return np.dtype(DTYPES[dtype])


def fill(
    source: Source,
    X: npt.NDArray[Any],
    order: npt.NDArray[np.int64],
    progress: Callable[[int, int], None] | None,
    columns: npt.NDArray[np.int64] | None = None,
) -> None:
    """Read X, or some columns of it, into tiles, the columns that are read in `order`."""
    from fdglm_fast.hdf5 import BLOCK_BYTES
    from fdglm_fast.kernels.pack import pack

    B = tile_rows(X.dtype)
    rows = source.block_rows(min(BLOCK_BYTES, max(1 << 20, X.nbytes // 64)))
    rows += -rows % B  # blocks begin at the beginning of a tile
    for start, block in _ahead(source.blocks(X.dtype, rows, columns)):
        if pack(block, start, order, X):
            raise DataError(
                f"{source.describe_design()} holds numbers that are not finite ({human_size(block.nbytes)})."
            )
        if progress:
            progress(start + len(block), source.n)


def _ahead(blocks: Iterator[tuple[int, npt.NDArray[Any]]]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """The same blocks, each read while the one before it is worked on."""
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, blocks, None)
        while (block := waiting.result()) is not None:
            waiting = reader.submit(next, blocks, None)
            yield block
