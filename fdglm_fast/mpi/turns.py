"""Which agents of a rank need nothing from other ranks, by the rank's plan (see `fdglm_fast.kernels.ranks.Turns`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fdglm_fast.kernels.arrays import Neighbours
from fdglm_fast.kernels.ranks import Turns
from fdglm_fast.mpi.halo import rows_read

Which = npt.NDArray[np.bool_]


def inner_agents(near: Neighbours, hears: Which, first_here: bool) -> Which:
    """Those that read own rows only. Agent 1 answers when it knows all: who hears it is inner only if it is."""
    agents = len(near.degree)
    inner = np.array([bool((rows_read(near, np.array([j])) < agents).all()) for j in range(agents)])
    return inner & (~hears | (first_here and inner[0]))


def take_turns(near: Neighbours, early: Which, first_here: bool) -> Turns:
    """These agents early, with the sums that are made of own rows; the others late."""
    parts = [near.parts[a:b] for a, b in zip(near.part_start[:-1], near.part_start[1:], strict=True)]
    own = np.array([bool(early.any() and (part < len(early)).all()) for part in parts], bool)
    agents, waiting, sums, later = (np.flatnonzero(some).astype(np.int64) for some in (early, ~early, own, ~own))
    return Turns(agents, waiting, sums, later, first_here and bool(early[0]))
