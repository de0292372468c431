"""What does not go together on ranks; told before MPI, Numba or any data are touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fdglm_fast.errors import UsageError

if TYPE_CHECKING:
    from fdglm_fast.job import Job
    from fdglm_fast.options import Options


def check_ranks(job: Job, options: Options, pattern: str | None, ranks: int | None) -> None:
    """UsageError for options that need one process, or all columns in one place."""
    options.check()
    if job.compress == "on":
        raise UsageError("--compress on needs all columns in one place, and --engine mpi leaves them where they are.")
    if options.schedule == "agents":
        raise UsageError("--schedule agents is for --engine threads.")
    if ranks is not None and ranks > job.agents:
        raise UsageError(f"there are {ranks} ranks for {job.agents} agents: each rank needs one at least.")
    if pattern is not None and job.reference:
        raise UsageError("--reference needs all columns in one place, and --local-data leaves them where they are.")
