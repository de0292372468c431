"""What is refused in an HDF5 file that somebody else wrote, before a number of it is read.

An external link, external storage or a virtual dataset makes an ordinary read return another file's bytes; a
small file may declare terabytes; a filter may load a shared library. Loaded by `hdf5.py` only.
"""

from __future__ import annotations

import difflib
import itertools
import math
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py

from fdglm_fast.errors import DataError, FdglmError
from fdglm_fast.files import printable
from fdglm_fast.memory import human_size, require_memory

# Filters that are part of h5py itself: deflate (gzip), shuffle, fletcher32, szip, lzf.
FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 32000: "lzf"}
_MOST_SOFT_LINKS = 16
_MOST_NAMES = 12
_LAYOUTS = {h5py.h5d.COMPACT: "compact", h5py.h5d.CONTIGUOUS: "contiguous", h5py.h5d.CHUNKED: "chunked"}


def check_file(path: str) -> os.stat_result:
    """What `stat` says of the file, or DataError when it is missing or no regular file."""
    shown = printable(path)
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"'{shown}' does not exist.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"'{shown}' cannot be read: {printable(reason)}.") from error
    if stat.S_ISDIR(found.st_mode):
        raise DataError(f"'{shown}' is a folder, not an HDF5 file.")
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"'{shown}' is not a regular file.")
    return found


def open_file(path: str) -> h5py.File:
    """The file, open for reading, or DataError that says why it cannot be."""
    shown = printable(path)
    try:
        return h5py.File(path, "r")
    except BlockingIOError as error:
        raise DataError(f"'{shown}' is being written by another program; try again when it is done.") from error
    except PermissionError as error:
        raise DataError(f"'{shown}' cannot be read: permission denied.") from error
    except Exception as error:
        text = str(error)
        if "signature not found" in text:
            reason = "is not an HDF5 file"
        elif "truncated" in text:
            reason = "is truncated: it is shorter than it says"
        elif "already open" in text:
            reason = "is still open for writing, or its writer did not close it"
        else:
            reason = f"is not a readable HDF5 file ({_brief(error)})"
        raise DataError(f"'{shown}' {reason}.") from error


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever h5py raises on damaged bytes, which may be any exception, into one sentence."""
    try:
        yield
    except FdglmError:
        raise
    except MemoryError as error:
        raise DataError(f"there is not enough memory to read {what}.") from error
    except Exception as error:
        raise DataError(f"{what} cannot be read, the file is damaged ({_brief(error)}).") from error


@contextmanager
def no_plugins() -> Iterator[None]:
    """Empty HDF5's search path for filter plugins, so that a file cannot have a library loaded."""
    saved = [h5py.h5pl.get(k) for k in range(h5py.h5pl.size())]
    for _ in saved:
        h5py.h5pl.remove(0)
    try:
        yield
    finally:
        for folder in saved:
            h5py.h5pl.append(folder)


def find(root: h5py.Group, name: str) -> Any:
    """The object `name` below `root`, or None; every link on the way is looked at before it is followed.

    `name in group` and `group.get(name, getlink=True)` would open the target of an external link just to
    learn whether it exists, so the links are read one by one.
    """
    node: Any = root.file["/"] if name.startswith("/") else root
    pending = deque(name.encode("utf-8", "surrogateescape").split(b"/"))
    soft_links = 0
    while pending:
        part = pending.popleft()
        if part in (b"", b"."):
            continue
        if not isinstance(node, h5py.Group) or not node.id.links.exists(part):
            return None
        kind = node.id.links.get_info(part).type
        if kind == h5py.h5l.TYPE_HARD:
            node = _wrap(h5py.h5o.open(node.id, part))
        elif kind == h5py.h5l.TYPE_SOFT and soft_links < _MOST_SOFT_LINKS:
            soft_links += 1
            target = node.id.links.get_val(part)
            if target.startswith(b"/"):
                node = root.file["/"]
            pending.extendleft(reversed(target.split(b"/")))
        else:
            raise DataError(f"'{printable(part)}' {_refusal(kind)}; copy the data into one file first.")
    return node


def _wrap(identifier: Any) -> Any:
    if isinstance(identifier, h5py.h5g.GroupID):
        return h5py.Group(identifier)
    if isinstance(identifier, h5py.h5d.DatasetID):
        return h5py.Dataset(identifier)
    return identifier


def _refusal(kind: int) -> str:
    if kind == h5py.h5l.TYPE_EXTERNAL:
        return "is an external link into another file, which is not followed"
    if kind == h5py.h5l.TYPE_SOFT:
        return f"is reached through more than {_MOST_SOFT_LINKS} soft links"
    return "is a link of an unknown kind, which is not followed"


def missing(group: h5py.Group, name: str) -> str:
    """The end of a sentence about a dataset that is not there: the nearest name, and what there is."""
    names = [printable(os.fsdecode(key), 60) for key in itertools.islice(group.id, 1000)]
    if not names:
        return "there is nothing in it."
    there = ", ".join(sorted(names)[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    lowered = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f"did you mean '{lowered[near[0]]}'? (found: {there})" if near else f"found: {there}."


def check_dataset(dataset: Any, what: str, allow_filters: bool) -> None:
    """Refuse all but plain datasets of this file: other objects, foreign storage, unknown filters."""
    if not isinstance(dataset, h5py.Dataset):
        raise DataError(f"{what} is a group or a type, not a dataset.")
    plist = dataset.id.get_create_plist()
    if plist.get_layout() == h5py.h5d.VIRTUAL:
        raise DataError(f"{what} is a virtual dataset that reads other files, which is refused.")
    if plist.get_external_count() > 0:
        raise DataError(f"{what} keeps its numbers in another file (external storage), which is refused.")
    if plist.get_layout() not in _LAYOUTS:
        raise DataError(f"{what} has a storage layout that is not known.")
    for code, name in filters(dataset):
        if code not in FILTERS and not allow_filters:
            raise DataError(f"{what} uses the filter {name}, which is refused unless plugins are allowed.")
        if not h5py.h5z.filter_avail(code):
            raise DataError(f"{what} uses the filter {name}, which this HDF5 library does not have.")


def filters(dataset: h5py.Dataset) -> list[tuple[int, str]]:
    """Number and name of every filter the dataset's chunks pass through."""
    plist = dataset.id.get_create_plist()
    found = []
    for k in range(plist.get_nfilters()):
        code, _, _, name = plist.get_filter(k)
        found.append((code, FILTERS.get(code) or f"{code} ({printable(name, 40)})"))
    return found


def check_storage(dataset: h5py.Dataset, what: str, file_bytes: int) -> None:
    """Compare what the dataset declares with what the file holds, before anything is allocated."""
    declared = math.prod(dataset.shape) * dataset.id.get_type().get_size()
    stored = dataset.id.get_storage_size()
    if stored > file_bytes:
        raise DataError(f"{what} says it stores {human_size(stored)}, but the file has {human_size(file_bytes)}.")
    if dataset.chunks is None:
        offset = dataset.id.get_offset() or 0
        if stored < declared or offset + stored > file_bytes:
            raise DataError(f"{what} declares {human_size(declared)}, but the file holds {human_size(stored)} of it.")
        return
    expected = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    written = dataset.id.get_num_chunks()
    if written < expected:
        raise DataError(f"{what} declares {human_size(declared)}, but {written} of its {expected} chunks were written.")
    chunk_bytes = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
    require_memory(2 * chunk_bytes, f"one chunk of {what}")


def _brief(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return printable(lines[0] if lines else type(error).__name__, 120).rstrip(".")
