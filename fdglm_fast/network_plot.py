"""A drawing of a network as SVG: agents as dots, agent 1 marked, edges as lines."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import UsageError
from fdglm_fast.files import atomic_path, check_output, printable
from fdglm_fast.network import Network

Points = NDArray[np.float64]

SHOWN_EDGES = 60_000  # more are neither legible nor quick to draw; an even selection of them is shown
VECTOR_EDGES = 6_000  # more are put into the file as a picture, which is smaller
VECTOR_AGENTS = 3_000
SPRING_LIMIT = 300
LABEL_LIMIT = 40

STYLE: dict[Any, Any] = {"svg.hashsalt": "fdglm", "svg.fonttype": "none", "text.usetex": False}
INK, EDGE, AGENT, FIRST = "#1f2933", "#5b7083", "#3b82c4", "#e4572e"


# --- where the agents are ---------------------------------------------------------------------------------


def layout(network: Network) -> Points:
    """A place for every agent: the family's own, or a circle, or (no shape of its own) as springs settle."""
    m, family = network.agents, network.spec.partition(":")[0]
    if network.positions is not None:
        return network.positions
    if m == 1:
        return np.zeros((1, 2))
    if family == "star":
        return np.vstack((np.zeros((1, 2)), _circle(m - 1)))
    if family == "path":
        return _circle(m, turn=0.85)
    if family == "hypercube":
        return _hypercube(m)
    if family in ("er", "regular", "file") and m <= SPRING_LIMIT:
        return _springs(network)
    return _circle(m)


def _circle(m: int, turn: float = 1.0) -> Points:
    """m points clockwise from the top; a `turn` below one leaves a gap between the last and the first."""
    steps = m if turn == 1.0 else m - 1
    angle = np.pi / 2 - 2 * np.pi * turn * np.arange(m) / max(steps, 1)
    return np.column_stack((np.cos(angle), np.sin(angle)))


def _hypercube(m: int) -> Points:
    """Every bit moves a vertex in a direction of its own, the directions fanned over a half turn."""
    dimension = m.bit_length() - 1
    bits = ((np.arange(m)[:, None] >> np.arange(dimension)) & 1).astype(np.float64)
    angle = np.pi * (np.arange(dimension) + 0.5) / dimension
    # Slightly unequal lengths keep vertices apart that would meet where opposite directions cancel.
    length = 1.0 + 0.07 * np.arange(dimension)
    return bits @ np.column_stack((length * np.cos(angle), length * np.sin(angle)))


def _springs(network: Network) -> Points:
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(network.agents))
    graph.add_edges_from(network.edges.tolist())
    placed = networkx.kamada_kawai_layout(graph) if network.agents <= 100 else None
    placed = placed or networkx.spring_layout(graph, seed=1, iterations=150)
    return np.array([placed[v] for v in range(network.agents)])


# --- the drawing ------------------------------------------------------------------------------------------


def draw_network(network: Network, kind: str = "svg") -> bytes:
    """The bytes of an SVG file (PNG for `kind` 'png'); the same network gives the same bytes."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 7.4), dpi=150, facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.03, 0.03, 0.94, 0.86))
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.margins(0.06)
        points = layout(network)
        shown = _draw_edges(axes, network, points)
        _draw_agents(axes, points)
        _caption(figure, network, shown)
        stream = io.BytesIO()
        figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return stream.getvalue()


def _draw_edges(axes: Any, network: Network, points: Points) -> int:
    """Lines for the edges, wider for larger weights; returns how many are drawn."""
    from matplotlib.collections import LineCollection

    count = len(network.edges)
    if count == 0:
        return 0
    chosen = np.arange(count)
    if count > SHOWN_EDGES:
        chosen = np.unique(np.linspace(0, count - 1, SHOWN_EDGES).astype(np.int64))
    ends = points[network.edges[chosen]]
    strength = np.sqrt(network.weights[chosen] / network.weights.max())
    width = np.clip(1.6 * strength, 0.25, None) * np.clip(3.0 * network.agents / len(chosen), 0.25, 1.0)
    # The share of the drawing that the lines cover, at 470 points a side; the more, the fainter they are.
    length = np.hypot(*(ends[:, 0] - ends[:, 1]).T) / max(float(np.ptp(points, axis=0).max()), 1e-300)
    cover = float(length @ width) / 470.0
    lines = LineCollection(
        list(ends),
        colors=EDGE,
        linewidths=width,
        alpha=float(np.clip(0.45 / max(cover, 1e-9), 0.02, 0.7)),
        rasterized=len(chosen) > VECTOR_EDGES,
        clip_on=False,
        zorder=1,
    )
    axes.add_collection(lines)
    return len(chosen)


def _draw_agents(axes: Any, points: Points) -> None:
    m = len(points)
    size = float(np.clip(9000.0 / m, 2.0, 330.0))
    rim = 1.0 if m <= 400 else 0.0
    common = {"edgecolors": "white", "clip_on": False}
    axes.scatter(*points[1:].T, s=size, c=AGENT, lw=rim, zorder=2, rasterized=m > VECTOR_AGENTS, **common)
    axes.scatter(*points[0], s=max(1.7 * size, 45.0), c=FIRST, lw=1.2, zorder=3, **common)
    if m <= LABEL_LIMIT:
        for agent, (x, y) in enumerate(points, start=1):
            style = {"fontsize": 8, "color": "white", "ha": "center", "va": "center_baseline", "zorder": 4}
            axes.text(x, y, str(agent), **style)


def _caption(figure: Any, network: Network, shown: int) -> None:
    # ASCII, and never as a formula: the name of a file can hold anything.
    title = ascii(printable(network.spec, 60))[1:-1].replace("\\\\", "\\")
    count = len(network.edges)
    some = f" ({shown} drawn)" if shown < count else ""
    facts = f"{network.agents} agents, {count} edges{some}; agent 1 holds the response"
    figure.text(0.05, 0.955, title, fontsize=15, color=INK, weight="bold", va="center", parse_math=False)
    figure.text(0.05, 0.917, facts, fontsize=10, color=EDGE, va="center", parse_math=False)
    figure.text(0.95, 0.955, "● agent 1", fontsize=10, color=FIRST, ha="right", va="center")


# --- the file ---------------------------------------------------------------------------------------------


def check_drawing(path: str, force: bool = False) -> None:
    """Refuse a drawing that is not SVG, exists (without `force`) or cannot be written, before any work."""
    if not path.lower().endswith(".svg"):
        raise UsageError(f"the drawing '{printable(path)}' must have a name that ends in '.svg'.")
    check_output(path, force)


def save_drawing(network: Network, path: str, force: bool = False) -> None:
    """Draw the network into an SVG file, which appears whole or not at all."""
    check_drawing(path, force)
    drawing = draw_network(network)
    with atomic_path(path, force) as temporary:
        temporary.write_bytes(drawing)
