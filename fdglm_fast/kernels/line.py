"""A line: the B numbers of one row of a tile, as a value with +, - and *.

The updates of the paper are written for lines. In plain Python a line is an array, and the formulas are NumPy's. In
compiled code it is `VECTORS` vectors that stay in registers from the load to the store (see `lanes.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import models, overload, register_model

from fdglm_fast.kernels._jit import INLINED
from fdglm_fast.kernels.lanes import VECTORS, Lanes, Row, index, intrinsic, shuffle

EIGHT = ir.VectorType(ir.DoubleType(), 8)


def load(Z: Any, tile: int, row: int) -> Any:
    """Z[tile, row] as a line."""
    return Z[tile, row].copy()


def store(Z: Any, tile: int, row: int, line: Any) -> None:
    """Z[tile, row] = line."""
    Z[tile, row] = line


def clear(Z: Any, tile: int, row: int) -> None:
    """Z[tile, row] = 0."""
    Z[tile, row] = 0


def blank(Z: Any) -> Any:
    """A line of zeros for numbers like those of Z."""
    return 0


def dot(a: Any, b: Any) -> float:
    """The sum of the products of two lines, in double precision."""
    return float(np.dot(a.astype(np.float64), b.astype(np.float64)))


def fetch(Z: Any, tile: int, row: int) -> None:
    """Z[tile, row] will be read soon, and the memory is asked for it now. It may lie beyond the last tile."""


class LineType(types.Type):
    """The type of a line in compiled code."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Line({dtype})")


@register_model(LineType)
class _LineModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, of: Any) -> None:
        vector = Lanes(None, of.dtype).vector
        super().__init__(manager, of, ir.ArrayType(vector, VECTORS))


def vectors_of(builder: Any, line: Any) -> list[Any]:
    """The vectors of a compiled line."""
    return [builder.extract_value(line, k) for k in range(VECTORS)]


def line_of(builder: Any, vectors: Sequence[Any]) -> Any:
    """The compiled line of these vectors."""
    line = ir.Constant(ir.ArrayType(vectors[0].type, VECTORS), ir.Undefined)
    for k, vector in enumerate(vectors):
        line = builder.insert_value(line, vector, k)
    return line


def fold(builder: Any, lanes: Lanes, a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Eight partial sums, in double precision, of the products of two rows; products are of the rows' own type."""
    total = builder.fmul(a[0], b[0])
    for x, y in zip(a[1:], b[1:], strict=True):
        total = lanes.fma(x, y, total)
    if lanes.lanes == 8:
        return total
    return builder.fadd(*_doubles(builder, total))


def _doubles(builder: Any, vector: Any) -> list[Any]:
    """The two halves of sixteen single numbers, in double precision."""
    return [builder.fpext(shuffle(builder, vector, vector, range(h, h + 8)), EIGHT) for h in (0, 8)]


@intrinsic
def _load(typing: Any, row: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return line_of(builder, Row(context, builder, signature.args[0], arguments[0]).load(index(0)))

    return LineType(row.dtype)(row), generate


@intrinsic
def _store(typing: Any, row: Any, line: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = Row(context, builder, signature.args[0], arguments[0])
        target.store(index(0), vectors_of(builder, arguments[1]))
        return context.get_dummy_value()

    return types.void(row, line), generate


@intrinsic
def _blank(typing: Any, Z: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return line_of(builder, Lanes(builder, signature.args[0].dtype).zeros())

    return LineType(Z.dtype)(Z), generate


@intrinsic
def _dot(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y = (vectors_of(builder, line) for line in arguments)
        lanes = Lanes(builder, types.float64)
        if signature.args[0].dtype != types.float64:
            x, y = ([half for vector in line for half in _doubles(builder, vector)] for line in (x, y))
        total = fold(builder, lanes, x, y)
        for distance in (1, 2, 4):
            total = builder.fadd(total, shuffle(builder, total, total, [i ^ distance for i in range(8)]))
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return types.float64(a, b), generate


@intrinsic
def _fetch(typing: Any, Z: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        Row(context, builder, signature.args[0], arguments[0]).fetch(arguments[1])
        return context.get_dummy_value()

    return types.void(Z, types.int64), generate


def _lane_by_lane(instruction: str) -> Any:
    @intrinsic
    def apply(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pairs = zip(*(vectors_of(builder, line) for line in arguments), strict=True)
            return line_of(builder, [getattr(builder, instruction)(x, y) for x, y in pairs])

        return a(a, b), generate

    return apply


_add: Any = _lane_by_lane("fadd")
_subtract: Any = _lane_by_lane("fsub")


@intrinsic
def _multiply(typing: Any, number: Any, line: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factor = Lanes(builder, signature.args[1].dtype).splat(arguments[0])
        return line_of(builder, [builder.fmul(factor, x) for x in vectors_of(builder, arguments[1])])

    return line(number, line), generate


@overload(load, jit_options=INLINED)
def _load_compiled(Z, tile, row):  # type: ignore[no-untyped-def]
    return lambda Z, tile, row: _load(Z[tile, row])


@overload(store, jit_options=INLINED)
def _store_compiled(Z, tile, row, line):  # type: ignore[no-untyped-def]
    return lambda Z, tile, row, line: _store(Z[tile, row], line)


@overload(clear, jit_options=INLINED)
def _clear_compiled(Z, tile, row):  # type: ignore[no-untyped-def]
    return lambda Z, tile, row: _store(Z[tile, row], _blank(Z))


@overload(blank, jit_options=INLINED)
def _blank_compiled(Z):  # type: ignore[no-untyped-def]
    return lambda Z: _blank(Z)


@overload(dot, jit_options=INLINED)
def _dot_compiled(a, b):  # type: ignore[no-untyped-def]
    return lambda a, b: _dot(a, b)


@overload(fetch, jit_options=INLINED)
def _fetch_compiled(Z, tile, row):  # type: ignore[no-untyped-def]
    return lambda Z, tile, row: _fetch(Z, (tile * Z.shape[1] + row) * Z.shape[2])


def _are_lines(a: Any, b: Any) -> bool:
    return isinstance(a, LineType) and a == b


@overload(operator.add, jit_options=INLINED)
def _add_compiled(a, b):  # type: ignore[no-untyped-def]
    return (lambda a, b: _add(a, b)) if _are_lines(a, b) else None


@overload(operator.sub, jit_options=INLINED)
def _subtract_compiled(a, b):  # type: ignore[no-untyped-def]
    return (lambda a, b: _subtract(a, b)) if _are_lines(a, b) else None


@overload(operator.mul, jit_options=INLINED)
def _multiply_compiled(a, b):  # type: ignore[no-untyped-def]
    """A number of the line's own type times a line: nothing is widened in passing."""
    return (lambda a, b: _multiply(a, b)) if isinstance(b, LineType) and a == b.dtype else None
