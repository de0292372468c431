"""Row routines: the sums over many rows of a tile, from which the updates are made.

Arrays of vectors are tiled, shape (tiles, rows, B): row r of tile k holds B consecutive samples of agent (or column) r.
Each routine is a plain Python function, which is its definition and runs when the JIT is off, and an `@overload` that
replaces it in compiled code by explicit vectors (see `line.py` and `lanes.py`).

X is walked through column by column, twice: by a matvec and, once the new lambda is known, by `dot_columns`. Columns
are taken in turn, so that the processor sees by itself what comes next. How the memory is asked besides depends on what
lies between the two passes, and was found by measuring.

add_matvec, dot_columns              a block of columns goes through both, one after the other, and both ask for the
                                     columns `ahead` of these. (Asked once, at either place, they come later.)
add_matvec_apart, dot_columns_apart  all blocks of a stretch go through the first before any goes through the second.
                                     The first asks for nothing. The second reads what is in cache already and asks
                                     for every other line of the columns `ahead`; the line beside it comes along, for
                                     the matrix is aligned to pairs of lines. (Asked for every line, the first-level
                                     cache has no room left for the misses of the second pass.)
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import overload

from fdglm_fast.kernels._jit import INLINED
from fdglm_fast.kernels.lanes import VECTORS, Loop, Row, index, intrinsic, number_at, shuffle, tree_sum
from fdglm_fast.kernels.line import LineType, _store, blank, fold, line_of, vectors_of

STREAMS = 2  # columns that `add_matvec` reads side by side, each with accumulators of its own


def add_rows(total: Any, Z: Any, tile: int, which: Any, start: int, stop: int) -> Any:
    """total + sum of Z[tile, which[p]] over start <= p < stop."""
    for p in range(start, stop):
        total = total + Z[tile, which[p]]
    return total


def add_weighted_rows(total: Any, Z: Any, tile: int, which: Any, weight: Any, start: int, stop: int) -> Any:
    """total + sum of weight[p] * Z[tile, which[p]] over start <= p < stop."""
    for p in range(start, stop):
        total = total + weight[p] * Z[tile, which[p]]
    return total


def add_matvec(total: Any, X: Any, tile: int, w: Any, start: int, stop: int, ahead: int) -> Any:
    """total + sum of X[tile, c] * w[c] over the columns start <= c < stop."""
    for c in range(start, stop):
        total = total + X[tile, c] * w[c]
    return total


def add_matvec_apart(total: Any, X: Any, tile: int, w: Any, start: int, stop: int) -> Any:
    """`add_matvec`, where all blocks of a stretch go through this before any goes through `dot_columns_apart`."""
    return add_matvec(total, X, tile, w, start, stop, 0)


def product(out: Any, X: Any, tile: int, w: Any, start: int, stop: int) -> None:
    """out = sum of X[tile, c] * w[c] over the columns start <= c < stop, in the type of out."""
    out[:] = 0
    for c in range(start, stop):
        out += X[tile, c] * w[c]


def dot_columns(
    g: Any, group: int, first: bool, X: Any, tile: int, line: Any, start: int, stop: int, ahead: int
) -> None:
    """g[group, c] += X[tile, c]' line for the columns start <= c < stop; `first` sets instead of adding."""
    for c in range(start, stop):
        total = X[tile, c, 0] * line[0]
        for b in range(1, X.shape[2]):
            total = total + X[tile, c, b] * line[b]
        g[group, c] = total if first else g[group, c] + total


def dot_columns_apart(
    g: Any, group: int, first: bool, X: Any, tile: int, line: Any, start: int, stop: int, ahead: int
) -> None:
    """`dot_columns`, where all blocks of a stretch went through `add_matvec_apart` before."""
    dot_columns(g, group, first, X, tile, line, start, stop, ahead)


def _gather(weighted: bool) -> Any:
    @intrinsic
    def gather(typing: Any, line: Any, Z: Any, base: Any, which: Any, weight: Any, start: Any, stop: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _, z_t, _, which_t, weight_t, _, _ = signature.args
            line_v, z_v, base_v, which_v, weight_v, position, stop_v = arguments
            source, total = Row(context, builder, z_t, z_v), vectors_of(builder, line_v)
            for step in (4, 1):
                loop = Loop(builder, position, stop_v, step, total)
                turns = [builder.add(loop.i, index(u)) for u in range(step)]
                rows = [number_at(context, builder, which_t, which_v, p) for p in turns]
                terms = [source.load(builder.add(base_v, builder.mul(r, index(source.length)))) for r in rows]
                if weighted:
                    factors = [source.splat(number_at(context, builder, weight_t, weight_v, p)) for p in turns]
                    total = loop.carried
                    for factor, term in zip(factors, terms, strict=True):
                        total = [source.fma(x, factor, t) for x, t in zip(term, total, strict=True)]
                else:
                    total = [builder.fadd(t, tree_sum(builder, x)) for t, *x in zip(loop.carried, *terms, strict=True)]
                position, total = loop.close(total)
            return line_of(builder, total)

        whole = types.int64
        return line(line, Z, whole, which, weight, whole, whole), generate

    return gather


_gather_unit: Any = _gather(weighted=False)
_gather_weighted: Any = _gather(weighted=True)


def _matvec(every: int) -> Any:
    """The memory is asked for every so many lines of the columns `ahead` of these; 0: for nothing."""

    @intrinsic
    def matvec(typing: Any, line: Any, X: Any, base: Any, w: Any, start: Any, stop: Any, ahead: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _, x_t, _, w_t, *_ = signature.args
            line_v, x_v, base_v, w_v, position, stop_v, ahead_v = arguments
            source = Row(context, builder, x_t, x_v)
            sets = [vectors_of(builder, line_v), *(source.zeros() for _ in range(STREAMS - 1))]

            def at(c: Any) -> Any:
                return builder.add(base_v, builder.mul(c, index(source.length)))

            def add_column(c: Any, total: list[Any]) -> list[Any]:
                factor = source.splat(number_at(context, builder, w_t, w_v, c))
                if every:
                    source.fetch(at(builder.add(c, ahead_v)), every)
                return [source.fma(x, factor, t) for x, t in zip(source.load(at(c)), total, strict=True)]

            loop = Loop(builder, position, stop_v, STREAMS, [x for one in sets for x in one])
            for u in range(STREAMS):
                sets[u] = add_column(builder.add(loop.i, index(u)), loop.carried[u * VECTORS : (u + 1) * VECTORS])
            rest, carried = loop.close([x for one in sets for x in one])
            sets = [carried[u * VECTORS : (u + 1) * VECTORS] for u in range(STREAMS)]
            # What is left over when the columns do not divide.
            loop = Loop(builder, rest, stop_v, 1, sets[0])
            _, sets[0] = loop.close(add_column(loop.i, loop.carried))
            return line_of(builder, [tree_sum(builder, terms) for terms in zip(*sets, strict=True)])

        whole = types.int64
        return line(line, X, whole, w, whole, whole, whole), generate

    return matvec


_matvec_of_block: Any = _matvec(every=1)
_matvec_of_stretch: Any = _matvec(every=0)


def _merge(builder: Any, a: Any, b: Any, distance: int) -> Any:
    """Add lanes `distance` apart; lanes with that bit clear take the sums of a, the others those of b."""
    low = [i if not i & distance else 8 + (i & ~distance) for i in range(8)]
    high = [i | distance if not i & distance else 8 + i for i in range(8)]
    return builder.fadd(shuffle(builder, a, b, low), shuffle(builder, a, b, high))


def _dots(every: int) -> Any:
    """The memory is asked for every so many lines of the columns `ahead` of these."""

    @intrinsic
    def dots(
        typing: Any, g: Any, at: Any, first: Any, X: Any, base: Any, line: Any, start: Any, stop: Any, ahead: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            g_t, _, _, x_t, *_ = signature.args
            g_v, at_v, first_v, x_v, base_v, line_v, position, stop_v, ahead_v = arguments
            source = Row(context, builder, x_t, x_v)
            multiplier = vectors_of(builder, line_v)
            g_data = context.make_array(g_t)(context, builder, g_v).data

            def at(c: Any) -> Any:
                return builder.add(base_v, builder.mul(c, index(source.length)))

            def column(c: Any) -> Any:
                source.fetch(at(builder.add(c, ahead_v)), every)
                numbers = source.load(at(c))
                return fold(builder, source, numbers, multiplier)

            def put(c: Any, total: Any) -> None:
                place = builder.gep(g_data, [builder.add(at_v, c)])
                place = builder.bitcast(place, total.type.as_pointer())
                old = builder.load(place, align=8)
                builder.store(builder.select(first_v, total, builder.fadd(old, total)), place, align=8)

            # Eight columns at once: the eight horizontal sums become a transposition, three levels deep.
            loop = Loop(builder, position, stop_v, 8, [])
            sums = [column(builder.add(loop.i, index(u))) for u in range(8)]
            for distance in (4, 2, 1):
                sums = [_merge(builder, sums[i], sums[i + distance], distance) for i in range(distance)]
            put(loop.i, sums[0])
            position, _ = loop.close()
            loop = Loop(builder, position, stop_v, 1, [])
            total = column(loop.i)
            for distance in (4, 2, 1):
                total = builder.fadd(total, shuffle(builder, total, total, [i ^ distance for i in range(8)]))
            put(loop.i, builder.extract_element(total, ir.Constant(ir.IntType(32), 0)))
            loop.close()
            return context.get_dummy_value()

        whole = types.int64
        return types.void(g, whole, types.boolean, X, whole, line, whole, whole, whole), generate

    return dots


_dots_of_block: Any = _dots(every=1)
_dots_of_stretch: Any = _dots(every=2)


@overload(add_rows, jit_options=INLINED)
def _add_rows(total, Z, tile, which, start, stop):  # type: ignore[no-untyped-def]
    def compiled(total, Z, tile, which, start, stop):  # type: ignore[no-untyped-def]
        return _gather_unit(total, Z, tile * Z.shape[1] * Z.shape[2], which, which, start, stop)

    return compiled


@overload(add_weighted_rows, jit_options=INLINED)
def _add_weighted_rows(total, Z, tile, which, weight, start, stop):  # type: ignore[no-untyped-def]
    def compiled(total, Z, tile, which, weight, start, stop):  # type: ignore[no-untyped-def]
        return _gather_weighted(total, Z, tile * Z.shape[1] * Z.shape[2], which, weight, start, stop)

    return compiled


@overload(add_matvec, jit_options=INLINED)
def _add_matvec(total, X, tile, w, start, stop, ahead):  # type: ignore[no-untyped-def]
    def compiled(total, X, tile, w, start, stop, ahead):  # type: ignore[no-untyped-def]
        return _matvec_of_block(total, X, tile * X.shape[1] * X.shape[2], w, start, stop, ahead)

    return compiled if LineType(w.dtype) == total else None


@overload(add_matvec_apart, jit_options=INLINED)
def _add_matvec_apart(total, X, tile, w, start, stop):  # type: ignore[no-untyped-def]
    def compiled(total, X, tile, w, start, stop):  # type: ignore[no-untyped-def]
        return _matvec_of_stretch(total, X, tile * X.shape[1] * X.shape[2], w, start, stop, 0)

    return compiled if LineType(w.dtype) == total else None


@overload(product, jit_options=INLINED)
def _product(out, X, tile, w, start, stop):  # type: ignore[no-untyped-def]
    def widened(out, X, tile, w, start, stop):  # type: ignore[no-untyped-def]
        for b in range(out.size):
            out[b] = 0
        for c in range(start, stop):
            column, factor = X[tile, c], w[c]
            for b in range(out.size):
                out[b] += column[b] * factor

    def compiled(out, X, tile, w, start, stop):  # type: ignore[no-untyped-def]
        _store(out, add_matvec_apart(blank(X), X, tile, w, start, stop))

    return compiled if out.dtype == X.dtype == w.dtype else widened


@overload(dot_columns, jit_options=INLINED)
def _dot_columns(g, group, first, X, tile, line, start, stop, ahead):  # type: ignore[no-untyped-def]
    def compiled(g, group, first, X, tile, line, start, stop, ahead):  # type: ignore[no-untyped-def]
        _dots_of_block(g, group * g.shape[1], first, X, tile * X.shape[1] * X.shape[2], line, start, stop, ahead)

    return compiled


@overload(dot_columns_apart, jit_options=INLINED)
def _dot_columns_apart(g, group, first, X, tile, line, start, stop, ahead):  # type: ignore[no-untyped-def]
    def compiled(g, group, first, X, tile, line, start, stop, ahead):  # type: ignore[no-untyped-def]
        _dots_of_stretch(g, group * g.shape[1], first, X, tile * X.shape[1] * X.shape[2], line, start, stop, ahead)

    return compiled
