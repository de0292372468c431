"""The face of a penalty at a point: the coordinates along which r is smooth there, and its derivatives on them.

    l1, elastic net   the nonzero coordinates, their signs kept      nonneg   the positive ones
    group-l2          the coordinates of nonzero groups              box      those strictly inside
    none, l2          all
On a closed face all but group-l2 are quadratic, so that a difference of values needs no subtraction of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.penalties import BOX, ELASTIC_NET, GROUP_L2, L1, L2, NONNEG, Penalty

Array = NDArray[np.float64]
Groups = NDArray[np.int64]
Mask = NDArray[np.bool_]


def group_norms(groups: Groups, t: Array) -> Array:
    """|t_g|_2, at every coordinate of g."""
    return np.sqrt(np.bincount(groups, weights=t * t))[groups]


def group_weights(penalty: Penalty, groups: Groups) -> Array:
    """reg sqrt(|g|), at every coordinate of g."""
    return penalty.reg * np.sqrt(np.bincount(groups))[groups]


def free(penalty: Penalty, groups: Groups, t: Array) -> Mask:
    """The coordinates of the face at t."""
    if penalty.code in (L1, ELASTIC_NET):
        return t != 0.0
    if penalty.code == NONNEG:
        return t > 0.0
    if penalty.code == BOX:
        return (t > penalty.a) & (t < penalty.b)
    if penalty.code == GROUP_L2:
        return group_norms(groups, t) > 0.0
    return np.ones(t.shape, dtype=np.bool_)


def quadratic_weight(penalty: Penalty) -> float:
    """The w of the part w/2 |t|^2 of r."""
    if penalty.code == ELASTIC_NET:
        return penalty.reg * (1.0 - penalty.a)
    return penalty.reg if penalty.code == L2 else 0.0


def kink_weight(penalty: Penalty) -> float:
    """The w of the part w |t|_1 of r."""
    if penalty.code == ELASTIC_NET:
        return penalty.reg * penalty.a
    return penalty.reg if penalty.code == L1 else 0.0


def gradient(penalty: Penalty, groups: Groups, t: Array) -> Array:
    """r'(t) on the face, 0 off it."""
    if penalty.code == GROUP_L2:
        norms = group_norms(groups, t)
        return group_weights(penalty, groups) * t / np.where(norms > 0.0, norms, 1.0)
    return kink_weight(penalty) * np.sign(t) + quadratic_weight(penalty) * t


def add_hessian(penalty: Penalty, groups: Groups, t: Array, on: NDArray[np.intp], matrix: Array) -> None:
    """matrix += r''(t) on the face's coordinates `on`; a group has reg sqrt(|g|)/|t_g| (I - u u'), u = t_g/|t_g|"""
    if penalty.code != GROUP_L2:
        matrix[np.diag_indices_from(matrix)] += quadratic_weight(penalty)
        return
    norms, weights = group_norms(groups, t)[on], group_weights(penalty, groups)[on]
    unit, bend = t[on] / norms, weights / norms
    for g in np.unique(groups[on]):
        members = np.flatnonzero(groups[on] == g)
        u = unit[members]
        matrix[np.ix_(members, members)] += bend[members[0]] * (np.eye(len(members)) - np.outer(u, u))


def prox_move(penalty: Penalty, groups: Groups, t: Array, g: Array, tau: Array) -> Array:
    """(t - prox_{tau r}(t - tau g))/tau with a tau for each coordinate, the same within a group.

    Written so that t, which may be larger than tau g by more than the precision, cancels before it is added.
    """
    x, w = t - tau * g, quadratic_weight(penalty)
    if penalty.code == GROUP_L2:
        norms, weights = group_norms(groups, x), group_weights(penalty, groups)
        return np.where(norms > tau * weights, g + weights * x / np.where(norms > 0.0, norms, 1.0), t / tau)
    if penalty.code == NONNEG:
        return np.where(x > 0.0, g, t / tau)
    if penalty.code == BOX:
        return np.where(x < penalty.a, (t - penalty.a) / tau, np.where(x > penalty.b, (t - penalty.b) / tau, g))
    if penalty.code in (L1, ELASTIC_NET):
        kink = kink_weight(penalty)
        return np.where(np.abs(x) > tau * kink, (g + kink * np.sign(x) + w * t) / (1.0 + tau * w), t / tau)
    return (g + w * t) / (1.0 + tau * w)


def snap(penalty: Penalty, groups: Groups, t: Array, c: Array) -> Array:
    """t, nearly optimal for r(t) - c't, put on the kink of r where that is nearer than c is to its limit there.

    Of each such pair of distances one is 0 at the optimum; both are measured against the largest of their kind.
    """
    unit = float(np.abs(t).max(initial=0.0)) or 1.0
    steep = float(np.abs(c).max(initial=0.0)) or 1.0
    if penalty.code in (L1, ELASTIC_NET):
        slack = kink_weight(penalty) - np.abs(c)
        return np.where(np.abs(t) / unit < slack / steep, 0.0, t)
    if penalty.code == GROUP_L2:
        slack = group_weights(penalty, groups) - group_norms(groups, c)
        return np.where(group_norms(groups, t) / unit < slack / steep, 0.0, t)
    if penalty.code == NONNEG:
        return np.where(t / unit < -c / steep, 0.0, t)
    if penalty.code == BOX:
        t = np.where((t - penalty.a) / unit < -c / steep, penalty.a, t)
        return np.where((penalty.b - t) / unit < c / steep, penalty.b, t)
    return t


def onto_closed_face(penalty: Penalty, groups: Groups, t: Array, trial: Array) -> Array:
    """The trial point, moved back to the edge of the face of t where it left it; a group that turned round, to 0."""
    if penalty.code in (L1, ELASTIC_NET):
        return np.where(trial * t > 0.0, trial, 0.0)
    if penalty.code == NONNEG:
        return np.maximum(trial, 0.0)
    if penalty.code == BOX:
        return np.clip(trial, penalty.a, penalty.b)
    if penalty.code == GROUP_L2:
        return np.where(np.bincount(groups, weights=t * trial)[groups] > 0.0, trial, 0.0)
    return trial


def increase(penalty: Penalty, groups: Groups, t: Array, trial: Array) -> float:
    """r(trial) - r(t) for a trial on the closed face of t, without cancellation."""
    step = trial - t
    if penalty.code != GROUP_L2:
        slope = gradient(penalty, groups, t) + 0.5 * quadratic_weight(penalty) * step
        return float(slope @ step)
    weights = penalty.reg * np.sqrt(np.bincount(groups))
    before = np.sqrt(np.bincount(groups, weights=t * t))
    after = np.sqrt(np.bincount(groups, weights=trial * trial))
    squares = np.bincount(groups, weights=(t + trial) * step)
    sums = before + after
    return float((weights * squares / np.where(sums > 0.0, sums, 1.0)).sum())
