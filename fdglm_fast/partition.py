"""Which agent owns which columns of X."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fdglm_fast.errors import DataError, UsageError


@dataclass(frozen=True, eq=False)
class Partition:
    """The columns of X split among m agents; agent j owns X_j = X[:, order[offsets[j]:offsets[j+1]]].

    agents   m
    owner    the agent of each column, int64 (d,)
    order    the columns sorted by agent, ascending inside an agent, int64 (d,)
    offsets  where each agent's columns begin in `order`, int64 (m + 1,)
    """

    agents: int
    owner: NDArray[np.int64]
    order: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @property
    def features(self) -> int:
        """d, the number of columns."""
        return len(self.owner)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """d_j, the number of columns of every agent."""
        return np.diff(self.offsets)

    @property
    def is_contiguous(self) -> bool:
        """Whether `order` leaves the columns where they are."""
        return bool(np.all(self.order == np.arange(self.features)))

    def columns(self, j: int) -> NDArray[np.int64]:
        """The columns that agent j owns."""
        return self.order[self.offsets[j] : self.offsets[j + 1]]


def contiguous(d: int, m: int) -> Partition:
    """Contiguous blocks whose sizes differ by one at most, larger blocks first."""
    _check_agents(d, m)
    small, larger = divmod(d, m)
    sizes = np.full(m, small, dtype=np.int64)
    sizes[:larger] += 1
    return _build(np.repeat(np.arange(m, dtype=np.int64), sizes), sizes)


def from_owner(owner: ArrayLike, m: int) -> Partition:
    """The partition in which column k belongs to agent owner[k], 0 <= owner[k] < m."""
    numbers = np.asarray(owner)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DataError("the partition must be one whole number (an agent) per column.")
    _check_agents(len(numbers), m)
    outside = np.flatnonzero((numbers < 0) | (numbers >= m))
    if outside.size:
        k = int(outside[0])
        raise DataError(
            f"the partition gives column {k} to agent {numbers[k]}, "
            f"but the agents are numbered 0 to {m - 1} ({outside.size} columns are out of range)."
        )
    numbers = numbers.astype(np.int64)
    sizes = np.bincount(numbers, minlength=m).astype(np.int64)
    empty = np.flatnonzero(sizes == 0)
    if empty.size:
        named = ", ".join(str(j) for j in empty[:5]) + (", ..." if empty.size > 5 else "")
        raise DataError(f"the partition leaves {empty.size} of {m} agents without a column: {named}.")
    return _build(numbers, sizes)


def assign(d: int, m: int, owner: ArrayLike | None = None) -> Partition:
    """Who owns what: as `owner` has it, where there is one and more than one agent, else contiguous blocks."""
    return contiguous(d, m) if owner is None or m == 1 else from_owner(owner, m)


def merged(partition: Partition) -> Partition:
    """One agent with the columns of all, in the order in which they lie."""
    offsets = np.array([0, partition.features], dtype=np.int64)
    owner = np.zeros(partition.features, dtype=np.int64)
    for array in (owner, offsets):
        array.flags.writeable = False
    return Partition(1, owner, partition.order, offsets)


def group_numbers(groups: ArrayLike | None, partition: Partition) -> NDArray[np.int64]:
    """The group of each column, in agent order, renumbered 0, 1, ...; groups may not cross agents."""
    if groups is None:
        raise UsageError("penalty 'group-l2' needs the group of each column: a dataset `groups` beside X.")
    numbers = np.asarray(groups)
    if numbers.shape != (partition.features,):
        raise DataError(f"`groups` has shape {numbers.shape}, but there are {partition.features} columns.")
    ordered = np.unique(numbers, return_inverse=True)[1].reshape(-1).astype(np.int64)[partition.order]
    check_groups_inside(ordered, partition)
    return ordered


def check_groups_inside(groups: NDArray[np.int64], partition: Partition) -> None:
    """DataError when a group, numbered 0, 1, ... in agent order, has columns of two agents."""
    owner = np.repeat(np.arange(partition.agents), partition.sizes)
    first = np.full(int(groups.max()) + 1, partition.agents)
    last = np.full(int(groups.max()) + 1, -1)
    np.minimum.at(first, groups, owner)
    np.maximum.at(last, groups, owner)
    split = np.flatnonzero(first != last)
    if split.size:
        g = int(split[0])
        raise DataError(
            f"group {g} has columns of agent {first[g]} and of agent {last[g]}; a group must lie inside one agent."
        )


def _check_agents(d: int, m: int) -> None:
    if m < 1:
        raise UsageError(f"the number of agents must be at least 1, not {m}.")
    if m > d:
        raise UsageError(f"more agents ({m}) than features ({d}).")


def _build(owner: NDArray[np.int64], sizes: NDArray[np.int64]) -> Partition:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    order = np.argsort(owner, kind="stable").astype(np.int64)
    for array in (owner, order, offsets):
        array.flags.writeable = False
    return Partition(len(sizes), owner, order, offsets)
