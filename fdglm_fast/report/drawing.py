"""A network the size of a stamp, as an `svg` element: agents as dots, agent 1 marked, some of the edges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fdglm_fast.network import Network
from fdglm_fast.network_plot import layout

SIZE, MARGIN = 96, 6
SHOWN_EDGES = 360  # an even selection of more, which would only make a grey disc
Points = npt.NDArray[np.float64]


def small_drawing(network: Network) -> str:
    """The drawing; coloured by the page's classes."""
    points = np.rint(_fit(_places(network)) * 10.0) / 10.0
    edges = network.edges
    if len(edges) > SHOWN_EDGES:
        edges = edges[np.unique(np.linspace(0, len(edges) - 1, SHOWN_EDGES).astype(np.int64))]
    lines = "".join(f"M{a:g} {b:g}L{c:g} {d:g}" for a, b, c, d in points[edges].reshape(-1, 4).tolist())
    dots = "".join(f"M{x:g} {y:g}h0" for x, y in points[1:].tolist())
    x, y = points[0].tolist()
    faint = float(np.clip(24.0 / max(len(edges), 1), 0.12, 0.8))
    width = float(np.clip(40.0 / network.agents, 1.4, 5.0))
    return (
        f'<svg class="net" viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="{network.agents} agents">'
        f'<path class="edge" stroke-opacity="{faint:.2f}" d="{lines}"/>'
        f'<path class="dot" stroke-width="{width:.1f}" d="{dots}"/>'
        f'<circle class="hub" cx="{x:g}" cy="{y:g}" r="{max(0.6 * width, 2.2):.1f}"/></svg>'
    )


def _places(network: Network) -> Points:
    """The family's own places; a circle for those that would need springs, which take longer than the whole page."""
    if network.positions is None and network.spec.partition(":")[0] in ("er", "regular", "file"):
        angle = np.pi / 2 - 2.0 * np.pi * np.arange(network.agents) / network.agents
        return np.column_stack((np.cos(angle), np.sin(angle)))
    return layout(network)


def _fit(points: Points) -> Points:
    """Into the square, upright, in the middle."""
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (SIZE - 2 * MARGIN) / max(float((high - low).max()), 1e-12)
    middle = (low + high) / 2.0
    return np.asarray(SIZE / 2.0 + (points - middle) * scale * np.array([1.0, -1.0]))
