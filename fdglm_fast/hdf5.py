"""Problems in HDF5 files: X, y, and what may lie beside them, read block by block and never trusted.

    X              n x d real numbers; integers and booleans are converted
    y              n real numbers, or n x 1
    partition      optional: the agent, 0 to m-1, of every column
    groups         optional: a group number for every column, for the penalty group-l2
    feature_names  optional: a string for every column

Importing this module imports h5py, so nothing imports it before a file is to be opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import DTypeLike, NDArray

from fdglm_fast import hdf5_guard as guard
from fdglm_fast.errors import DataError
from fdglm_fast.files import printable, split_address
from fdglm_fast.finite import check_finite, check_real, convert, describe, find_nonfinite, nonfinite_sentence
from fdglm_fast.hdf5_heap import check_heaps
from fdglm_fast.memory import available_memory, require_memory

BLOCK_BYTES = 32 << 20
_UNCHECKED_BYTES = 64 << 20  # reads below this are not worth asking the system how much memory there is


def open_source(address: str, x: str = "X", y: str = "y", allow_filters: bool = False) -> Source:
    """Open `file.h5` or `file.h5::/group`; DataError, with one sentence, for whatever makes it unusable."""
    path, group = split_address(address)
    stack = ExitStack()
    try:
        if not allow_filters:
            stack.enter_context(guard.no_plugins())
        return Source(path, group, (x, y), allow_filters, stack)
    except BaseException:
        stack.close()
        raise


class Source:
    """An open HDF5 problem. Use as a context manager; made by `open_source`.

    path, group     where it is            n, d     samples and features
    dtype           as stored              x_chunks shape of the chunks of X, or None
    filters         names, of X            file_bytes, stored_bytes   of the file, of X in it
    """

    def __init__(self, path: str, group: str, names: tuple[str, str], allow_filters: bool, stack: ExitStack) -> None:
        self.path, self.group = path, group
        self._stack, self._allow_filters = stack, allow_filters
        self._stat = guard.check_file(path)
        self.file_bytes = self._stat.st_size
        file = stack.enter_context(guard.open_file(path))
        with guard.reading(f"group '{printable(group)}' of '{printable(path)}'"):
            self._group = guard.find(file["/"], group)
        if not isinstance(self._group, h5py.Group):
            raise DataError(f"'{printable(path)}' has no group '{printable(group)}'.")
        self._x_name, self._y_name = names
        self._x = self._require(names[0])
        with guard.reading(self._what(names[0])):
            self._open_design()
            self._y = self._find(names[1])
            if self._y is not None:
                self._check_response(self._y)

    def _open_design(self) -> None:
        what = self.describe_design()
        if len(self._x.shape) != 2:
            raise DataError(f"{what} must have two dimensions (samples, features), not {len(self._x.shape)}.")
        _check_numeric(self._x, what)
        self.n, self.d = (int(size) for size in self._x.shape)
        self.dtype: np.dtype[Any] = self._x.dtype
        self.x_chunks: tuple[int, ...] | None = self._x.chunks
        self.filters = tuple(name for _, name in guard.filters(self._x))
        self.stored_bytes = int(self._x.id.get_storage_size())

    def _check_response(self, y: h5py.Dataset) -> None:
        what = self._what(self._y_name)
        if len(y.shape) != 1 and (len(y.shape) != 2 or y.shape[1] != 1):
            raise DataError(f"{what} must be a vector, but its shape is {y.shape}.")
        _check_numeric(y, what)
        if y.shape[0] != self.n:
            raise DataError(f"{self.describe_design()} has {self.n} rows, but {what} has {y.shape[0]} entries.")

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a damaged one may be unwilling, which no longer matters."""
        try:
            self._stack.close()
        except (OSError, RuntimeError) as error:
            raise DataError(f"'{printable(self.path)}' is damaged: it cannot be closed.") from error

    @property
    def solve_dtype(self) -> np.dtype[Any]:
        """What X is converted to unless asked otherwise: float32 for float16 and float32, else float64."""
        small = self.dtype.kind == "f" and self.dtype.itemsize <= 4
        return np.dtype(np.float32 if small else np.float64)

    def block_rows(self, target_bytes: int = BLOCK_BYTES) -> int:
        """Rows of a block of about `target_bytes`, in whole chunks if memory allows: none is read twice."""
        row_bytes = self.d * max(self.dtype.itemsize, self.solve_dtype.itemsize)
        rows = max(1, target_bytes // row_bytes)
        chunk = self.x_chunks[0] if self.x_chunks else 1
        if chunk <= rows:
            rows -= rows % chunk
        elif chunk * row_bytes <= available_memory() // 8:
            rows = chunk
        return min(rows, self.n)

    def read_rows(self, start: int, stop: int, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """X[start:stop], C-ordered, in `dtype` (by default as stored, in native byte order)."""
        wanted = self.dtype.newbyteorder("=") if dtype is None else np.dtype(dtype)
        return convert(self._read_raw(start, stop, wanted.itemsize), wanted)

    def _read_raw(
        self, start: int, stop: int, converted_itemsize: int, columns: NDArray[np.int64] | None = None
    ) -> NDArray[Any]:
        if not 0 <= start <= stop <= self.n:
            raise IndexError(f"rows {start}:{stop} of {self.n}")
        needed = (stop - start) * self.d * (self.dtype.itemsize + converted_itemsize)
        if needed > _UNCHECKED_BYTES:
            require_memory(needed, f"reading {stop - start} rows of {self.describe_design()}")
        with guard.reading(f"rows {start} to {stop - 1} of {self.describe_design()}"):
            if columns is None:
                return self._x[start:stop]
            # One read for each run of columns that lie side by side: a list of columns is slow in HDF5.
            ends = np.flatnonzero(np.diff(columns) != 1) + 1
            runs = [(run[0], run[-1] + 1) for run in np.split(columns, ends)]
            return np.concatenate([self._x[start:stop, first:last] for first, last in runs], axis=1)

    def blocks(
        self, dtype: DTypeLike | None = None, rows: int | None = None, columns: NDArray[np.int64] | None = None
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """(first row, block) over all of X in order, every number checked to be finite in `dtype`.

        With `columns`, these only, in their order.
        """
        wanted = self.solve_dtype if dtype is None else np.dtype(dtype)
        height = rows or self.block_rows()
        for start in range(0, self.n, height):
            raw = self._read_raw(start, min(start + height, self.n), wanted.itemsize, columns)
            block = convert(raw, wanted)
            found = find_nonfinite(block)
            if found is not None:
                if columns is not None:
                    raise self._nonfinite_column(raw, start, found, columns, wanted)
                if find_nonfinite(raw) is None:
                    raise self._overflow(raw[found[1:]], start, found, wanted)
                raise self._nonfinite(start, height, found)
            yield start, block
        self.check_unchanged()

    def _nonfinite(self, start: int, height: int, found: tuple[int, int, int]) -> DataError:
        """The error for the first block with a NaN or an infinity; those in later blocks are counted too."""
        count, row, column = found
        for later in range(start + height, self.n, height):
            more = find_nonfinite(self._read_raw(later, min(later + height, self.n), 8))
            count += more[0] if more else 0
        value = self._read_raw(start + row, start + row + 1, 8)[0, column]
        where = f"row {start + row}, column {column}"
        return DataError(nonfinite_sentence(self.describe_design(), count, value, where))

    def _nonfinite_column(
        self,
        raw: NDArray[Any],
        start: int,
        found: tuple[int, int, int],
        columns: NDArray[np.int64],
        dtype: np.dtype[Any],
    ) -> DataError:
        """The error for the first block of some columns with a number that is not finite, or too large."""
        count, row, column = found
        there = (count, row, int(columns[column]))
        if find_nonfinite(raw) is None:
            return self._overflow(raw[row, column], start, there, dtype)
        where = f"row {start + row}, column {there[2]}"
        return DataError(nonfinite_sentence(self.describe_design(), count, raw[row, column], where))

    def _overflow(self, value: Any, start: int, found: tuple[int, int, int], dtype: np.dtype[Any]) -> DataError:
        count, row, column = found
        return DataError(
            f"{self.describe_design()} has {count} values too large for {dtype.name}, "
            f"the first ({value:.6g}) in row {start + row}, column {column} (counted from 0)."
        )

    def check_unchanged(self) -> None:
        """DataError if the file was replaced or written to since it was opened."""
        now = guard.check_file(self.path)
        kept = ("st_ino", "st_dev", "st_size", "st_mtime_ns")
        if any(getattr(now, key) != getattr(self._stat, key) for key in kept):
            raise DataError(f"'{printable(self.path)}' changed while it was read.")

    def response(self) -> NDArray[np.float64] | None:
        """y in float64, every entry finite, or None when the file has none."""
        if self._y is None:
            return None
        what = self._what(self._y_name)
        with guard.reading(what):
            y = convert(self._y[...].reshape(-1), np.dtype(np.float64))
        check_finite(y, 0, what)
        return y

    def require_response(self) -> NDArray[np.float64]:
        """y, or DataError that says what the file has instead."""
        y = self.response()
        if y is None:
            raise self._missing(self._y_name)
        return y

    def partition_owner(self) -> NDArray[np.int64] | None:
        """The agent of every column, or None without a dataset `partition`."""
        return self._column_numbers("partition")

    def groups(self) -> NDArray[np.int64] | None:
        """The group of every column, renumbered 0 to G-1 in ascending order, or None without `groups`."""
        numbers = self._column_numbers("groups")
        if numbers is None:
            return None
        return np.unique(numbers, return_inverse=True)[1].astype(np.int64)

    def feature_names(self) -> list[str] | None:
        """The names of the columns as they are (use `printable` before showing them), or None."""
        dataset = self._find_column_dataset("feature_names")
        if dataset is None:
            return None
        if h5py.check_string_dtype(dataset.dtype) is None:
            raise DataError(f"{self._what('feature_names')} must hold strings, not {describe(dataset.dtype)}.")
        with guard.reading(self._what("feature_names")):
            if h5py.check_string_dtype(dataset.dtype).length is None:
                check_heaps(self.path)
            raw = dataset[...].tolist()
            return [each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in raw]

    def _column_numbers(self, name: str) -> NDArray[np.int64] | None:
        dataset = self._find_column_dataset(name)
        if dataset is None:
            return None
        if dataset.dtype.kind not in "iu":
            raise DataError(f"{self._what(name)} must hold whole numbers, not {describe(dataset.dtype)}.")
        with guard.reading(self._what(name)):
            return np.ascontiguousarray(dataset[...], dtype=np.int64)

    def _find_column_dataset(self, name: str) -> h5py.Dataset | None:
        with guard.reading(self._what(name)):
            dataset = self._find(name)
            if dataset is not None and dataset.shape != (self.d,):
                raise DataError(
                    f"{self._what(name)} must have one entry for each of the {self.d} columns, "
                    f"but its shape is {dataset.shape}."
                )
        return dataset

    def _require(self, name: str) -> h5py.Dataset:
        with guard.reading(self._what(name)):
            dataset = self._find(name)
            if dataset is None:
                raise self._missing(name)
        return dataset

    def _find(self, name: str) -> h5py.Dataset | None:
        """The dataset `name`, checked and safe to read, or None."""
        dataset = guard.find(self._group, name)
        if dataset is None:
            return None
        what = self._what(name)
        guard.check_dataset(dataset, what, self._allow_filters)
        if dataset.shape is None or 0 in dataset.shape:
            raise DataError(f"{what} is empty.")
        guard.check_storage(dataset, what, self.file_bytes)
        return dataset

    def _missing(self, name: str) -> DataError:
        where = f"'{printable(self.path)}'" + ("" if self.group == "/" else f" group '{printable(self.group)}'")
        return DataError(f"{where} has no dataset '{printable(name)}'; {guard.missing(self._group, name)}")

    def describe_design(self) -> str:
        """How sentences call X."""
        return self._what(self._x_name)

    def _what(self, name: str) -> str:
        return f"dataset '{printable(name)}' of '{printable(self.path)}'"


def _check_numeric(dataset: h5py.Dataset, what: str) -> None:
    try:
        dtype = dataset.dtype
    except TypeError as error:
        raise DataError(f"{what} has a type that is no number.") from error
    check_real(dtype, what)


def data_hash(source: Source) -> str:
    """SHA-256, in hex, over shape, type and content of X, y, partition and groups.

    The content counts, not how it is stored: chunks, filters, byte order and block size leave the hash alone.
    """
    # 80-bit numbers carry padding bytes of no meaning.
    plain = source.dtype if source.dtype.itemsize <= 8 else np.dtype(np.float64)
    dtype = plain.newbyteorder("<")
    digest = hashlib.sha256(f"X {source.n} {source.d} {dtype.str}".encode())
    rows = source.block_rows()
    for start in range(0, source.n, rows):
        digest.update(source.read_rows(start, min(start + rows, source.n), dtype).data)
    parts = {"y": source.response(), "partition": source.partition_owner(), "groups": source.groups()}
    for name, values in parts.items():
        digest.update(f" {name} {'none' if values is None else values.size} ".encode())
        if values is not None:
            digest.update(convert(values, values.dtype.newbyteorder("<")).data)
    return digest.hexdigest()
