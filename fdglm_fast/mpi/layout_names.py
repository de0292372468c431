"""Names of files of which each agent has its own."""

from __future__ import annotations

from fdglm_fast.errors import UsageError
from fdglm_fast.files import printable


def check_pattern(option: str, pattern: str) -> None:
    if "{j}" not in pattern:
        raise UsageError(f"{option} '{printable(pattern)}' needs a {{j}}, which stands for the number of the agent.")


def agent_file(pattern: str, j: int) -> str:
    """The file of agent j = 1, 2, ..."""
    return pattern.replace("{j}", str(j))
