"""Figures as SVG, by hand: small, quick, and coloured by classes, so that a page can be light or dark."""

from __future__ import annotations

from html import escape

import numpy as np
import numpy.typing as npt

from fdglm_fast.report.figures import SINGLE_LABEL, Figure, Key, Line, Panel
from fdglm_fast.report.geometry import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Sheet, end_labels, x_of, y_of
from fdglm_fast.report.palette import DOTS, FAINT, INK, LIGHT, PAPER

FONT = "system-ui, 'Helvetica Neue', Arial, sans-serif"
Array = npt.NDArray[np.float64]

# What the classes mean in a file of its own; a page says the same with its own variables.
_FILE_STYLE = "".join(
    [
        f"text{{fill:{INK};font:11px {FONT}}}.title{{font-weight:600;font-size:12.5px}}.end{{text-anchor:end}}",
        "text.m{font-size:9.5px}",
        f".mid{{text-anchor:middle}}.grid{{stroke:{FAINT};stroke-width:1}}.axis{{stroke:{INK};stroke-width:1;fill:none}}",
        ".line{fill:none;stroke-width:1.7;stroke-linejoin:round}.band{stroke:none;fill-opacity:.18}",
        f".single{{stroke:{INK};stroke-dasharray:5 3}}.line.other{{stroke-dasharray:{DOTS};stroke-width:2}}",
        *(f".s{k}{{stroke:{colour}}}.f{k}{{fill:{colour}}}" for k, colour in enumerate(LIGHT)),
    ]
)


def panel_svg(panel: Panel, label: str) -> str:
    """One panel as an `svg` element for a page; `label` is what a screen reader says."""
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label, quote=True)}">'
    return f"{head}{_panel(panel)}</svg>"


def figure_svg(figure: Figure) -> str:
    """The whole figure as a file of its own, on white, with its legend."""
    sheet = Sheet.of(figure)
    size = f'width="{sheet.width}" height="{sheet.height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {sheet.width} {sheet.height}" {size}>',
        f"<style>{_FILE_STYLE}</style>",
        f'<rect {size} fill="{PAPER}"/>',
        f'<text class="title" x="{LEFT}" y="20">{escape(figure.title)}</text>',
    ]
    for key, (x, y) in zip(figure.legend, sheet.legend(len(figure.legend)), strict=True):
        mark = f'<path class="{stroke(key)}" d="M{x} {y - 4}h20"/>'
        parts.append(f'{mark}<text x="{x + 26}" y="{y}">{escape(key.label)}</text>')
    for panel, (x, y) in zip(figure.panels, sheet.panels(len(figure.panels)), strict=True):
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel)}</g>')
    return "".join([*parts, "</svg>\n"])


def _panel(panel: Panel) -> str:
    parts = [f'<text class="title" x="{LEFT}" y="15">{escape(panel.title)}</text>', *_axes(panel)]
    if panel.level is not None:
        y = y_of(panel, panel.level)
        parts.append(
            f'<path class="line single" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"><title>{SINGLE_LABEL}</title></path>'
        )
    ordered = sorted(panel.lines, key=lambda line: line.level is None)  # the single agent on top
    parts += [_band(panel, line) for line in ordered] + [_line(panel, line) for line in ordered]
    for y, text, level in end_labels(panel):
        parts.append(f'<text class="m f{level}" x="{WIDTH - RIGHT + 4}" y="{y + 3.2:.1f}">{escape(text)}</text>')
    return "".join(parts)


def _axes(panel: Panel) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value, text in panel.y.ticks:
        y = y_of(panel, value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="end" x="{LEFT - 6}" y="{y + 4:.1f}">{text}</text>')
    for value, text in panel.x.ticks:
        x = x_of(panel, value)
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
        parts.append(f'<text class="mid" x="{x:.1f}" y="{bottom + 16}">{text}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    parts.append(f'<text class="mid" x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 7}">{escape(panel.x.label)}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<text class="mid" transform="translate(13 {middle:.0f}) rotate(-90)">{escape(panel.y.label)}</text>')
    return parts


def stroke(key: Key) -> str:
    """The classes of a line: its colour, and whether it is of another method than the paper's."""
    colour = "single" if key.level is None else f"s{key.level}"
    return f"line {colour}" + (" other" if key.dotted else "")


def _line(panel: Panel, line: Line) -> str:
    path = _path(panel, line.curve.x, line.curve.y)
    if len(line.curve.x) == 1:
        path += "h0.01"  # a dot
    return f'<path class="{stroke(line.key)}" d="M{path}"><title>{escape(line.label)}</title></path>'


def _band(panel: Panel, line: Line) -> str:
    curve = line.curve
    if curve.low is None or curve.high is None or line.level is None:
        return ""
    around = _path(panel, curve.x, curve.high) + "L" + _path(panel, curve.x[::-1], curve.low[::-1])
    return f'<path class="band f{line.level}" d="M{around}Z"/>'


def _path(panel: Panel, x: Array, y: Array) -> str:
    return "L".join(f"{x_of(panel, a):.1f} {y_of(panel, b):.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
