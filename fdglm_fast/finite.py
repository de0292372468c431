"""Checks on arrays that come from outside: a type that is a real number, values that are finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import DataError


def check_real(dtype: np.dtype[Any], what: str) -> None:
    """DataError unless `dtype` is a real number, an integer or a boolean."""
    if dtype.kind not in "biuf":
        raise DataError(f"{what} must hold real numbers, not {describe(dtype)}.")


def describe(dtype: np.dtype[Any]) -> str:
    """What a type holds, in words."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    if dtype.kind in "SUT" or metadata.get("vlen") in (str, bytes):
        return "strings"
    if dtype.names is not None:
        return "compound records"
    words = {"c": "complex numbers", "O": "objects or references", "M": "dates", "m": "durations"}
    return words.get(dtype.kind, f"values of type {dtype.name}")


def convert(block: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """`block` C-ordered in `dtype`; what is too large for it becomes infinite, for the check that follows."""
    with np.errstate(over="ignore", invalid="ignore"):  # invalid: bits of a foreign type that are no number
        return np.ascontiguousarray(block, dtype=dtype)


def find_nonfinite(block: NDArray[Any]) -> tuple[int, int, int] | None:
    """(how many, row, column) of the NaN and infinite entries of a vector or matrix, or None.

    A sum is finite only if every term is, and costs one pass without temporaries; only when it is not finite
    (a finite sum may still overflow) are the entries looked at one by one.
    """
    if block.dtype.kind != "f" or block.size == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(block.sum()):
            return None
    wrong = ~np.isfinite(block)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    row, column = divmod(int(np.argmax(wrong)), 1 if block.ndim == 1 else block.shape[1])
    return count, row, column


def check_finite(block: NDArray[Any], row_offset: int, name: str) -> None:
    """DataError that names the first NaN or infinite entry of `block`, which begins at row `row_offset`."""
    found = find_nonfinite(block)
    if found is None:
        return
    count, row, column = found
    if block.ndim == 1:
        raise DataError(nonfinite_sentence(name, count, block[row], f"row {row_offset + row}"))
    where = f"row {row_offset + row}, column {column}"
    raise DataError(nonfinite_sentence(name, count, block[row, column], where))


def nonfinite_sentence(name: str, count: int, value: Any, where: str) -> str:
    """'X has 3 values that are not finite, the first (nan) in row 5, column 2 (counted from 0).'"""
    if count == 1:
        return f"{name} has a value that is not finite: {value} in {where} (counted from 0)."
    return f"{name} has {count} values that are not finite, the first ({value}) in {where} (counted from 0)."
