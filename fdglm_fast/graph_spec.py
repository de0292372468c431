"""Graph specifications, `NAME[:PARAM]`: what each family is called and which parameter it takes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from fdglm_fast.errors import UsageError, unknown_name
from fdglm_fast.files import printable

MAX_AGENTS = 10_000_000
MAX_EDGES = 50_000_000  # about 1.2 GB of edges and weights, and twice that while the Laplacian is built


class GraphSpec(NamedTuple):
    """A parsed specification: the family, its parameter, and the path of a graph file."""

    name: str
    parameter: float | None = None
    path: str | None = None


@dataclass(frozen=True)
class Family:
    """What a family's specification may say, and how many edges it will have."""

    parameter: str  # "none", or what the parameter means
    example: str
    expected_edges: Callable[[int, float], float]
    default: float | None = None
    max_edges: int = MAX_EDGES

    @property
    def takes_parameter(self) -> bool:
        return self.parameter != "none"


def _fixed(example: str, expected_edges: Callable[[int], float]) -> Family:
    return Family("none", example, lambda m, _: expected_edges(m))


FAMILIES: dict[str, Family] = {
    "complete": _fixed("complete", lambda m: m * (m - 1) / 2),
    "star": _fixed("star", lambda m: m),
    "lattice": _fixed("lattice", lambda m: 4 * m),
    "ring": _fixed("ring", lambda m: m),
    "path": _fixed("path", lambda m: m),
    "hypercube": _fixed("hypercube", lambda m: m * math.log2(m) / 2),
    "er": Family("a probability in (0, 1]", "er:0.1", lambda m, p: p * m * (m - 1) / 2),
    "rgg": Family("a positive radius", "rgg:0.3", lambda m, r: min(math.pi * r * r, 1.0) * m * m / 2, 0.3),
    # drawn edge by edge in Python, hence the lower limit
    "regular": Family("a whole number of neighbours", "regular:4", lambda m, k: m * k / 2, max_edges=MAX_EDGES // 10),
    "file": Family("a path", "file:graph.txt", lambda m, _: m),
}


def parse_spec(text: str) -> GraphSpec:
    """Read `NAME[:PARAM]`: `complete`, `er:0.1`, `rgg`, `file:graph.txt`, ..."""
    name, colon, rest = text.partition(":")
    if name not in FAMILIES:
        raise unknown_name("graph", printable(name, 60), FAMILIES)
    family = FAMILIES[name]
    if name == "file":
        if not rest:
            raise UsageError(f"graph 'file' needs a path, for example '{family.example}'.")
        return GraphSpec(name, path=rest)
    if not family.takes_parameter:
        if colon:
            raise UsageError(f"graph '{name}' takes no parameter, and '{printable(text, 60)}' gives one.")
        return GraphSpec(name)
    if not colon:
        if family.default is None:
            raise UsageError(f"graph '{name}' needs {family.parameter}, for example '{family.example}'.")
        return GraphSpec(name, family.default)
    return GraphSpec(name, _parameter(name, rest))


def _parameter(name: str, text: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    limits = {"er": (0.0, 1.0), "rgg": (0.0, sys.float_info.max), "regular": (0.0, float(MAX_AGENTS))}
    low, high = limits[name]
    if not low < value <= high or (name == "regular" and value != int(value)):
        raise UsageError(f"graph '{name}' needs {FAMILIES[name].parameter}, not '{printable(text, 60)}'.")
    return value


def check_size(spec: GraphSpec, m: int) -> None:
    """Refuse what the family cannot build for m agents, or could only build beyond the edge limit."""
    k = spec.parameter or 0.0
    if spec.name == "regular" and (k >= m or (int(k) * m) % 2):
        raise UsageError(
            f"no graph of {m} agents has {int(k)} neighbours each: K must be less than the number of agents, "
            "and K times the number of agents even."
        )
    family = FAMILIES[spec.name]
    expected = family.expected_edges(m, k)
    if expected > family.max_edges:
        raise UsageError(
            f"graph '{spec.name}' would have about {expected:.2g} edges between {m} agents, "
            f"more than the limit of {family.max_edges}."
        )
