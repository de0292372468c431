"""What there is to know about a problem before it is solved: its data, and the memory a solve would take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdglm_fast import partition
from fdglm_fast.errors import DataError
from fdglm_fast.finite import convert, find_nonfinite, nonfinite_sentence
from fdglm_fast.hdf5 import Source
from fdglm_fast.memory import available_memory, solve_terms


@dataclass(frozen=True)
class Survey:
    """The findings; `faults` are the sentences a solve would end with, None stands for not looked at."""

    agents: int
    blocks: partition.Partition
    partition_given: bool
    groups: int | None
    feature_names: list[str] | None
    response: str | None
    memory_terms: dict[str, int]
    memory_available: int
    nonfinite: int | None
    constant_columns: list[int] | None
    faults: list[str] = field(default_factory=list)

    @property
    def memory_needed(self) -> int:
        return sum(self.memory_terms.values())

    @property
    def fits(self) -> bool:
        return self.memory_needed <= self.memory_available


def survey(source: Source, agents: int | None = None, check: bool = True, method: str = "paper") -> Survey:
    """Look at a problem for `agents` agents (default: as many as its partition names, else 1) and a method.

    With `check` all of X is read, one block at a time, for non-finite numbers and constant columns.
    """
    owner = source.partition_owner()
    m = agents or (1 if owner is None else min(max(int(owner.max()) + 1, 1), source.d))
    blocks = partition.contiguous(source.d, m) if owner is None else partition.from_owner(owner, m)
    groups = source.groups()
    faults: list[str] = []
    nonfinite, constant = _scan(source, faults) if check else (None, None)
    return Survey(
        agents=m,
        blocks=blocks,
        partition_given=owner is not None,
        groups=None if groups is None else int(groups.max()) + 1,
        feature_names=source.feature_names(),
        response=_response_kind(source, faults),
        memory_terms=solve_terms(source.n, source.d, m, source.solve_dtype.itemsize, method),
        memory_available=available_memory(),
        nonfinite=nonfinite,
        constant_columns=constant,
        faults=faults,
    )


def response_kind(y: NDArray[np.float64]) -> str:
    """'constant', 'binary' ({0,1} or {-1,1}), 'count' (nonnegative integers) or 'real'."""
    if (y == y[0]).all():
        return "constant"
    if np.isin(y, (0.0, 1.0)).all() or np.isin(y, (-1.0, 1.0)).all():
        return "binary"
    if (y >= 0.0).all() and (y == np.floor(y)).all():
        return "count"
    return "real"


def _response_kind(source: Source, faults: list[str]) -> str | None:
    try:
        y = source.response()
    except DataError as error:
        faults.append(str(error))
        return None
    return None if y is None else response_kind(y)


def _scan(source: Source, faults: list[str]) -> tuple[int, list[int]]:
    """How many numbers of X are not finite, and the columns that hold one value only."""
    low = np.full(source.d, np.inf)
    high = np.full(source.d, -np.inf)
    count, first = 0, ""
    value: Any = None
    rows = source.block_rows()
    for start in range(0, source.n, rows):
        block = source.read_rows(start, min(start + rows, source.n))
        found = find_nonfinite(block)
        if found is not None:
            if count == 0:
                value, first = block[found[1:]], f"row {start + found[1]}, column {found[2]}"
            count += found[0]
        np.minimum(low, convert(block.min(axis=0), low.dtype), out=low)
        np.maximum(high, convert(block.max(axis=0), low.dtype), out=high)
    source.check_unchanged()
    if count:
        faults.append(nonfinite_sentence(source.describe_design(), count, value, first))
    return count, np.flatnonzero(low == high).tolist()
