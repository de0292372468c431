"""What is measured: a grid of agents, graphs, types and threads, and the part of it that `--cases` asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from fdglm_fast.errors import UsageError, unknown_name

SAMPLES, FEATURES = 16384, 2048  # the paper's size
QUICK_SAMPLES, QUICK_FEATURES = 2048, 256
AGENTS = (1, 16, 64, 256)
QUICK_AGENTS = (1, 16, 64)
OVERHEAD_AGENTS = (16, 64)
# Each family with the number of agents from which it makes sense: below it a random graph of that density is seldom
# connected, or has too few edges to be called one of its family.
GRAPHS = {"complete": 2, "star": 2, "er:0.1": 32, "er:0.5": 8, "lattice": 2, "rgg": 32}
DTYPES = {"f64": "float64", "f32": "float32"}
NO_GRAPH = "none"  # one agent talks to nobody

T = TypeVar("T")
_KEYS = {"m": "agents", "agents": "agents", "graph": "graph", "dtype": "dtype", "threads": "threads"}


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    agents: int
    graph: str
    dtype: str  # f64 or f32
    threads: int

    def __str__(self) -> str:
        return f"m={self.agents} {self.graph} {self.dtype} threads={self.threads}"


@dataclass(frozen=True)
class Axes:
    """The values that a user fixed on each axis of the grid; None: all of them. Threads 0 stand for all cores."""

    agents: tuple[int, ...] | None = None
    graph: tuple[str, ...] | None = None
    dtype: tuple[str, ...] | None = None
    threads: tuple[int, ...] | None = None


def parse_axes(text: str) -> Axes:
    """Read `m=16|64,graph=rgg,dtype=f64,threads=2`: values that replace those of the grid, axis by axis."""
    chosen: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, values = part.partition("=")
        if key.strip() not in _KEYS:
            raise unknown_name("axis of --cases", key.strip(), _KEYS)
        listed = tuple(filter(None, (value.strip() for value in values.split("|"))))
        if not equals or not listed:
            raise UsageError(f"--cases takes AXIS=VALUE|VALUE, not '{part}'.")
        axis = _KEYS[key.strip()]
        if axis in chosen:
            raise UsageError(f"--cases names {axis} twice.")
        chosen[axis] = listed
    return Axes(
        agents=_whole("m", chosen.get("agents")),
        graph=_graphs(chosen.get("graph")),
        dtype=_dtypes(chosen.get("dtype")),
        threads=_whole("threads", chosen.get("threads"), words={"all": 0}),
    )


def _whole(name: str, values: tuple[str, ...] | None, words: dict[str, int] | None = None) -> tuple[int, ...] | None:
    if values is None:
        return None
    numbers = []
    for value in values:
        known = (words or {}).get(value)
        if known is None and not (value.isascii() and value.isdigit() and int(value) > 0):
            raise UsageError(f"--cases needs a whole number above zero for {name}, not '{value}'.")
        numbers.append(int(value) if known is None else known)
    return _distinct(numbers)


def _graphs(values: tuple[str, ...] | None) -> tuple[str, ...] | None:
    from fdglm_fast.graph_spec import parse_spec

    for value in values or ():
        parse_spec(value)
    return None if values is None else _distinct(values)


def _dtypes(values: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for value in values or ():
        if value not in DTYPES:
            raise unknown_name("dtype", value, DTYPES)
    return None if values is None else _distinct(values)


def _distinct(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def check_axes(axes: Axes, features: int, scaling: bool) -> None:
    """Refuse, before anything heavy is imported, what cannot be measured."""
    if max(axes.agents or (1,)) > features:
        raise UsageError(f"more agents ({max(axes.agents or ())}) than features ({features}).")
    if scaling and (axes.agents or axes.graph or axes.dtype):
        raise UsageError("with --scaling, --cases may name threads only.")


def all_threads(axes: Axes) -> tuple[int, ...]:
    """The numbers of threads to measure with: one and all, or those that were asked for."""
    from fdglm_fast.kernels.arrays import most_threads

    most = most_threads()
    threads = _distinct(count or most for count in axes.threads or (1, 0))
    if max(threads) > most:
        raise UsageError(f"threads must be from 1 to {most} on this machine, not {max(threads)}.")
    return threads


def grid(axes: Axes, features: int, threads: tuple[int, ...], quick: bool = False) -> list[Case]:
    """The cases in the order in which they run: the data are made once a type, the threads alternate."""
    cases = [
        Case(agents, graph, dtype, count)
        for dtype in axes.dtype or DTYPES
        for agents in axes.agents or (QUICK_AGENTS if quick else AGENTS)
        if agents <= features
        for graph in _graphs_for(agents, axes)
        for count in threads
    ]
    if not cases:
        raise UsageError("--cases leaves nothing to measure.")
    return cases


def overhead_cases(axes: Axes, features: int, threads: tuple[int, ...]) -> list[Case]:
    """Few cases, for which `--overhead` runs long: complete, f64 and all threads, where nothing else is asked for."""
    agents = axes.agents or tuple(m for m in OVERHEAD_AGENTS if m <= features)
    few = replace(axes, agents=agents, graph=axes.graph or ("complete",), dtype=axes.dtype or ("f64",))
    return grid(few, features, threads if axes.threads else (max(threads),))


def _graphs_for(agents: int, axes: Axes) -> tuple[str, ...]:
    """The graphs for so many agents; a graph that was asked for by name is taken whatever its size."""
    if agents == 1:
        return (NO_GRAPH,) if axes.graph is None or axes.agents is not None else ()
    return axes.graph or tuple(graph for graph, least in GRAPHS.items() if agents >= least)
