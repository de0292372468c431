"""Where things are in a figure, for every way of drawing it: points, with y downwards as in SVG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fdglm_fast.report.figures import Figure, Panel

WIDTH, HEIGHT = 380, 270  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 46, 30, 26, 40  # what its axes leave free
COLUMNS = 3
LEGEND_WIDTH, LEGEND_HEIGHT, HEAD = 104, 18, 34
LEGEND_MARK, LETTER = 34, 6.2  # of a wider entry: the stroke with its margins, and a letter
LABEL_HEIGHT = 9.5


def x_of(panel: Panel, value: float) -> float:
    return LEFT + panel.x.place(value) * (WIDTH - LEFT - RIGHT)


def y_of(panel: Panel, value: float) -> float:
    return HEIGHT - BOTTOM - panel.y.place(value) * (HEIGHT - TOP - BOTTOM)


def end_labels(panel: Panel) -> list[tuple[float, str, int]]:
    """(y, number of agents, level) for the lines that end at the right border, far enough apart to be read."""
    found = []
    for line in panel.lines:
        if line.level is not None and panel.x.place(float(line.curve.x[-1])) > 0.98:
            found.append((y_of(panel, float(line.curve.y[-1])), line.label.split()[0], line.level))
    placed: list[tuple[float, str, int]] = []
    for y, text, level in sorted(found):
        placed.append((max(y, placed[-1][0] + LABEL_HEIGHT) if placed else y, text, level))
    floor = float(HEIGHT - BOTTOM)
    for k in range(len(placed) - 1, -1, -1):  # those that were pushed below the axis push the others up again
        y, text, level = placed[k]
        placed[k] = (min(y, floor), text, level)
        floor = placed[k][0] - LABEL_HEIGHT
    return placed


@dataclass(frozen=True)
class Sheet:
    """A whole figure: a title, the legend below it in rows, and the panels below that in columns."""

    width: int
    height: int
    columns: int
    per_row: int  # entries of the legend
    entry: int  # width of one
    panels_at: int

    @classmethod
    def of(cls, figure: Figure) -> Sheet:
        columns = min(COLUMNS, len(figure.panels))
        rows = -(-len(figure.panels) // columns)
        longest = max((len(key.label) for key in figure.legend), default=0)
        entry = max(LEGEND_WIDTH, round(LEGEND_MARK + LETTER * longest))
        per_row = max(1, (columns * WIDTH - LEFT) // entry)
        begin = HEAD + LEGEND_HEIGHT * -(-len(figure.legend) // per_row)
        return cls(columns * WIDTH, begin + rows * HEIGHT, columns, per_row, entry, begin)

    def legend(self, count: int) -> Iterator[tuple[int, int]]:
        """Where the entries of the legend begin: the left end of the base line."""
        for k in range(count):
            yield LEFT + self.entry * (k % self.per_row), HEAD + 4 + LEGEND_HEIGHT * (k // self.per_row)

    def panels(self, count: int) -> Iterator[tuple[int, int]]:
        """The upper left corners of the panels."""
        for k in range(count):
            yield WIDTH * (k % self.columns), self.panels_at + HEIGHT * (k // self.columns)
