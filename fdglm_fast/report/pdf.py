"""Figures as PDF, by matplotlib: the same drawing as the SVG, for papers.

Lines and letters are put on the sheet themselves. Axes of matplotlib would do the same and take several times as long,
which a report of a dozen figures notices.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.report.figures import Figure, Line, Panel
from fdglm_fast.report.geometry import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Sheet, end_labels, x_of, y_of
from fdglm_fast.report.palette import DOTS, FAINT, INK, LIGHT

STYLE: dict[Any, Any] = {
    "text.usetex": False,
    "text.parse_math": False,  # the name of a graph file can hold anything
    "pdf.fonttype": 3,  # outlines of the letters that occur; cutting down a TrueType font takes much longer
    "figure.dpi": 72.0,
}
DASHES = (0, (5, 3))
SPOTS = (0, tuple(float(word) for word in DOTS.split()))
Points = npt.NDArray[np.float64]


def figure_pdf(figure: Figure) -> bytes:
    """The bytes of a PDF file; the same figure gives the same bytes."""
    import matplotlib
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure as Canvas

    sheet = Sheet.of(figure)
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(sheet.width / 72.0, sheet.height / 72.0), dpi=72.0)
        FigureCanvasPdf(canvas)
        draw = _Pen(canvas, sheet.height)
        draw.text(LEFT, 20, figure.title, size=11.0)
        for key, (x, y) in zip(figure.legend, sheet.legend(len(figure.legend)), strict=True):
            draw.line(np.array([[x, y - 4.0], [x + 20.0, y - 4.0]]), key.level, key.dotted)
            draw.text(x + 26, y, key.label)
        for panel, corner in zip(figure.panels, sheet.panels(len(figure.panels)), strict=True):
            _panel(draw.at(*corner), panel)
        stream = io.BytesIO()
        about = {"CreationDate": None, "Creator": "fdglm", "Title": figure.title}
        canvas.savefig(stream, format="pdf", metadata=about)
    return stream.getvalue()


class _Pen:
    """Draws on the canvas in points from a corner of the sheet, y downwards."""

    def __init__(self, canvas: Any, height: float, x: float = 0.0, y: float = 0.0) -> None:
        self._canvas, self._height, self._corner = canvas, height, (x, y)

    def at(self, x: float, y: float) -> _Pen:
        return _Pen(self._canvas, self._height, x, y)

    def _place(self, points: Points) -> Points:
        x, y = self._corner
        return np.column_stack((points[:, 0] + x, self._height - points[:, 1] - y))

    def text(
        self,
        x: float,
        y: float,
        words: str,
        align: str = "left",
        *,
        size: float = 8.5,
        turn: float = 0.0,
        colour: str = INK,
    ) -> None:
        from matplotlib.transforms import IdentityTransform

        (place,) = self._place(np.array([[x, y]]))
        style = {"fontsize": size, "color": colour, "ha": align, "va": "baseline", "rotation": turn}
        self._canvas.text(*place, words, transform=IdentityTransform(), rotation_mode="anchor", **style)

    def line(self, points: Points, level: int | None, dotted: bool = False) -> None:
        """A curve in its colour; the single agent's is dashed ink, and other methods are dotted."""
        dashes: dict[str, Any] = {"ls": SPOTS} if dotted else {"ls": DASHES} if level is None else {}
        self._path(self._place(points), closed=False, ec=INK if level is None else LIGHT[level], lw=1.3, **dashes)

    def strokes(self, ends: list[tuple[float, float, float, float]], colour: str) -> None:
        """Straight lines x, y to x, y."""
        for x, y, a, b in ends:
            self._path(self._place(np.array([[x, y], [a, b]])), closed=False, ec=colour, lw=0.8)

    def area(self, points: Points, level: int) -> None:
        self._path(self._place(points), closed=True, fc=LIGHT[level], alpha=0.18, lw=0.0)

    def _path(self, points: Points, closed: bool, **style: Any) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path
        from matplotlib.transforms import IdentityTransform

        shape = PathPatch(Path(points, closed=False), fill=closed, transform=IdentityTransform(), **style)
        self._canvas.add_artist(shape)


def _panel(draw: _Pen, panel: Panel) -> None:
    draw.text(LEFT, 15, panel.title, size=10.0)
    right, bottom = float(WIDTH - RIGHT), float(HEIGHT - BOTTOM)
    draw.strokes([(LEFT, y_of(panel, value), right, y_of(panel, value)) for value, _ in panel.y.ticks], FAINT)
    ticks = [(x_of(panel, value), bottom, x_of(panel, value), bottom + 4.0) for value, _ in panel.x.ticks]
    draw.strokes([*ticks, (LEFT, TOP, LEFT, bottom), (LEFT, bottom, right, bottom)], INK)
    for value, words in panel.y.ticks:
        draw.text(LEFT - 6, y_of(panel, value) + 3.5, words, "right")
    for value, words in panel.x.ticks:
        draw.text(x_of(panel, value), bottom + 15, words, "center")
    draw.text((LEFT + right) / 2, HEIGHT - 7, panel.x.label, "center")
    draw.text(14, (TOP + bottom) / 2, panel.y.label, "center", turn=90.0)
    if panel.level is not None:
        y = y_of(panel, panel.level)
        draw.line(np.array([[LEFT, y], [right, y]]), None)
    ordered = sorted(panel.lines, key=lambda line: line.level is None)
    for line in ordered:
        _band(draw, panel, line)
    for line in ordered:
        draw.line(_points(panel, line.curve.x, line.curve.y), line.level, line.dotted)
    for y, words, level in end_labels(panel):
        draw.text(right + 4.0, y + 3.0, words, size=7.0, colour=LIGHT[level])


def _band(draw: _Pen, panel: Panel, line: Line) -> None:
    curve = line.curve
    if curve.low is not None and curve.high is not None and line.level is not None:
        up, down = _points(panel, curve.x, curve.high), _points(panel, curve.x, curve.low)
        draw.area(np.vstack([up, down[::-1]]), line.level)


def _points(panel: Panel, x: Points, y: Points) -> Points:
    """The points of a curve; a single one becomes a dot."""
    found = np.array([[x_of(panel, a), y_of(panel, b)] for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    return found if len(found) > 1 else np.add(found, [[-1.0, 0.0], [1.0, 0.0]])
