"""What lies where a result is to be written: nothing, the result itself, the same but unfinished, or something else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from fdglm_fast.errors import FdglmError, UsageError
from fdglm_fast.files import printable
from fdglm_fast.stopping import StopReason

if TYPE_CHECKING:
    from fdglm_fast.job import Job
    from fdglm_fast.options import Options

# A run that ended for one of these would end the same way again.
FINISHED = frozenset({StopReason.ITERATIONS.value, StopReason.TOLERANCE.value, StopReason.TIME.value})
_TYPES = {"f32": "float32", "f64": "float64"}


class State(Enum):
    """ABSENT      there is nothing
    DONE        a finished result with the same fingerprint
    UNFINISHED  a result with the same fingerprint that was interrupted or broke down
    OTHER       something else: other options, other data, another kind of file
    """

    ABSENT = "absent"
    DONE = "done"
    UNFINISHED = "unfinished"
    OTHER = "other"


@dataclass(frozen=True)
class Existing:
    """The state of a path, and the JSON of the run that is there."""

    state: State
    run: dict[str, Any] | None = None


def look(path: str | os.PathLike[str], mark: str) -> Existing:
    """What lies at `path` for a run with the fingerprint `mark`."""
    from fdglm_fast.result import read_result

    if not os.path.lexists(path):
        return Existing(State.ABSENT)
    try:
        run = read_result(os.fspath(path)).run
    except FdglmError:
        return Existing(State.OTHER)
    if not isinstance(run, dict) or run.get("fingerprint") != mark:
        return Existing(State.OTHER)
    return Existing(State.DONE if run.get("stop_reason") in FINISHED else State.UNFINISHED, run)


def refuse_other(path: str | os.PathLike[str]) -> UsageError:
    return UsageError(
        f"'{printable(path)}' holds something else than this run (other options, other data, or no result); "
        "use --force to replace it."
    )


@dataclass(frozen=True)
class Content:
    """What has to be known of a data file to tell the fingerprints of runs on it, without reading it into memory."""

    hash: str
    n: int
    d: int
    dtype: str
    split: int | None  # the number of agents that the file itself splits its columns among


def content_of(job: Job) -> Content:
    """Read the data once, for their hash."""
    from fdglm_fast.hdf5 import data_hash, open_source

    with open_source(job.data, job.x, job.y, job.allow_filters) as source:
        owner = source.partition_owner()
        dtype = source.solve_dtype.name if job.dtype is None else _TYPES[job.dtype]
        return Content(data_hash(source), source.n, source.d, dtype, None if owner is None else int(owner.max()) + 1)


@dataclass(frozen=True)
class _Size:
    """What the choice of compression depends on."""

    loss: Any
    n: int
    d: int


def mark_of(job: Job, options: Options, content: Content, sweep: bool = False) -> str:
    """The fingerprint that the result of a job will have."""
    from fdglm_fast.compress import wanted
    from fdglm_fast.fingerprint import deciding_options, fingerprint

    compressed = wanted(job.compress, _Size(job.loss, content.n, content.d), sweep)
    return fingerprint(deciding_options(job, options, content.dtype, compressed), content.hash)
