"""Who owns which columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.partition import Partition, contiguous, from_owner


def check_consistent(partition: Partition, d: int, m: int) -> None:
    assert partition.agents == m and partition.features == d
    assert sorted(partition.order.tolist()) == list(range(d))
    assert partition.offsets[0] == 0 and partition.offsets[-1] == d
    for j in range(m):
        columns = partition.columns(j).tolist()
        assert columns == sorted(columns) and len(columns) == partition.sizes[j] > 0
        assert all(partition.owner[k] == j for k in columns)
    for array in (partition.owner, partition.order, partition.offsets):
        assert array.dtype == np.int64


def test_contiguous_puts_larger_blocks_first() -> None:
    partition = contiguous(10, 4)
    assert partition.owner.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert partition.offsets.tolist() == [0, 3, 6, 8, 10]
    assert partition.is_contiguous


@settings(derandomize=True, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 60))
def test_contiguous_sizes_differ_by_one_at_most(d: int, m: int) -> None:
    if m > d:
        with pytest.raises(UsageError, match=rf"more agents \({m}\) than features \({d}\)"):
            contiguous(d, m)
        return
    partition = contiguous(d, m)
    check_consistent(partition, d, m)
    sizes = partition.sizes.tolist()
    assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


def test_from_owner_keeps_the_order_of_columns_inside_an_agent() -> None:
    partition = from_owner([2, 0, 1, 0, 2], 3)
    assert partition.order.tolist() == [1, 3, 2, 0, 4]
    assert partition.offsets.tolist() == [0, 2, 3, 5]
    assert not partition.is_contiguous


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_from_owner_agrees_with_the_definition(owner: list[int]) -> None:
    m = max(owner) + 1
    if set(owner) == set(range(m)):
        partition = from_owner(np.array(owner, dtype=np.uint8), m)
        assert partition.owner.tolist() == owner
        check_consistent(partition, len(owner), m)
    else:
        with pytest.raises((DataError, UsageError)):
            from_owner(owner, m)


def test_contiguous_and_from_owner_agree() -> None:
    direct, rebuilt = contiguous(17, 5), from_owner(contiguous(17, 5).owner, 5)
    np.testing.assert_array_equal(direct.order, rebuilt.order)
    np.testing.assert_array_equal(direct.offsets, rebuilt.offsets)


def test_from_owner_leaves_the_callers_array_alone() -> None:
    owner = np.array([0, 1], dtype=np.int64)
    partition = from_owner(owner, 2)
    owner[0] = 7
    assert partition.owner.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        partition.owner[0] = 1


@pytest.mark.parametrize(
    ("owner", "m", "sentence"),
    [
        ([0, 0, 2, 2], 3, "leaves 1 of 3 agents without a column: 1"),
        ([0, 1, 2, 3], 3, "gives column 3 to agent 3, but the agents are numbered 0 to 2"),
        ([0, -1, 1], 2, "gives column 1 to agent -1"),
        ([0.0, 1.0], 2, "whole number"),
        ([[0, 1]], 2, "one whole number"),
        (np.array([0, 2**63], dtype=np.uint64), 2, "out of range"),
    ],
)
def test_bad_owners_are_refused(owner: object, m: int, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        from_owner(owner, m)  # type: ignore[arg-type]


@pytest.mark.parametrize("m", [0, -3])
def test_no_agents_are_refused(m: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        contiguous(5, m)
    with pytest.raises(UsageError, match="at least 1"):
        from_owner([0], m)
