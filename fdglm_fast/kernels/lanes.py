"""Explicit vectors: the few lines of LLVM from which lines and row routines are built.

A row of a tile is `VECTORS` vectors of 64 bytes. Writing the vectors out, instead of hoping for the loop vectoriser,
does two things. The order of every sum is fixed, so that all kernels give the same bits. And numbers stay in registers
from one formula to the next, which is several times as fast as the loops that LLVM makes of the same formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

intrinsic: Any = extending.intrinsic  # a type checker misses that Numba itself gives the first argument
VECTORS = 4
VECTOR_BYTES = 64
_INDEX = ir.IntType(64)
_LANE = ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()
_ALIGN = 16
_INTO_SECOND_LEVEL = 2  # of llvm.prefetch: the first-level cache is too small for what comes after the next few lines


class Lanes:
    """Vectors of one type of number."""

    def __init__(self, builder: Any, dtype: Any) -> None:
        self.builder = builder
        double = dtype == types.float64
        self.lanes = 8 if double else 16
        self.length = VECTORS * self.lanes
        self.vector = ir.VectorType(ir.DoubleType() if double else ir.FloatType(), self.lanes)

    def zeros(self) -> list[Any]:
        return [ir.Constant(self.vector, [0.0] * self.lanes)] * VECTORS

    def splat(self, number: Any) -> Any:
        """A vector whose lanes all hold `number`."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, number, ir.Constant(_LANE, 0))
        return shuffle(self.builder, first, undefined, [0] * self.lanes)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a*b + c with one rounding, lane by lane."""
        name = f"llvm.fma.v{self.lanes}f{512 // self.lanes}"
        signature = ir.FunctionType(self.vector, [self.vector] * 3)
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, signature, name), [a, b, c])


class Row(Lanes):
    """Loads and stores of rows of `VECTORS` vectors of one array, at element offsets from its start."""

    def __init__(self, context: Any, builder: Any, array_type: Any, value: Any) -> None:
        super().__init__(builder, array_type.dtype)
        self.data = context.make_array(array_type)(context, builder, value).data

    def _address(self, offset: Any, k: int) -> Any:
        start = self.builder.gep(self.data, [self.builder.add(offset, index(k * self.lanes))])
        return self.builder.bitcast(start, self.vector.as_pointer())

    def load(self, offset: Any) -> list[Any]:
        """The vectors of the row that starts at `offset`."""
        return [self.builder.load(self._address(offset, k), align=_ALIGN) for k in range(VECTORS)]

    def store(self, offset: Any, vectors: Sequence[Any]) -> None:
        for k, vector in enumerate(vectors):
            self.builder.store(vector, self._address(offset, k), align=_ALIGN)

    def fetch(self, offset: Any, every: int = 1) -> None:
        """Ask the memory for the row at `offset`, or for every so many of its cache lines, and do not wait for it.

        An address beyond the array is harmless.
        """
        word = ir.IntType(32)
        signature = ir.FunctionType(ir.VoidType(), [_BYTES, word, word, word])
        call = cgutils.get_or_insert_function(self.builder.module, signature, "llvm.prefetch.p0")
        how = [ir.Constant(word, number) for number in (0, _INTO_SECOND_LEVEL, 1)]  # to be read; where to; data
        for k in range(0, VECTORS, every):
            self.builder.call(call, [self.builder.bitcast(self._address(offset, k), _BYTES), *how])


class Loop:
    """`for i in range(start, stop - step + 1, step)`, carrying values from turn to turn in registers."""

    def __init__(self, builder: Any, start: Any, stop: Any, step: int, carried: Sequence[Any]) -> None:
        self.builder = builder
        before = builder.block
        self._head = builder.function.append_basic_block("rows.head")
        body = builder.function.append_basic_block("rows.body")
        self._end = builder.function.append_basic_block("rows.end")
        builder.branch(self._head)
        builder.position_at_end(self._head)
        self.i = builder.phi(_INDEX)
        self.i.add_incoming(start, before)
        self.carried = [builder.phi(value.type) for value in carried]
        for phi, value in zip(self.carried, carried, strict=True):
            phi.add_incoming(value, before)
        self._next = builder.add(self.i, index(step))
        builder.cbranch(builder.icmp_signed("<=", self._next, stop), body, self._end)
        builder.position_at_end(body)

    def close(self, carried: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
        """End the body; returns where the counter stands and the carried values after the loop."""
        self.i.add_incoming(self._next, self.builder.block)
        for phi, value in zip(self.carried, carried, strict=True):
            phi.add_incoming(value, self.builder.block)
        self.builder.branch(self._head)
        self.builder.position_at_end(self._end)
        return self.i, self.carried


def index(number: int) -> Any:
    return ir.Constant(_INDEX, number)


def number_at(context: Any, builder: Any, array_type: Any, value: Any, position: Any) -> Any:
    """Element `position` of a one-dimensional array; integers are widened to an index."""
    data = context.make_array(array_type)(context, builder, value).data
    element = builder.load(builder.gep(data, [position]))
    if array_type.dtype in (types.int32, types.uint32):
        return builder.sext(element, _INDEX)
    return element


def shuffle(builder: Any, a: Any, b: Any, lanes: Sequence[int]) -> Any:
    mask = ir.Constant(ir.VectorType(_LANE, len(lanes)), list(lanes))
    return builder.shuffle_vector(a, b, mask)


def tree_sum(builder: Any, terms: Sequence[Any]) -> Any:
    """((t0 + t1) + (t2 + t3)) + ..., for a power of two of terms."""
    terms = list(terms)
    while len(terms) > 1:
        terms = [builder.fadd(terms[q], terms[q + 1]) for q in range(0, len(terms), 2)]
    return terms[0]
