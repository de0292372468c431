"""What the environment says about ranks, before MPI, or anything else that is heavy, is imported."""

from __future__ import annotations

import os

# MPICH (and Intel MPI), Open MPI, PMIx, Slurm
_RANK = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
_SIZE = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")


def rank_here() -> int | None:
    """The rank that a launcher gave this process, if one did."""
    return _first(_RANK)


def size_here() -> int | None:
    return _first(_SIZE)


def _first(names: tuple[str, ...]) -> int | None:
    found = [os.environ[name] for name in names if os.environ.get(name, "").isdecimal()]
    return int(found[0]) if found else None
