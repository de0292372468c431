"""Norms of the agents' blocks: never below the true ones, and hardly above."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fdglm_fast import norms
from fdglm_fast.norms import block_norms
from fdglm_fast.partition import contiguous
from fdglm_fast.problem import Problem

Array = NDArray[np.float64]


def bounds_and_norms(X: Any, offsets: NDArray[np.int64]) -> tuple[Array, Array]:
    tiles = Problem.from_arrays(X, np.zeros(len(X))).tiles
    true = [np.linalg.norm(X[:, a:b].astype(np.float64), 2) for a, b in pairwise(offsets)]
    return block_norms(tiles, offsets), np.array(true)


def assert_tight(X: Any, offsets: NDArray[np.int64], tolerance: float = 1e-9) -> None:
    bound, true = bounds_and_norms(X, offsets)
    # NumPy's own norm is good to a few units in the last place
    assert (bound >= true * (1.0 - 1e-15 * np.sqrt(len(X)))).all(), bound / true - 1.0
    assert (bound <= true * (1.0 + tolerance)).all(), bound / true - 1.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(("n", "d", "m"), [(1, 1, 1), (7, 3, 2), (40, 40, 1), (40, 60, 7), (500, 30, 30), (333, 50, 4)])
def test_gaussian_blocks(n: int, d: int, m: int, dtype: Any) -> None:
    X = np.random.default_rng(n + d).standard_normal((n, d)).astype(dtype)
    assert_tight(X, contiguous(d, m).offsets, 1e-9 if dtype == np.float64 else 1e-5)


def test_the_whole_matrix_of_the_paper_in_small() -> None:
    """Sides of one order: the largest singular values are close to each other."""
    X = np.random.default_rng(1).standard_normal((300, 280))
    assert_tight(X, np.array([0, 280]))


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-9, 1e-6, 1e-3])
def test_two_singular_values_that_nearly_agree(gap: float) -> None:
    rng = np.random.default_rng(2)
    U, V = (np.linalg.qr(rng.standard_normal((30, 30)))[0] for _ in range(2))
    values = np.linspace(1.0 - gap, 0.1, 30)
    values[0] = 1.0
    assert_tight(U @ np.diag(values) @ V, np.array([0, 30]))


def test_blocks_of_one_column() -> None:
    X = np.random.default_rng(3).standard_normal((50, 6)) * 10.0 ** np.arange(-3, 3)
    assert_tight(X, np.arange(7))


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_rank_deficient_blocks(rank: int) -> None:
    rng = np.random.default_rng(rank)
    X = rng.standard_normal((60, rank)) @ rng.standard_normal((rank, 40))
    assert_tight(X, contiguous(40, 3).offsets)


def test_identical_columns() -> None:
    X = np.repeat(np.random.default_rng(4).standard_normal((45, 1)), 12, axis=1)
    assert_tight(X, np.array([0, 5, 12]))


def test_a_block_of_zeros_beside_others() -> None:
    X = np.random.default_rng(5).standard_normal((45, 12))
    X[:, 4:8] = 0.0
    bound, true = bounds_and_norms(X, np.array([0, 4, 8, 12]))
    assert bound[1] == 0.0 == true[1]
    np.testing.assert_allclose(bound, true, rtol=1e-9)


def test_scales_that_are_far_apart() -> None:
    """Blocks side by side do not disturb each other, and small or large units lose nothing."""
    X = np.random.default_rng(6).standard_normal((45, 12))
    X[:, :4] *= 1e-120
    X[:, 8:] *= 1e120
    assert_tight(X, np.array([0, 4, 8, 12]))


def test_a_norm_that_has_not_settled_carries_a_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut short, the bound still holds: it is the one for a random start, not the Ritz value from below."""
    X = np.random.default_rng(7).standard_normal((150, 140))
    monkeypatch.setattr(norms, "PASSES", 30)
    bound, true = bounds_and_norms(X, np.array([0, 75, 140]))
    assert (true <= bound).all() and (bound <= 1.5 * true).all()
    assert (bound > true * (1.0 + 1e-9)).all()


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(
    n=st.integers(1, 70), d=st.integers(1, 30), seed=st.integers(0, 10**6), decay=st.floats(0.0, 2.0), data=st.data()
)
def test_random_shapes_and_spectra(n: int, d: int, seed: int, decay: float, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(-decay * np.arange(d))
    assert_tight(X, contiguous(d, data.draw(st.integers(1, d))).offsets)
