"""Reading on a rank: the columns of its own agents, and y where agent 1 is. Nothing else is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import UsageError
from fdglm_fast.load import fill
from fdglm_fast.memory import require_memory, solve_bytes
from fdglm_fast.mpi.layout import Layout, Numbers, open_job
from fdglm_fast.mpi.layout_names import agent_file
from fdglm_fast.mpi.placement import Placement
from fdglm_fast.mpi.split import own_columns, own_groups, own_partition, own_tiles, without_data
from fdglm_fast.penalties import GROUP_L2
from fdglm_fast.problem import Problem, group_numbers

if TYPE_CHECKING:
    from fdglm_fast.job import Job

Progress = Callable[[int, int], None] | None


def read_part(
    job: Job,
    layout: Layout,
    placement: Placement,
    rank: int,
    pattern: str | None,
    method: str,
    progress: Progress = None,
) -> tuple[Problem, Problem]:
    """(whole without data, own part); columns come from one file, or from one file an agent under `pattern`."""
    members = placement.members(rank)
    partition = own_partition(layout.partition, members)
    itemsize, here = layout.dtype.itemsize, partition.features
    needed = solve_bytes(layout.n, here, len(members), itemsize, method)
    require_memory(needed, f"rank {rank}, with {len(members)} agents and {layout.n} x {here} numbers,")
    first = rank == placement.first_rank
    tiles = own_tiles(layout.n, here, layout.dtype, first)
    if pattern is None:
        groups, y = _from_one(job, layout, members, tiles.X, first, progress)
    else:
        groups, y = _from_many(job, pattern, members, partition.offsets, tiles.X, first)
    if y is not None:
        tiles.y.reshape(-1)[: layout.n] = job.loss.prepare_response(y)
    whole = without_data(layout.n, layout.partition, layout.dtype, job.loss, job.penalty)
    own = Problem(tiles, layout.n, partition, job.loss, job.penalty, own_groups(groups))
    return replace(whole, feature_names=layout.feature_names), own


def _from_one(
    job: Job, layout: Layout, members: Numbers, X: npt.NDArray[Any], first: bool, progress: Progress
) -> tuple[Numbers | None, npt.NDArray[np.float64] | None]:
    columns = own_columns(layout.partition, members)
    groups = None
    if job.penalty.code == GROUP_L2:
        numbers = group_numbers(layout.groups, layout.partition)
        offsets = layout.partition.offsets
        groups = np.concatenate([numbers[offsets[j] : offsets[j + 1]] for j in members])
    with open_job(job) as source:
        fill(source, X, np.arange(len(columns)), progress, columns)
        return groups, source.require_response() if first else None


def _from_many(
    job: Job, pattern: str, members: Numbers, offsets: Numbers, X: npt.NDArray[Any], first: bool
) -> tuple[Numbers | None, npt.NDArray[np.float64] | None]:
    y: npt.NDArray[np.float64] | None = None
    groups: list[Numbers] = []
    for k, j in enumerate(members):
        with open_job(job, agent_file(pattern, int(j) + 1)) as source:
            part = np.zeros((X.shape[0], source.d, X.shape[2]), X.dtype)
            fill(source, part, np.arange(source.d), None)
            X[:, offsets[k] : offsets[k + 1]] = part
            if first and j == 0:
                y = source.require_response()
            if job.penalty.code == GROUP_L2:
                numbers = source.groups()
                if numbers is None:
                    raise UsageError(
                        "penalty 'group-l2' needs the group of each column: a dataset `groups` beside each X."
                    )
                groups.append(numbers + sum(int(one.max()) + 1 for one in groups))
    return np.concatenate(groups) if groups else None, y
