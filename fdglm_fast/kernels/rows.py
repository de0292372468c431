"""Row routines: the inner loops of every kernel, on one row of a tile.

Arrays of vectors are tiled, shape (tiles, rows, B): row r of tile k holds B consecutive samples of agent (or column) r.
Each routine is a plain Python function, which is its definition and runs when the JIT is off, and an `@overload` that
replaces it in compiled code by explicit vectors (see `lanes.py`).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from fdglm_fast.kernels._jit import INLINED
from fdglm_fast.kernels.lanes import Loop, Row, index, number_at, shuffle, tree_sum


def add_rows(out: Any, slot: int, row: int, Z: Any, tile: int, which: Any, start: int, stop: int) -> None:
    """out[slot, row] += sum of Z[tile, which[p]] over start <= p < stop."""
    for p in range(start, stop):
        for b in range(out.shape[2]):
            out[slot, row, b] = out[slot, row, b] + Z[tile, which[p], b]


def add_weighted_rows(
    out: Any, slot: int, row: int, Z: Any, tile: int, which: Any, weight: Any, start: int, stop: int
) -> None:
    """out[slot, row] += sum of weight[p] * Z[tile, which[p]] over start <= p < stop."""
    for p in range(start, stop):
        for b in range(out.shape[2]):
            out[slot, row, b] = out[slot, row, b] + weight[p] * Z[tile, which[p], b]


def add_matvec(out: Any, slot: int, X: Any, tile: int, w: Any, start: int, stop: int) -> None:
    """out[slot, 0] += sum of X[tile, c] * w[c] over the columns start <= c < stop."""
    for c in range(start, stop):
        for b in range(out.shape[2]):
            out[slot, 0, b] = out[slot, 0, b] + X[tile, c, b] * w[c]


def dot_columns(g: Any, group: int, first: bool, X: Any, lam: Any, tile: int, row: int, start: int, stop: int) -> None:
    """g[group, c] += X[tile, c]' lam[tile, row] for the columns start <= c < stop; `first` sets instead of adding."""
    for c in range(start, stop):
        total = X[tile, c, 0] * lam[tile, row, 0]
        for b in range(1, X.shape[2]):
            total = total + X[tile, c, b] * lam[tile, row, b]
        g[group, c] = total if first else g[group, c] + total


STREAMS = 4  # parts of a block of columns that are read side by side


def _gather(weighted: bool) -> Any:
    @intrinsic
    def gather(
        typing: Any, out: Any, at: Any, Z: Any, base: Any, which: Any, weight: Any, start: Any, stop: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            out_t, _, z_t, _, which_t, weight_t, _, _ = signature.args
            out_v, at_v, z_v, base_v, which_v, weight_v, position, stop_v = arguments
            target, source = Row(context, builder, out_t, out_v), Row(context, builder, z_t, z_v)
            total = target.load(at_v)
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
            target.store(at_v, total)
            return context.get_dummy_value()

        whole = types.int64
        return types.void(out, whole, Z, whole, which, weight, whole, whole), generate

    return gather


_gather_unit: Any = _gather(weighted=False)
_gather_weighted: Any = _gather(weighted=True)


def _matvec_lanes(typing: Any, out: Any, at: Any, X: Any, base: Any, w: Any, start: Any, stop: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out_t, _, x_t, _, w_t, _, _ = signature.args
        out_v, at_v, x_v, base_v, w_v, position, stop_v = arguments
        target, source = Row(context, builder, out_t, out_v), Row(context, builder, x_t, x_v)
        # The columns are read as several streams, side by side: memory answers them faster than one. Each has
        # accumulators of its own, which hides the latency of the multiply-add.
        sets = [target.load(at_v), *(target.zeros() for _ in range(STREAMS - 1))]
        part = builder.sdiv(builder.sub(stop_v, position), index(STREAMS))

        def add_column(c: Any, total: list[Any]) -> list[Any]:
            factor = source.splat(number_at(context, builder, w_t, w_v, c))
            column = source.load(builder.add(base_v, builder.mul(c, index(source.length))))
            return [source.fma(x, factor, t) for x, t in zip(column, total, strict=True)]

        loop = Loop(builder, position, builder.add(position, part), 1, [x for one in sets for x in one])
        each = len(loop.carried) // STREAMS
        for u in range(STREAMS):
            c = builder.add(loop.i, builder.mul(part, index(u)))
            sets[u] = add_column(c, loop.carried[u * each : (u + 1) * each])
        _, carried = loop.close([x for one in sets for x in one])
        sets = [carried[u * each : (u + 1) * each] for u in range(STREAMS)]
        # What is left over when the columns do not divide.
        loop = Loop(builder, builder.add(position, builder.mul(part, index(STREAMS))), stop_v, 1, sets[0])
        _, sets[0] = loop.close(add_column(loop.i, loop.carried))
        target.store(at_v, [tree_sum(builder, terms) for terms in zip(*sets, strict=True)])
        return context.get_dummy_value()

    whole = types.int64
    return types.void(out, whole, X, whole, w, whole, whole), generate


_matvec: Any = intrinsic(_matvec_lanes)
_EIGHT = ir.VectorType(ir.DoubleType(), 8)


def _fold(builder: Any, source: Row, lam: list[Any], offset: Any) -> Any:
    """Eight partial sums, in double precision, of the product of one column with lam."""
    column = source.load(offset)
    total = builder.fmul(column[0], lam[0])
    for x, y in zip(column[1:], lam[1:], strict=True):
        total = source.fma(x, y, total)
    if source.lanes == 8:
        return total
    halves = [shuffle(builder, total, total, range(h, h + 8)) for h in (0, 8)]
    return builder.fadd(*[builder.fpext(half, _EIGHT) for half in halves])


def _merge(builder: Any, a: Any, b: Any, distance: int) -> Any:
    """Add lanes `distance` apart; lanes with that bit clear take the sums of a, the others those of b."""
    low = [i if not i & distance else 8 + (i & ~distance) for i in range(8)]
    high = [i | distance if not i & distance else 8 + i for i in range(8)]
    return builder.fadd(shuffle(builder, a, b, low), shuffle(builder, a, b, high))


def _dots_lanes(
    typing: Any, g: Any, at: Any, first: Any, X: Any, base: Any, lam: Any, row: Any, start: Any, stop: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        g_t, _, _, x_t, _, lam_t, _, _, _ = signature.args
        g_v, at_v, first_v, x_v, base_v, lam_v, row_v, position, stop_v = arguments
        source = Row(context, builder, x_t, x_v)
        multiplier = Row(context, builder, lam_t, lam_v).load(row_v)
        g_data = context.make_array(g_t)(context, builder, g_v).data

        def column(c: Any) -> Any:
            return _fold(builder, source, multiplier, builder.add(base_v, builder.mul(c, index(source.length))))

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
    return types.void(g, whole, types.boolean, X, whole, lam, whole, whole, whole), generate


_dots: Any = intrinsic(_dots_lanes)


@overload(add_rows, jit_options=INLINED)
def _add_rows(out, slot, row, Z, tile, which, start, stop):  # type: ignore[no-untyped-def]
    def compiled(out, slot, row, Z, tile, which, start, stop):  # type: ignore[no-untyped-def]
        B = Z.shape[2]
        at = (slot * out.shape[1] + row) * B
        _gather_unit(out, at, Z, tile * Z.shape[1] * B, which, which, start, stop)

    return compiled


@overload(add_weighted_rows, jit_options=INLINED)
def _add_weighted_rows(out, slot, row, Z, tile, which, weight, start, stop):  # type: ignore[no-untyped-def]
    def compiled(out, slot, row, Z, tile, which, weight, start, stop):  # type: ignore[no-untyped-def]
        B = Z.shape[2]
        at = (slot * out.shape[1] + row) * B
        _gather_weighted(out, at, Z, tile * Z.shape[1] * B, which, weight, start, stop)

    return compiled


@overload(add_matvec, jit_options=INLINED)
def _add_matvec(out, slot, X, tile, w, start, stop):  # type: ignore[no-untyped-def]
    def widened(out, slot, X, tile, w, start, stop):  # type: ignore[no-untyped-def]
        line = out[slot, 0]
        for c in range(start, stop):
            column, factor = X[tile, c], w[c]
            for b in range(line.size):
                line[b] += column[b] * factor

    if not out.dtype == X.dtype == w.dtype:
        return widened

    def compiled(out, slot, X, tile, w, start, stop):  # type: ignore[no-untyped-def]
        B = X.shape[2]
        _matvec(out, slot * out.shape[1] * B, X, tile * X.shape[1] * B, w, start, stop)

    return compiled


@overload(dot_columns, jit_options=INLINED)
def _dot_columns(g, group, first, X, lam, tile, row, start, stop):  # type: ignore[no-untyped-def]
    def compiled(g, group, first, X, lam, tile, row, start, stop):  # type: ignore[no-untyped-def]
        B = X.shape[2]
        at = (tile * lam.shape[1] + row) * B
        _dots(g, group * g.shape[1], first, X, tile * X.shape[1] * B, lam, at, start, stop)

    return compiled
