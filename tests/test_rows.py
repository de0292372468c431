"""The row routines, compiled to explicit vectors, against the plain Python that defines them and against NumPy."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from fdglm_fast.kernels import rows
from fdglm_fast.kernels._jit import scalar
from fdglm_fast.kernels.arrays import tile_rows
from fdglm_fast.kernels.line import blank, dot, fetch, load, store

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="there is nothing compiled to compare")

TYPES = [np.float32, np.float64]
TILES, LINES, COLUMNS = 3, 23, 37
# (start, stop): every remainder of the loops unrolled by 8, 4 and 2, whole turns before it, and starts that are odd.
RANGES = [(start, start + length) for start in (0, 1, 5) for length in range(18)]
every_type = pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)


@scalar
def add_rows(out: Any, slot: int, row: int, Z: Any, tile: int, which: Any, start: int, stop: int) -> None:
    store(out, slot, row, rows.add_rows(load(out, slot, row), Z, tile, which, start, stop))


@scalar
def add_weighted_rows(
    out: Any, slot: int, row: int, Z: Any, tile: int, which: Any, weight: Any, start: int, stop: int
) -> None:
    store(out, slot, row, rows.add_weighted_rows(load(out, slot, row), Z, tile, which, weight, start, stop))


@scalar
def add_matvec(out: Any, slot: int, X: Any, tile: int, w: Any, start: int, stop: int) -> None:
    store(out, slot, 0, rows.add_matvec(load(out, slot, 0), X, tile, w, start, stop, 3))


@scalar
def add_matvec_apart(out: Any, slot: int, X: Any, tile: int, w: Any, start: int, stop: int) -> None:
    store(out, slot, 0, rows.add_matvec_apart(load(out, slot, 0), X, tile, w, start, stop))


@scalar
def product(out: Any, slot: int, X: Any, tile: int, w: Any, start: int, stop: int) -> None:
    rows.product(out[slot, 0], X, tile, w, start, stop)


@scalar
def dot_columns(g: Any, group: int, first: bool, X: Any, lam: Any, tile: int, row: int, start: int, stop: int) -> None:
    rows.dot_columns(g, group, first, X, tile, load(lam, tile, row), start, stop, 3)


@scalar
def dot_columns_apart(
    g: Any, group: int, first: bool, X: Any, lam: Any, tile: int, row: int, start: int, stop: int
) -> None:
    rows.dot_columns_apart(g, group, first, X, tile, load(lam, tile, row), start, stop, 1 << 20)


def normal(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tiled(lines: int, dtype: Any, seed: int = 0) -> Any:
    return normal((TILES, lines, tile_rows(dtype)), dtype, seed)


def both(compiled: Any, out: Any, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """`out` after the compiled routine, and after the same as plain Python in double precision."""
    fast, slow = out.copy(), out.astype(np.float64)
    compiled(fast, *arguments)
    wide = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in arguments]
    compiled.py_func(slow, *wide)
    return fast, slow


def assert_close(fast: Any, slow: Any, dtype: Any) -> None:
    """Numbers of size one, at most 18 of them (32 for dots) added in another order."""
    np.testing.assert_allclose(fast, slow, rtol=0, atol=60 * np.finfo(dtype).eps * max(1.0, np.abs(slow).max() / 4))


@every_type
@pytest.mark.parametrize("index", [np.int32, np.int64], ids=["int32", "int64"])
def test_add_rows(dtype: Any, index: Any) -> None:
    Z, out = tiled(LINES, dtype), tiled(4, dtype, seed=1)
    which = np.random.default_rng(2).integers(0, LINES, 40).astype(index)
    for start, stop in RANGES:
        fast, slow = both(add_rows, out, (2, 1, Z, 1, which, start, stop))
        assert_close(fast, slow, dtype)
        expected = out.astype(np.float64)
        expected[2, 1] += Z[1, which[start:stop]].astype(np.float64).sum(axis=0)
        assert_close(slow, expected, np.float64)


@every_type
def test_add_weighted_rows(dtype: Any) -> None:
    Z, out, weight = tiled(LINES, dtype), tiled(4, dtype, seed=1), normal((40,), dtype, seed=3)
    which = np.random.default_rng(2).integers(0, LINES, 40).astype(np.int32)
    for start, stop in RANGES:
        arguments = (0, 3, Z, 2, which, weight, start, stop)
        fast, slow = both(add_weighted_rows, out, arguments)
        assert_close(fast, slow, dtype)
        expected = out.astype(np.float64)
        expected[0, 3] += weight[start:stop].astype(np.float64) @ Z[2, which[start:stop]].astype(np.float64)
        assert_close(slow, expected, np.float64)


@every_type
@pytest.mark.parametrize("matvec", [add_matvec, add_matvec_apart], ids=["block", "apart"])
def test_add_matvec(dtype: Any, matvec: Any) -> None:
    X, w, out = tiled(COLUMNS, dtype), normal((COLUMNS,), dtype, seed=3), tiled(1, dtype, seed=1)
    for start, stop in RANGES:
        fast, slow = both(matvec, out, (2, X, 1, w, start, stop))
        assert_close(fast, slow, dtype)
        expected = out.astype(np.float64)
        expected[2, 0] += w[start:stop].astype(np.float64) @ X[1, start:stop].astype(np.float64)
        assert_close(slow, expected, np.float64)


@pytest.mark.parametrize(
    ("of_out", "of_X", "of_w"),
    [
        (np.float64, np.float64, np.float64),
        (np.float32, np.float32, np.float32),
        (np.float64, np.float32, np.float64),
        (np.float64, np.float32, np.float32),
    ],
    ids=["double", "single", "single data", "single data and factors"],
)
def test_product(of_out: Any, of_X: Any, of_w: Any) -> None:
    """Mixed types are added up in the type of `out`: a float32 design evaluated in double precision."""
    X, w = tiled(COLUMNS, of_X), normal((COLUMNS,), of_w, seed=3)
    out = normal((4, 1, tile_rows(of_X)), of_out, seed=1)
    for start, stop in RANGES:
        fast, slow = both(product, out, (3, X, 2, w, start, stop))
        # float32 times float32 is rounded to float32 before it is added
        precision = np.float64 if of_out is of_w is np.float64 else np.float32
        assert_close(fast, slow, precision)
        expected = out.astype(np.float64)
        expected[3, 0] = w[start:stop].astype(np.float64) @ X[2, start:stop].astype(np.float64)
        assert_close(slow, expected, np.float64)


@every_type
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("dots", [dot_columns, dot_columns_apart], ids=["block", "apart"])
def test_dot_columns(dtype: Any, first: bool, dots: Any) -> None:
    """g is double precision whatever the data; outside start..stop it is left alone, as is the other group."""
    X, lam, g = tiled(COLUMNS, dtype), tiled(5, dtype, seed=1), normal((2, COLUMNS), np.float64, seed=2)
    for start, stop in RANGES:
        fast, slow = both(dots, g, (1, first, X, lam, 2, 4, start, stop))
        assert_close(fast, slow, dtype)
        expected = g.copy()
        sums = X[2, start:stop].astype(np.float64) @ lam[2, 4].astype(np.float64)
        expected[1, start:stop] = sums if first else g[1, start:stop] + sums
        assert_close(slow, expected, np.float64)
        outside = np.ones(g.shape, bool)
        outside[1, start:stop] = False
        assert np.array_equal(fast[outside], g[outside])


@every_type
def test_a_column_is_summed_alike_wherever_it_stands(dtype: Any) -> None:
    """Bits do not depend on whether a column falls into a turn of eight or into the rest, nor on its lane."""
    X, lam = tiled(COLUMNS, dtype), tiled(1, dtype, seed=1)
    alone = np.zeros((1, COLUMNS))
    for c in range(COLUMNS):
        dot_columns(alone, 0, True, X, lam, 1, 0, c, c + 1)
    for start in range(9):
        together = np.zeros((1, COLUMNS))
        dot_columns(together, 0, True, X, lam, 1, 0, start, COLUMNS)
        assert np.array_equal(together[0, start:], alone[0, start:])


@every_type
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_shows(dtype: Any, bad: float) -> None:
    """One bad number in a tile reaches the sums that use its row, and no others."""
    Z, which = tiled(LINES, dtype), np.arange(LINES, dtype=np.int32)
    Z[1, 6, 17] = bad
    out = np.zeros((1, 2, tile_rows(dtype)), dtype)
    add_rows(out, 0, 0, Z, 1, which, 0, LINES)
    add_rows(out, 0, 1, Z, 1, which, 7, LINES)
    assert np.flatnonzero(~np.isfinite(out)).tolist() == [17]
    g = np.zeros((1, LINES))
    dot_columns(g, 0, True, Z, tiled(1, dtype, seed=4), 1, 0, 0, LINES)
    assert np.flatnonzero(~np.isfinite(g)).tolist() == [6]


@scalar
def formula(out: Any, Z: Any, number: Any) -> None:
    """Every operation of lines: out[0, 0] = 0 + (Z[1, 2] - number * Z[0, 1]) + Z[2, 0]."""
    fetch(Z, 1, 2)
    fetch(Z, Z.shape[0], 0)  # beyond the last tile
    line = load(Z, 1, 2) - number * load(Z, 0, 1)
    store(out, 0, 0, blank(Z) + line + load(Z, 2, 0))


@scalar
def dot_rows(out: Any, Z: Any) -> None:
    out[0] = dot(load(Z, 1, 2), load(Z, 2, 0))


@every_type
def test_lines_are_numbers_lane_by_lane(dtype: Any) -> None:
    """The same bits as NumPy: each operation is rounded by itself, in the type of the data."""
    Z, number = tiled(3, dtype), dtype(0.3)
    out = np.zeros((1, 1, tile_rows(dtype)), dtype)
    before = Z.copy()
    formula(out, Z, number)
    assert np.array_equal(out[0, 0], (Z[1, 2] - number * Z[0, 1]) + Z[2, 0])
    assert np.array_equal(Z, before)
    plain = np.zeros_like(out)
    formula.py_func(plain, Z, number)
    assert np.array_equal(plain, out)


@every_type
def test_a_loaded_line_is_a_value(dtype: Any) -> None:
    """What is stored later does not change it, compiled or not."""

    @scalar
    def swap(Z: Any) -> None:
        first, second = load(Z, 0, 0), load(Z, 0, 1)
        store(Z, 0, 0, second)
        store(Z, 0, 1, first)

    for run in (swap, swap.py_func):
        Z = tiled(2, dtype)
        expected = Z[0, ::-1].copy()
        run(Z)
        assert np.array_equal(Z[0], expected)


@every_type
def test_dot_of_lines_is_double(dtype: Any) -> None:
    """float32 products are exact in double precision."""
    Z, out = tiled(3, dtype), np.zeros(1)
    dot_rows(out, Z)
    a, b = Z[1, 2].astype(np.float64), Z[2, 0].astype(np.float64)
    np.testing.assert_allclose(out[0], a @ b, rtol=0, atol=1e-14)
    np.testing.assert_allclose(dot(Z[1, 2], Z[2, 0]), a @ b, rtol=0, atol=1e-14)
