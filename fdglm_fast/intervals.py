"""Spans of time as people write them."""

from __future__ import annotations

from fdglm_fast.errors import UsageError
from fdglm_fast.files import printable

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_interval(text: str) -> float:
    """Seconds of '60', '60s', '5m' or '2h'."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < 1e9:
        raise UsageError(f"an interval is a number of seconds, or a number with s, m or h, not '{printable(text)}'.")
    return seconds
