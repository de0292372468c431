"""The arrays of a state by agent: what belongs to some agents taken out, and put together again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[np.generic]]
Agents = npt.NDArray[np.int64]
BY_COLUMN = ("theta", "theta_sum", "g")  # (d,): the columns of the agents one after the other
BY_AGENT = ("v", "lam")  # (tiles, agents, B)
FIRST = "lam_sum"  # agent 1's only


def take(arrays: Arrays, columns: list[int], held: Agents, wanted: Agents) -> Arrays:
    """From the arrays of the agents `held` those of `wanted`, which are some of them; both in ascending order."""
    at = np.searchsorted(held, wanted)
    ends = np.concatenate([[0], np.cumsum([columns[j] for j in held])])
    spans = [np.arange(ends[k], ends[k + 1]) for k in at]
    out: Arrays = {name: arrays[name][np.concatenate(spans)] for name in BY_COLUMN}
    for name in BY_AGENT:
        out[name] = arrays[name][:, at] if arrays[name].shape[1] else arrays[name]  # one agent has no v
    out[FIRST] = arrays[FIRST] if wanted[0] == 0 else np.zeros_like(arrays[FIRST])
    return out


def join(pieces: list[tuple[Agents, Arrays]], columns: list[int], wanted: Agents) -> Arrays:
    """The arrays of the agents `wanted` from pieces that hold some of them each."""
    ends = np.concatenate([[0], np.cumsum([columns[j] for j in wanted])])
    out: Arrays = {}
    for held, arrays in pieces:
        at = np.searchsorted(wanted, held)
        spans = np.concatenate([np.arange(ends[k], ends[k + 1]) for k in at])
        for name in BY_COLUMN:
            out.setdefault(name, np.zeros(int(ends[-1]), arrays[name].dtype))[spans] = arrays[name]
        for name in BY_AGENT:
            tiles, rows, B = arrays[name].shape
            whole = out.setdefault(name, np.zeros((tiles, len(wanted) if rows else 0, B), arrays[name].dtype))
            if rows:
                whole[:, at] = arrays[name]
        if FIRST not in out or held[0] == 0:
            out[FIRST] = arrays[FIRST]
    return out
