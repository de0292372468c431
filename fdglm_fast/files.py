"""Writing files so that a reader sees the old one or the whole new one, never a part.

A temporary file in the same folder is written, synced and renamed onto its name; whatever goes wrong before,
the temporary file is removed and what was there stays. A process that is killed cannot remove its own: the next one
that writes to the same name does. The lock that a writer holds on its temporary file tells the two apart.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fdglm_fast.errors import FdglmError, UsageError
from fdglm_fast.memory import human_size

if TYPE_CHECKING:
    import h5py

_LONGEST_NAME = 200
_TOKEN = 12  # hexadecimal digits that make a temporary name unique


def printable(name: object, limit: int = _LONGEST_NAME) -> str:
    """`name` with what a terminal might obey (control, bidirectional, invalid) escaped, cut at `limit`."""
    text = os.fsdecode(name) if isinstance(name, bytes) else str(name)
    shown = text if len(text) <= limit else text[:limit] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def split_address(address: str) -> tuple[str, str]:
    """(file, group) of `file` or `file::/group`; a file whose own name has `::` in it is found too."""
    path, colons, group = address.rpartition("::")
    if not colons or os.path.exists(address):
        return address, "/"
    return path, group or "/"


def check_output(path: str | os.PathLike[str], force: bool = False, needed: int = 0) -> Path:
    """The real path to write to, after the checks that can be made before work begins.

    UsageError when something is there and `force` is not given, when it is no regular file, when the folder
    does not exist or cannot be written, or when fewer than `needed` bytes are free.
    """
    shown = printable(path)
    if "\0" in os.fspath(path):
        raise UsageError(f"'{shown}' is not a file name.")
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise _cannot_write(path, error) from error
    if mode is not None and not stat.S_ISREG(mode):
        raise UsageError(f"'{shown}' cannot be written: it is not a regular file.")
    if mode is not None and not force:
        raise UsageError(f"'{shown}' exists; use --force to replace it.")
    folder = target.parent
    if not folder.is_dir():
        raise UsageError(f"'{shown}' cannot be written: the folder '{printable(folder)}' does not exist.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"'{shown}' cannot be written: the folder '{printable(folder)}' is read-only.")
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UsageError(f"'{shown}' needs {human_size(needed)}, but only {human_size(free)} are free there.")
    return target


@contextmanager
def atomic_path(path: str | os.PathLike[str], force: bool = False, needed: int = 0) -> Iterator[Path]:
    """A temporary path with the suffix of `path`; becomes `path` as the block ends, vanishes if it raises."""
    target = check_output(path, force, needed)
    held: tuple[Path, int] | None = None
    try:
        _remove_abandoned(target)
        held = _create_beside(target)
        yield held[0]
        os.fsync(held[1])
        _publish(held[0], target, force)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        if held is not None:
            with suppress(OSError):
                held[0].unlink(missing_ok=True)
            os.close(held[1])
    _sync_folder(target.parent)


@contextmanager
def atomic_text(path: str | os.PathLike[str], force: bool = False) -> Iterator[TextIO]:
    """A UTF-8 text file that appears whole under `path` when the block ends."""
    with atomic_path(path, force) as temporary, open(temporary, "w", encoding="utf-8", newline="") as stream:
        yield stream


@contextmanager
def atomic_hdf5(path: str | os.PathLike[str], force: bool = False, needed: int = 0) -> Iterator[h5py.File]:
    """An HDF5 file that appears whole under `path` when the block ends; long writers use `check_written`."""
    import h5py

    with atomic_path(path, force, needed) as temporary, _Stream(temporary, "r+") as stream:
        with h5py.File(stream, "w") as file:
            _STREAMS[file.id] = stream
            try:
                yield file
                file.flush()  # an interrupt here is harmless; inside the close it would not be
            finally:
                del _STREAMS[file.id]
        stream.check()


def check_written(file: h5py.File) -> None:
    """Raise now, inside an `atomic_hdf5` block, if something written to `file` before was refused."""
    _STREAMS[file.id].check()


class _Stream(io.FileIO):
    """A file that remembers the first failed write and swallows the rest.

    HDF5 crashes at exit when a file cannot be flushed on closing (a full disk; seen with 2.0.0), so it is
    left to believe that all went well, and `check` raises what happened.
    """

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view) and self.failure is None:
                done += super().write(view[done:])
        except OSError as error:
            self.failure = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        length = self.tell() if size is None else size
        if self.failure is None:
            try:
                return super().truncate(length)
            except OSError as error:
                self.failure = error
        return length

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure


# The stream beneath every HDF5 file that is being written.
_STREAMS: dict[Any, _Stream] = {}


def _create_beside(target: Path) -> tuple[Path, int]:
    """An empty new file next to `target`, with the permissions the final file shall have, and the lock on it."""
    while True:
        temporary = target.with_name(_temporary_name(target, secrets.token_hex(_TOKEN // 2)))
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        with suppress(OSError):  # a file system without locks: nobody will take ours for abandoned either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.lexists(temporary):
            break
        os.close(handle)  # somebody took it for abandoned before it was locked
    with suppress(OSError):
        shutil.copymode(target, temporary)
    return temporary, handle


def _temporary_name(target: Path, token: str) -> str:
    return f".{target.stem[:80]}.{token}.tmp{target.suffix[:20]}"


def _remove_abandoned(target: Path) -> None:
    """Remove the temporary files for `target` that no living process holds: what a kill has left."""
    before, after = _temporary_name(target, "\0").split("\0")
    length = len(before) + _TOKEN + len(after)
    for entry in list(os.scandir(target.parent)):
        if not (len(entry.name) == length and entry.name.startswith(before) and entry.name.endswith(after)):
            continue
        with suppress(OSError):
            handle = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(entry.path)
            finally:
                os.close(handle)


def _sync_folder(folder: Path) -> None:
    # The file is in place already; a file system that cannot sync a folder is no reason to fail.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _publish(temporary: Path, target: Path, force: bool) -> None:
    """Rename; without `force`, through a hard link, which fails if `target` appeared in the meantime."""
    if force:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError as error:
        raise UsageError(f"'{printable(target)}' exists; use --force to replace it.") from error
    except OSError:
        os.rename(temporary, target)  # a file system without hard links


def _cannot_write(path: str | os.PathLike[str], error: BaseException) -> FdglmError:
    code = getattr(error, "errno", None) or _likely_cause(path)
    reason = os.strerror(code) if code else printable(error)
    return UsageError(f"'{printable(path)}' cannot be written: {reason}.")


def _likely_cause(path: str | os.PathLike[str]) -> int | None:
    """The error number of a write that failed, where HDF5 does not say: a full disk, or a limit on sizes of files."""
    import resource

    with suppress(OSError):
        if os.statvfs(os.path.dirname(os.path.realpath(path))).f_bavail == 0:
            return errno.ENOSPC
    limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    return errno.EFBIG if limited else None
