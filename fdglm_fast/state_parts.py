"""The arrays of a state by agent: what belongs to some agents taken out, and put together again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[np.generic]]
Agents = npt.NDArray[np.int64]
BY_COLUMN = ("theta", "theta_out", "g", "theta_anchor", "g_anchor")  # (d,): the agents' columns one after the other
BY_AGENT = ("v", "lam", "p_anchor", "lam_anchor")  # (tiles, agents, B)
FIRST = "lam_out"  # agent 1's only
COMMON = ("period", "common")  # the same for all


def take(arrays: Arrays, columns: list[int], held: Agents, wanted: Agents) -> Arrays:
    """From the arrays of the agents `held` those of `wanted`, which are some of them; both in ascending order."""
    at = np.searchsorted(held, wanted)
    ends = np.concatenate([[0], np.cumsum([columns[j] for j in held])])
    spans = np.concatenate([np.arange(ends[k], ends[k + 1]) for k in at])
    out: Arrays = {}
    for name, array in arrays.items():
        if name in BY_COLUMN:
            out[name] = array[spans]
        elif name in BY_AGENT:
            out[name] = array[:, at] if array.shape[1] else array  # one agent has no v
        elif name == FIRST:
            out[name] = array if wanted[0] == 0 else np.zeros_like(array)
        else:
            out[name] = array
    return out


def join(pieces: list[tuple[Agents, Arrays]], columns: list[int], wanted: Agents) -> Arrays:
    """The arrays of the agents `wanted` from pieces that hold some of them each."""
    ends = np.concatenate([[0], np.cumsum([columns[j] for j in wanted])])
    out: Arrays = {}
    for held, arrays in pieces:
        at = np.searchsorted(wanted, held)
        spans = np.concatenate([np.arange(ends[k], ends[k + 1]) for k in at])
        for name, array in arrays.items():
            if name in BY_COLUMN:
                out.setdefault(name, np.zeros(int(ends[-1]), array.dtype))[spans] = array
            elif name in BY_AGENT:
                tiles, rows, B = array.shape
                whole = out.setdefault(name, np.zeros((tiles, len(wanted) if rows else 0, B), array.dtype))
                if rows:
                    whole[:, at] = array
            elif name in COMMON or name not in out or held[0] == 0:
                out[name] = array
    return out
