"""References kept in an HDF5 file beside the data, so that a sweep pays for each once.

The file (attribute format = "fdglm-reference") holds one group per key: dataset `theta`, the other fields of
`Reference` as attributes. It is always replaced whole. A cache is a convenience: nothing that is wrong with it
is an error, at most a warning.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import FdglmError
from fdglm_fast.files import atomic_hdf5, printable
from fdglm_fast.losses import Loss
from fdglm_fast.penalties import Penalty
from fdglm_fast.reference.answer import REFERENCE_VERSION, Reference

if TYPE_CHECKING:
    import h5py

FORMAT = "fdglm-reference"
LOCK_SECONDS = 5.0
_ATTRIBUTES = tuple(field.name for field in fields(Reference) if field.name != "theta")


@dataclass(frozen=True)
class CachedReference:
    """A reference, whether it came from the cache, and what was wrong with the cache, if anything was."""

    reference: Reference
    hit: bool
    warning: str | None


class _BadCache(Exception):
    """The file is no cache of ours, or a broken one."""


def reference_key(data_hash: str, loss: Loss, penalty: Penalty, groups: NDArray[np.integer] | None = None) -> str:
    """sha256 of all that the answer depends on; `groups` counts for group-l2 only."""
    parts = [f"reference {REFERENCE_VERSION}", data_hash, loss.spec, penalty.spec, float(penalty.reg).hex()]
    if penalty.name == "group-l2" and groups is not None:
        parts.append(hashlib.sha256(np.ascontiguousarray(groups, dtype="<i8").tobytes()).hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def cached_reference(cache_path: str | os.PathLike[str], key: str, compute: Callable[[], Reference]) -> CachedReference:
    """The reference stored under `key`, or the computed one, which is then stored if the folder allows it."""
    path, warning = Path(cache_path), None
    try:
        known = _read(path)
    except _BadCache as error:
        known, warning = {}, f"the cache '{printable(path)}' is ignored and replaced: {error}."
    if key in known:
        return CachedReference(known[key], True, None)
    reference = compute()
    return CachedReference(reference, False, _store(path, key, reference) or warning)


def _store(path: Path, key: str, reference: Reference) -> str | None:
    """Add one entry to what the file holds by now; the reason as a sentence where that is not possible."""
    try:
        with _folder_lock(path.parent):
            try:
                entries = _read(path)
            except _BadCache:
                entries = {}
            entries[key] = reference
            with atomic_hdf5(path, force=True) as file:
                file.attrs["format"] = FORMAT
                for name in sorted(entries):
                    _write_entry(file.create_group(name), entries[name])
    except (FdglmError, OSError, RuntimeError) as error:
        return f"the reference was not cached: {printable(error).rstrip('.')}."
    return None


def _write_entry(group: h5py.Group, reference: Reference) -> None:
    group.create_dataset("theta", data=reference.theta, chunks=reference.theta.shape, fletcher32=True)
    for name in _ATTRIBUTES:
        group.attrs[name] = getattr(reference, name)


def _read(path: Path) -> dict[str, Reference]:
    """All entries of the file, none where there is no file; _BadCache where it cannot be trusted."""
    import h5py

    from fdglm_fast.hdf5_guard import no_plugins
    from fdglm_fast.hdf5_heap import check_heaps

    if not path.exists():
        return {}
    try:
        with no_plugins(), h5py.File(path, "r") as file:
            check_heaps(str(path))
            if file.attrs.get("format") != FORMAT:
                raise _BadCache("it is not a cache of references")
            return {name: _read_entry(file, name, path.stat().st_size) for name in file}
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, FdglmError) as error:
        raise _BadCache("it cannot be read") from error


def _read_entry(file: h5py.File, name: str, limit: int) -> Reference:
    """One entry; links that lead out of the file, and datasets that claim more than the file holds, are refused."""
    import h5py

    group = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(group, h5py.Group) or not isinstance(group.get("theta", getlink=True), h5py.HardLink):
        raise _BadCache("it holds a link")
    stored = group["theta"]
    if not isinstance(stored, h5py.Dataset) or stored.external or stored.is_virtual or stored.nbytes > limit:
        raise _BadCache("its data are not in the file")
    if stored.ndim != 1 or stored.dtype != np.float64:
        raise _BadCache("its data have the wrong form")
    values: dict[str, Any] = {name: group.attrs[name] for name in _ATTRIBUTES}
    numbers = {name: float(value) for name, value in values.items() if name != "method"}
    theta = stored[...]
    if not (np.isfinite(theta).all() and math.isfinite(numbers["objective"])):
        raise _BadCache("it holds numbers that are not finite")
    return Reference(theta=theta, method=str(values["method"]), **numbers)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """An advisory lock on the folder, so that two writers do not drop each other's entry.

    The file is whole without it too: after a few seconds, or where folders cannot be locked, we go on.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while time.monotonic() < deadline:
            with suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)
