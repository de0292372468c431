"""What the kernels work on: tuples of arrays, and how a matrix is cut into tiles.

A tile is B consecutive samples. The design matrix is stored as (tiles, d, B): the B samples of one column of a tile
are contiguous, and the columns of one agent are one contiguous slice of a tile. Samples beyond n are zero. Tiles are
summed up in at most `GROUPS` groups of consecutive tiles; the groups, and the order of the sums, depend on the shape
alone, so that any number of threads gives the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from fdglm_fast.kernels.lanes import VECTOR_BYTES, VECTORS

GROUPS = 64
LINE_PAIR = 2 * VECTOR_BYTES


class Tiles(NamedTuple):
    """The data: columns in the order of their agents."""

    X: Any  # (tiles, d, B), float32 or float64
    y: Any  # (tiles, B), float64
    rows: int  # samples that are stored; fewer than n after compression
    group: int  # tiles in a group


class Neighbours(NamedTuple):
    """Who is added up for whom in (L z)_j = degree_j z_j - (sum over the neighbours of agent j).

    The sum is made of rows of z, `rows[row_start[j]:row_start[j+1]]`, and of sums that several agents share,
    `shared[shared_start[j]:shared_start[j+1]]`; shared sum q adds the rows `parts[part_start[q]:part_start[q+1]]`.
    """

    degree: Any  # (m,), dtype of the data: weighted degree
    complement: Any  # (m,) bool: the rows are those agent j is NOT joined to, to be taken off its last shared sum
    row_start: Any  # (m+1,) int64
    rows: Any  # int32
    weights: Any  # dtype of the data, one per row; empty when all edges weigh one
    shared_start: Any  # (m+1,) int64
    shared: Any  # int32
    part_start: Any  # (shared sums + 1,) int64
    parts: Any  # int32


class Model(NamedTuple):
    """The loss and the penalty as numbers: their codes and parameters."""

    n: int
    loss: int
    k: float
    penalty: int
    reg: float
    a: float
    b: float
    groups: Any  # (d,) int64 group of each column for group-l2, else empty
    norms: Any  # scratch for the norms of the groups


class Steps(NamedTuple):
    """The steps of an iteration: tau for the prox, t for v, s = sigma/n per agent; and how an iterate follows from T.

    The paper's method takes z+ = T(z). The fast one takes z+ = z + gain (T(z) - z) + pull (z_0 - z), where z_0 is the
    anchor; its steps change from iteration to iteration (see `course.py`).
    """

    tau: float
    t: Any  # scalar of the data's dtype, as are `first`, `gain`, `pull` and `shift`
    agents: Any  # int64: those that are here
    s: Any  # (m,), dtype of the data
    first: Any  # the step of agent 1's dual prox
    fast: bool  # the method
    gain: Any
    pull: Any
    scale: Any  # (d,) float64: theta's step and tau are these times larger, column by column; empty: they are equal
    mix: Any  # (m,), dtype of the data: t s; empty where the steps of neighbours are not mixed
    hears: Any  # (m,) bool: whether agent j is a neighbour of agent 1; empty likewise
    joined: Any  # (m,), dtype of the data: the weight of that edge; empty likewise
    shift: Any  # t s_1/first
    stretch: int  # agents whose columns go through a pass over X together; 0: each goes with its rows
    look: bool = False  # form the sums of `State.moves`
    restart: bool = False  # z+ becomes the anchor (see `anchor.py`)


class State(NamedTuple):
    """The iterates, and scratch that carries nothing from one iteration to the next.

    theta_out and lam_out are what is reported: the sums over the iterations in the paper's method, T(z) in the fast
    one, which keeps p, a running sum of lambda - c, in v (see `fdglm_fast.halpern`).
    """

    theta: Any  # (d,) float64
    theta_out: Any  # (d,) float64
    g: Any  # (d,) float64, X' lambda
    v: Any  # (tiles, m, B)
    lam: Any  # (tiles, m, B)
    lam_out: Any  # (tiles, B) float64, of agent 1
    theta_anchor: Any  # (d,) float64; empty, like the other anchors, in the paper's method
    p_anchor: Any  # (tiles, m, B)
    lam_anchor: Any  # (tiles, m, B)
    common: Any  # (tiles, 1, B) c, the same for all agents: lambda_1 of the anchor
    w: Any  # (d,) 2 theta+ - theta
    partial: Any  # (groups, d) float64, X' lambda by group
    u: Any  # (slots, m, B) 2 v+ - v
    q: Any  # (slots, m, B) X w, then X w - degree u; no rows in the paper's method
    front: Any  # (slots, 2, B) of agent 1: lambda_1+, and the vector that its neighbours get
    pool: Any  # (slots, shared sums, B)
    line: Any  # (threads, 1, B)
    moves: Any  # (groups, m, 3) float64, of a check: |L lambda|^2, |d lambda|^2; of a restart: see `anchor`
    tally: Any = None  # operations executed, (threads, phases, m) int64; None compiles the counting out


def tile_rows(dtype: npt.DTypeLike) -> int:
    """B: samples in a tile."""
    return VECTORS * VECTOR_BYTES // np.dtype(dtype).itemsize


def tile_count(rows: int, dtype: npt.DTypeLike) -> int:
    return -(-rows // tile_rows(dtype))


def tiles_per_group(tiles: int) -> int:
    return -(-tiles // GROUPS)


def group_count(tiles: int) -> int:
    return -(-tiles // tiles_per_group(tiles))


def most_threads() -> int:
    """Threads that a kernel may run on, whatever `set_num_threads` says: scratch is made for all of them."""
    settings: Any = numba.config
    return 1 if settings.DISABLE_JIT else int(settings.NUMBA_NUM_THREADS)


def aligned_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros that start on a pair of cache lines: no vector straddles two, and the memory brings them in pairs."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.zeros(size + LINE_PAIR, np.uint8)
    start = -raw.ctypes.data % LINE_PAIR
    return raw[start : start + size].view(kind).reshape(shape)
