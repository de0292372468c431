"""Compiling ahead: every kernel that a run needs, before the run, by one process at a time.

Compiled kernels are kept on disk (see `_jit.py`). Two processes that write at once can spoil the cache, so a lock is
held while kernels are compiled; others wait and then load. A marker says that a set of kernels is complete: then it
is only read, and no lock is needed. A cache that cannot be read is emptied and filled again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fdglm_fast.kernels._jit import cache_folder

_READY: set[str] = set()


def prepare(
    dtype: npt.DTypeLike,
    schedule: str = "tiles",
    *,
    reference: bool = False,
    notify: Callable[[str], None] | None = None,
) -> float:
    """Have the kernels for a type and a schedule ready in this process; returns the seconds it took.

    `notify` is called with a line for the terminal when something has to be compiled.
    """
    return prepare_sets([f"{np.dtype(dtype).name}-{schedule}"] + (["reference"] if reference else []), notify)


def prepare_sets(names: list[str], notify: Callable[[str], None] | None = None) -> float:
    """Have sets of kernels ready: 'TYPE-SCHEDULE', 'reference', or 'values' (of losses, for predictions)."""
    missing = [name for name in names if name not in _READY]
    if not missing or os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return 0.0
    started = time.perf_counter()
    folder = cache_folder()
    for name in missing:
        _make_ready(name, folder, notify)
        _READY.add(name)
    return time.perf_counter() - started


def _make_ready(name: str, folder: Path, notify: Callable[[str], None] | None) -> None:
    work, marker = {"reference": _reference, "values": _values}.get(name, _iterations), folder / f"{name}.ready"
    if marker.exists():
        with contextlib.suppress(Exception):  # bytes that are not a pickle can raise anything
            return work(name)
    with cache_lock(folder):
        if marker.exists():  # it did not help, or another process has made it in the meantime
            try:
                return work(name)
            except Exception:
                empty_cache(folder)
        if notify:
            notify(f"compiling kernels ({name}), once for this version; later runs load them from {folder}")
        try:
            work(name)
        except Exception:
            empty_cache(folder)
            work(name)
        with contextlib.suppress(OSError):
            marker.touch()


def _iterations(name: str) -> None:
    """A tiny problem through every kernel."""
    from fdglm_fast.network import build_network
    from fdglm_fast.problem import Problem
    from fdglm_fast.solver import Options, solve

    dtype, schedule = name.split("-")
    if schedule == "mpi":
        from fdglm_fast.mpi.warm import warm

        return warm(dtype)
    X = np.eye(4, dtype=dtype)
    problem = Problem.from_arrays(X, np.ones(4), agents=2, penalty="l2", reg=1.0)
    network = build_network("path", 2)
    solve(problem, network, options=Options(iterations=1, schedule=schedule))
    solve(problem, network, options=Options(method="fast", iterations=20, tol=1e-30, schedule=schedule))  # restarts


def _reference(name: str) -> None:
    from fdglm_fast.losses import parse_loss
    from fdglm_fast.penalties import parse_penalty
    from fdglm_fast.reference import solve_reference

    X, y = np.array([[1.0], [2.0], [1.0], [2.0]]), np.array([1.0, 1.0, -1.0, 1.0])
    solve_reference(X, y, parse_loss("logistic"), parse_penalty("l1", 0.1))
    solve_reference(X, y, parse_loss("squared"), parse_penalty("group-l2", 0.1), np.zeros(1, np.int64))


def _values(name: str) -> None:
    from fdglm_fast.reference.pointwise import values

    values(0, 0.0, np.zeros(1), np.zeros(1))


def empty_cache(folder: Path) -> None:
    """Remove the files of Numba's that cannot be read, or all where each can, and the markers that vouch for them."""
    files = list(folder.rglob("*.nb[ic]"))
    spoiled = [path for path in files if not _is_readable(path)]
    for path in [*folder.glob("*.ready"), *(spoiled or files)]:
        with contextlib.suppress(OSError):
            path.unlink()


def _is_readable(path: Path) -> bool:
    """Whether a file of Numba's cache is made of whole pickles: two in an index, one in a file of code."""
    try:
        with open(path, "rb") as file:
            for _ in range(2 if path.suffix == ".nbi" else 1):
                pickle.load(file)
    except Exception:
        return False
    return True


@contextlib.contextmanager
def cache_lock(folder: Path) -> Iterator[None]:
    """Hold the cache's lock; where the folder cannot be written there is nothing to spoil."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o666)
    except OSError:
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
