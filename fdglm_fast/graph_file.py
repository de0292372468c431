"""Graph files: edge lists, one `i j [weight]` a line, and GraphML by way of graphml.py.

Files are not trusted: they are read as a stream, lines have a greatest length, and a vertex number is
compared with the number of agents before anything is sized by it.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import DataError
from fdglm_fast.files import printable
from fdglm_fast.graph_spec import MAX_EDGES

MAX_LINE = 4096


@dataclass
class EdgeCollector:
    """Edges as they are met in a file; `finish` checks them together and puts them in order."""

    path: str
    agents: int
    tails: array[int] = field(default_factory=lambda: array("q"))
    heads: array[int] = field(default_factory=lambda: array("q"))
    weights: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    weighted: bool = False

    def fault(self, line: int, what: str) -> DataError:
        """The error for a line of the file."""
        return DataError(f"graph file '{printable(self.path)}', line {line}: {what}.")

    def add(self, tail: int, head: int, weight: float | None, line: int) -> None:
        """Take one edge; `weight` None counts as 1."""
        if tail == head:
            raise self.fault(line, f"vertex {tail} is joined to itself")
        if len(self.tails) >= 2 * MAX_EDGES:
            raise self.fault(line, f"more than {2 * MAX_EDGES} edges")
        self.weighted = self.weighted or weight is not None
        self.tails.append(tail)
        self.heads.append(head)
        self.weights.append(1.0 if weight is None else weight)
        self.lines.append(line)

    def relabel(self, vertices: NDArray[np.int64]) -> None:
        """Replace every number v, as given to `add`, by vertices[v]."""
        self.tails = array("q", vertices[np.array(self.tails, dtype=np.int64)].tobytes())
        self.heads = array("q", vertices[np.array(self.heads, dtype=np.int64)].tobytes())

    def first_line(self, number: int) -> int:
        """The line of the first edge at a vertex."""
        return next(
            (line for i, j, line in zip(self.tails, self.heads, self.lines, strict=True) if number in (i, j)),
            1,
        )

    @property
    def is_full(self) -> bool:
        """Whether there are more edges than pairs in both directions, so that one must be a duplicate."""
        return len(self.tails) > self.agents * (self.agents - 1)

    def finish(self) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        """Edges i < j in order and their weights, None if no edge had one.

        An edge may be given in both directions with one and the same weight; it then counts once.
        """
        if not self.tails:
            raise DataError(f"graph file '{printable(self.path)}' has no edges.")
        tails = np.array(self.tails, dtype=np.int64)
        heads = np.array(self.heads, dtype=np.int64)
        weights = np.array(self.weights, dtype=np.float64)
        low, high = np.minimum(tails, heads), np.maximum(tails, heads)
        order = np.argsort(low * self.agents + high, kind="stable")  # equal pairs stay in the file's order
        low, high, weights = low[order], high[order], weights[order]
        again = np.flatnonzero((low[1:] == low[:-1]) & (high[1:] == high[:-1])) + 1
        self._check_duplicates(order, again)
        keep = np.ones(len(low), dtype=bool)
        keep[again] = False
        edges = np.column_stack((low[keep], high[keep]))
        return edges, weights[keep] if self.weighted else None

    def _check_duplicates(self, order: NDArray[np.int64], again: NDArray[np.int64]) -> None:
        """`again` are the places in `order` whose pair equals the one before."""
        tails, weights = np.array(self.tails), np.array(self.weights)
        current, before = order[again], order[again - 1]
        same_direction = tails[current] == tails[before]
        # A third listing has the direction of one of the first two, if not of the one just before it.
        third = np.isin(again - 1, again)
        bad = np.flatnonzero(same_direction | third | (weights[current] != weights[before]))
        if len(bad) == 0:
            return
        at = bad[np.argmin(current[bad])]
        edge, earlier = int(current[at]), int(before[at])
        pair = f"{self.tails[edge]} {self.heads[edge]}"
        if same_direction[at] or third[at]:
            raise self.fault(self.lines[edge], f"edge {pair} is a duplicate of line {self.lines[earlier]}")
        raise self.fault(
            self.lines[edge],
            f"edge {pair} has weight {self.weights[edge]:g}, but line {self.lines[earlier]} gives it "
            f"{self.weights[earlier]:g}",
        )


def parse_weight(text: str) -> float | None:
    """A positive, finite number, or None if the text is none."""
    try:
        value = float(text) if "_" not in text and text.isascii() else math.nan
    except ValueError:
        return None
    return value if 0.0 < value < math.inf else None


def read_graph_file(path: str, agents: int) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Edges and weights (None if the file has none) of a graph of `agents` vertices.

    A name that ends in '.graphml' is GraphML, any other an edge list. The graph may be disconnected.
    """
    collector = EdgeCollector(path, agents)
    try:
        with open(path, "rb") as stream:
            if path.lower().endswith(".graphml"):
                from fdglm_fast.graphml import read_graphml

                read_graphml(stream, collector)
            else:
                _read_edge_list(stream, collector)
    except (OSError, ValueError, LookupError) as error:  # a NUL in the name; an encoding nobody knows
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"graph file '{printable(path)}' cannot be read: {reason}.") from error
    return collector.finish()


def _read_edge_list(stream: BinaryIO, collector: EdgeCollector) -> None:
    number = 0
    while raw := stream.readline(MAX_LINE + 1):
        number += 1
        if len(raw) > MAX_LINE:
            raise collector.fault(number, f"longer than {MAX_LINE} bytes")
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")  # the byte-order mark some editors write
        fields = raw.split(b"#", 1)[0].decode("utf-8", "replace").split()
        if not fields:
            continue
        if len(fields) not in (2, 3):
            raise collector.fault(number, f"expected 'i j' or 'i j weight', but found {len(fields)} of them")
        tail, head = (_vertex(text, number, collector) for text in fields[:2])
        weight = None
        if len(fields) == 3:
            weight = parse_weight(fields[2])
            if weight is None:
                raise collector.fault(number, f"weight '{printable(fields[2], 40)}' is not a positive, finite number")
        collector.add(tail, head, weight, number)
        if collector.is_full:
            return


def _vertex(text: str, line: int, collector: EdgeCollector) -> int:
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise collector.fault(line, f"vertex '{printable(text, 40)}' is not a whole number")
    vertex, last = int(text), collector.agents - 1  # a line is too short for a number that is slow to read
    if not 0 <= vertex <= last:
        raise collector.fault(line, f"vertex {printable(text, 40)} is out of range, it must be from 0 to {last}")
    return vertex
