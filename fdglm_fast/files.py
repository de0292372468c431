"""Writing files so that a reader sees the old one or the whole new one, never a part.

A temporary file in the same folder is written, synced and renamed onto its name; whatever goes wrong before,
the temporary file is removed and what was there stays.
"""

from __future__ import annotations

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
    temporary: Path | None = None
    try:
        temporary = _create_beside(target)
        yield temporary
        _sync(temporary)
        _publish(temporary, target, force)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
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


def _create_beside(target: Path) -> Path:
    """An empty new file next to `target`, with the permissions the final file shall have."""
    stem, suffix = target.stem[:80], target.suffix[:20]
    temporary = target.with_name(f".{stem}.{secrets.token_hex(6)}.tmp{suffix}")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    with suppress(OSError):
        shutil.copymode(target, temporary)
    return temporary


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    # The file is in place already; a file system that cannot sync a folder is no reason to fail.
    with suppress(OSError):
        _sync(folder)


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
    code = getattr(error, "errno", None)
    reason = os.strerror(code) if code else printable(error)
    return UsageError(f"'{printable(path)}' cannot be written: {reason}.")
