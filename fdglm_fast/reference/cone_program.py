"""Clarabel, and the penalties in its language: min x'Px/2 + q'x subject to A x + s = b, s in a product of cones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fdglm_fast.errors import NumericalError
from fdglm_fast.penalties import BOX, ELASTIC_NET, GROUP_L2, L1, NONNEG, Penalty
from fdglm_fast.reference.face import kink_weight

Array = NDArray[np.float64]
Groups = NDArray[np.int64]

TOLERANCE = 1e-12


@dataclass(frozen=True)
class PenaltyRows:
    """r(theta) less its quadratic part is min_t cost't subject to rows [theta; t] + s = right, s in the cones.

    `cones` lists the size of a second-order cone, or minus the size of a nonnegative orthant.
    """

    rows: sparse.csc_matrix
    right: Array
    cones: list[int]
    cost: Array


def penalty_rows(penalty: Penalty, groups: Groups, d: int) -> PenaltyRows:
    """l1: -t <= theta <= t.  group-l2: (t_g, theta_g) in the second-order cone.  nonneg, box: bounds on theta."""
    eye, nothing = sparse.identity(d, format="csc"), np.zeros(0)
    if penalty.code == NONNEG:
        return PenaltyRows((-eye).tocsc(), np.zeros(d), [-d], nothing)
    if penalty.code == BOX:
        right = np.concatenate((np.full(d, penalty.b), np.full(d, -penalty.a)))
        return PenaltyRows(sparse.vstack((eye, -eye), format="csc"), right, [-2 * d], nothing)
    if penalty.code in (L1, ELASTIC_NET):
        rows = sparse.bmat([[eye, -eye], [-eye, -eye]], format="csc")
        return PenaltyRows(rows, np.zeros(2 * d), [-2 * d], np.full(d, kink_weight(penalty)))
    if penalty.code == GROUP_L2:
        return _group_rows(penalty, groups, d)
    return PenaltyRows(sparse.csc_matrix((0, d)), nothing, [], nothing)


def _group_rows(penalty: Penalty, groups: Groups, d: int) -> PenaltyRows:
    """s = (t_g, theta_g) for each group in turn."""
    chosen: list[int] = []
    sizes: list[int] = []
    for position, g in enumerate(np.unique(groups)):
        members = np.flatnonzero(groups == g)
        chosen += [d + position, *members.tolist()]
        sizes.append(len(members))
    count = d + len(sizes)
    rows = sparse.csc_matrix((-np.ones(count), (np.arange(count), chosen)), shape=(count, count))
    cost = np.array([penalty.reg * math.sqrt(size) for size in sizes])
    return PenaltyRows(rows, np.zeros(count), [size + 1 for size in sizes], cost)


def solve_cone_program(
    P: sparse.csc_matrix, q: Array, A: sparse.csc_matrix, b: Array, cones: list[int]
) -> tuple[Array, Array]:
    """x and the multipliers z of the rows, as good as Clarabel gets them: the caller measures how good that is."""
    import clarabel

    kinds: list[Any] = [
        clarabel.SecondOrderConeT(size) if size > 0 else clarabel.NonnegativeConeT(-size) for size in cones
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # the same bits on every machine
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    solution = clarabel.DefaultSolver(sparse.triu(P, format="csc"), q, A, b, kinds, settings).solve()
    x, z = np.array(solution.x), np.array(solution.z)
    if not (np.isfinite(x).all() and np.isfinite(z).all()):
        raise NumericalError(f"the conic solver gave no answer for the reference ({solution.status}).")
    return x, z
