"""Colours: a sequence over the number of agents, for light paper and for a dark screen.

Both run around the circle of hues, from orange by violet and blue to green (in OKLCH), with a contrast to their
background of 2.2 or more; lines that end at the border carry their number besides. The single agent is drawn in the
colour of the text.
"""

from __future__ import annotations

LIGHT = (
    *("#eba002", "#ff781b", "#f45960", "#db4b91", "#b54ab7", "#854ece"),
    *("#4957d4", "#056eaf", "#097891", "#047f7c", "#067f5c", "#2e7601"),
)
DARK = (
    *("#c38406", "#ef6d06", "#ff656b", "#fd6bae", "#ea7ceb", "#c29ffe"),
    *("#a5b7fe", "#8bc9ff", "#5adbfe", "#0dede8", "#07fcb8", "#9bfb78"),
)
LEVELS = len(LIGHT)
DOTS = "2.5 1.8"  # of the lines of another method than the paper's
INK, FAINT, PAPER = "#1f2933", "#d5dbe1", "#ffffff"


def levels(agents: list[int]) -> dict[int, int]:
    """The place of each number of agents in the sequence, spread over its whole length."""
    last = max(len(agents) - 1, 1)
    return {m: round(rank * (LEVELS - 1) / last) for rank, m in enumerate(sorted(agents))}
