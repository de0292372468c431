"""What every rank must know about the data before it reads its own: shapes, types, who owns what, who can read what."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import DataError
from fdglm_fast.files import printable, split_address
from fdglm_fast.load import DTYPES, chosen_dtype
from fdglm_fast.mpi.layout_names import agent_file
from fdglm_fast.mpi.team import together
from fdglm_fast.partition import Partition, assign, from_owner

if TYPE_CHECKING:
    from fdglm_fast.hdf5 import Source
    from fdglm_fast.job import Job

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """allowed[j, r] says that rank r can read the columns of agent j; None: every rank can read all.

    `groups` and `feature_names` are of all columns where one file holds them all, else of none.
    """

    n: int
    partition: Partition
    dtype: np.dtype[Any]
    groups: Numbers | None = None
    feature_names: tuple[str, ...] | None = None
    allowed: npt.NDArray[np.bool_] | None = None


def open_job(job: Job, address: str | None = None) -> Source:
    from fdglm_fast.hdf5 import open_source

    return open_source(address or job.data, job.x, job.y, job.allow_filters)


def one_file(job: Job) -> Layout:
    """The layout of a file that holds all columns; nothing of X or y is read."""
    with open_job(job) as source:
        partition = assign(source.d, job.agents, source.partition_owner())
        names = source.feature_names()
        return Layout(
            source.n,
            partition,
            chosen_dtype(source, job.dtype),
            source.groups(),
            None if names is None else tuple(names),
        )


def local_files(job: Job, pattern: str, comm: Any) -> Layout:
    """The layout of one file an agent, from what each rank can see of them."""
    sight = together(comm, lambda: {j: _look(job, agent_file(pattern, j)) for j in range(1, job.agents + 1)})
    seen = comm.allgather(sight)
    return together(comm, lambda: _assemble(job, pattern, seen))


def _assemble(job: Job, pattern: str, seen: list[dict[int, tuple[int, int, str] | None]]) -> Layout:
    """The layout from what every rank has seen."""
    known: dict[int, tuple[int, int, str]] = {}
    allowed = np.zeros((job.agents, len(seen)), bool)
    for rank, shapes in enumerate(seen):
        for j, shape in shapes.items():
            if shape is not None:
                allowed[j - 1, rank] = True
                known[j] = shape
    for j in range(1, job.agents + 1):
        if j not in known:
            raise DataError(f"'{printable(agent_file(pattern, j))}', the data of agent {j}, does not exist.")
        if known[j][0] != known[1][0]:
            raise DataError(f"agent 1 has {known[1][0]} samples, but agent {j} has {known[j][0]}.")
    small = all(shape[2] == "float32" for shape in known.values())
    dtype: np.dtype[Any] = np.dtype(DTYPES[job.dtype or ("f32" if small else "f64")])
    sizes = [known[j][1] for j in range(1, job.agents + 1)]
    return Layout(known[1][0], from_owner(np.repeat(np.arange(job.agents), sizes), job.agents), dtype, allowed=allowed)


def _look(job: Job, path: str) -> tuple[int, int, str] | None:
    """Samples, columns and type of an agent's file; None where this machine does not have it."""
    if not os.path.exists(split_address(path)[0]):
        return None
    with open_job(job, path) as source:
        return source.n, source.d, source.solve_dtype.name
