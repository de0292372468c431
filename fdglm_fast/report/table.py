"""A table that can be written as CSV, JSON and HTML."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any

Cell = str | int | float | None


def plain(value: Cell) -> str:
    """A cell for people: four digits, and powers of ten where they are shorter."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def whole(value: Cell) -> str:
    """A count, with thousands apart."""
    return plain(value) if value is None or isinstance(value, str) else f"{value:,.0f}".replace(",", " ")


@dataclass(frozen=True)
class Column:
    """A column: its key in files, its heading for people, how a cell is shown."""

    key: str
    heading: str
    show: Callable[[Any], str] = plain
    wide: bool = False  # running text, which may be broken into lines


@dataclass(frozen=True)
class Table:
    """Rows are dictionaries by the keys of the columns; `pictures`, one a row, go into the page only."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Cell]]
    note: str = ""
    pictures: list[str] = field(default_factory=list)
    stacked: bool = False  # on a narrow screen the cells of a row lie one below the other

    def as_csv(self) -> str:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([column.key for column in self.columns])
        for row in self.rows:
            values = (row[column.key] for column in self.columns)
            writer.writerow(
                ["" if value is None else repr(value) if isinstance(value, float) else value for value in values]
            )
        return stream.getvalue()

    def as_json(self) -> str:
        return json.dumps({"title": self.title, "note": self.note, "rows": self.rows}, indent=1, allow_nan=False) + "\n"

    def as_html(self) -> str:
        """The table in a box that scrolls sideways on a narrow screen."""
        kinds = [self._kind(column) for column in self.columns]
        pairs = list(zip(self.columns, kinds, strict=True))
        head = "".join(f"<th{_class(kind)}>{escape(column.heading)}</th>" for column, kind in pairs)
        body = []
        for k, row in enumerate(self.rows):
            cells = "".join(_cell(column, kind, row[column.key]) for column, kind in pairs)
            picture = f'<td class="picture">{self.pictures[k]}</td>' if self.pictures else ""
            body.append(f"<tr>{cells}{picture}</tr>")
        head += "<th></th>" if self.pictures else ""
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        frame = "scroll whole" if self.stacked else "scroll"
        box = f'<div class="{frame}" tabindex="0" role="region" aria-label="{escape(self.title, quote=True)}">'
        table = f"<table{_class('stacked' if self.stacked else '')}><thead><tr>{head}</tr></thead>"
        return f"{note}{box}{table}<tbody>{''.join(body)}</tbody></table></div>"

    def _kind(self, column: Column) -> str:
        """Whether a column is of running text, of numbers, or of words."""
        if column.wide:
            return "wide"
        return "number" if any(isinstance(row[column.key], (int, float)) for row in self.rows) else ""


_STATUS = {"holds": "good", "does not hold": "bad"}


def _cell(column: Column, kind: str, value: Cell) -> str:
    label = escape(column.heading, quote=True)
    return f'<td{_class(_STATUS.get(str(value), kind))} data-label="{label}">{escape(column.show(value))}</td>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
