"""Colours: a sequence over the number of agents, dark lines on light paper and light lines on a dark screen.

Both are stretches of matplotlib's `plasma`, which is even to the eye and to the colour-blind; each leaves out the end
that its background would swallow. The single agent is drawn in the colour of the text.
"""

from __future__ import annotations

LIGHT = (
    *("#f9983e", "#f0804e", "#e56b5d", "#d7566c", "#c7427c", "#b52f8c"),
    *("#a01a9c", "#8707a6", "#6e00a8", "#5102a3", "#330597", "#0d0887"),
)
DARK = (
    *("#a51f99", "#b6308b", "#c5407e", "#d35171", "#df6263", "#ea7457"),
    *("#f3874a", "#fa9b3d", "#fdb130", "#fdc827", "#f8e125", "#f0f921"),
)
LEVELS = len(LIGHT)
INK, FAINT, PAPER = "#1f2933", "#d5dbe1", "#ffffff"


def levels(agents: list[int]) -> dict[int, int]:
    """The place of each number of agents in the sequence, spread over its whole length."""
    last = max(len(agents) - 1, 1)
    return {m: round(rank * (LEVELS - 1) / last) for rank, m in enumerate(sorted(agents))}
