"""The beginning and the end of a rank: its communicator, its threads, and how its failure ends the others."""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fdglm_fast.errors import FdglmError, UsageError
from fdglm_fast.files import printable
from fdglm_fast.mpi.surroundings import size_here

INSTALL = "pip install 'fdglm[mpich]' installs mpi4py and an MPI library"
ANNOUNCE = "FDGLM_ANNOUNCE_RANKS"  # set by our own launcher, which wants to know who is who
MARK = "fdglm-rank"
PAUSE = 0.2  # seconds between a last line and the end of a job


def world(threads: int | None = None) -> Any:
    """The communicator of all ranks; also sets how many threads the kernels of this rank will have.

    `NUMBA_NUM_THREADS`, or the number of cores, is shared by the ranks of a machine. It must be settled before Numba is
    imported, which then goes by the environment.
    """
    communicator = _import_mpi()
    expected = size_here()
    if expected is not None and expected != communicator.size:
        raise UsageError(
            f"{expected} ranks were started, but MPI sees {communicator.size}: mpiexec and mpi4py belong to different "
            "MPI libraries."
        )
    node = communicator.Split_type(_mpi().COMM_TYPE_SHARED)
    if "numba" not in sys.modules:
        chosen = os.environ.get("NUMBA_NUM_THREADS", "")
        cores = int(chosen) if chosen.isdecimal() else len(os.sched_getaffinity(0))
        os.environ["NUMBA_NUM_THREADS"] = str(threads or max(1, cores // node.size))
    if os.environ.get(ANNOUNCE):
        _say(f"{MARK} {communicator.rank} {os.getpid()} {socket.gethostname()}")
    communicator.node_rank = node.rank
    return communicator


def _say(line: str) -> None:
    """One write for a line: those of several ranks do not mix."""
    os.write(2, f"{line}\n".encode())


def _mpi() -> Any:
    from mpi4py import MPI

    return MPI


def _import_mpi() -> Any:
    try:
        import mpi4py
    except ImportError as error:
        raise UsageError(f"--engine mpi needs mpi4py, which is not installed: {INSTALL}.") from error
    mpi4py.rc.thread_level = "funneled"  # only the main thread calls MPI
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UsageError(f"mpi4py finds no MPI library: {INSTALL}.") from error

    class World(MPI.Intracomm):
        """The world with the number of this rank on its machine."""

        node_rank = 0

    return World(MPI.COMM_WORLD.Dup())


@contextmanager
def guarded(comm: Any) -> Iterator[None]:
    """What goes wrong on one rank ends the job: one line that names the rank, and MPI's abort, so that nobody waits.

    Errors that all ranks have agreed on are left alone: every rank has them, and ends in order.
    """
    try:
        yield
    except FdglmError as error:
        if getattr(error, "agreed", False) or comm.size == 1:
            raise
        _abort(comm, str(error), error.exit_code)
    except KeyboardInterrupt:
        if comm.size == 1:
            raise
        _abort(comm, "interrupted" if comm.rank == 0 else None, 130)
    except MemoryError:
        _abort(comm, "there is not enough memory", 3)
    except Exception as error:
        traceback.print_exc()
        _abort(comm, f"{type(error).__name__}: {error}", 1)


def _abort(comm: Any, sentence: str | None, code: int) -> None:
    """The launcher passes on what it has read from its ranks by the time the job is over: it gets a moment to read."""
    sys.stdout.flush()
    if sentence is not None:
        _say(f"fdglm: error: rank {comm.rank}: {printable(sentence, 2000)}")
        time.sleep(PAUSE)
    _mpi().COMM_WORLD.Abort(code)
