"""The proximal Newton model: min_t g'(t - theta) + (t - theta)'H(t - theta)/2 + r(t), solved to rounding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fdglm_fast.penalties import GROUP_L2, L2, NONE, Penalty
from fdglm_fast.reference import face
from fdglm_fast.reference.active_set import ActiveSet
from fdglm_fast.reference.cone_program import penalty_rows, solve_cone_program
from fdglm_fast.reference.linear import ScaledCholesky, damped_cholesky
from fdglm_fast.reference.pointwise import sweep, sweep_groups

Array = NDArray[np.float64]
Groups = NDArray[np.int64]

ROUNDS = 40
EASY_ROUNDS = 12  # after them the faces are searched one coordinate at a time
SWEEPS = 8
RELATIVE_CHANGE = 1e-12


class Model:
    """The quadratic model around theta, with the Hessian H of the smooth part; r from `penalty` and `groups`."""

    def __init__(self, H: Array, penalty: Penalty, groups: Groups) -> None:
        self.H, self.penalty, self.groups = H, penalty, groups
        diagonal = np.diagonal(H)
        self._floor = max(1e-14 * float(diagonal.max(initial=0.0)), np.finfo(np.float64).tiny)
        self._diagonal = np.maximum(diagonal, self._floor)
        if penalty.code == GROUP_L2:
            self._order_groups()

    def _order_groups(self) -> None:
        self._order = np.argsort(self.groups, kind="stable")
        self._steps = np.empty(len(self.groups))
        names, starts = np.unique(self.groups[self._order], return_index=True)
        self._starts = np.append(starts, len(self.groups)).astype(np.int64)
        self._curvature = np.empty(len(names))
        for g in range(len(names)):
            members = self._order[self._starts[g] : self._starts[g + 1]]
            top = np.linalg.eigvalsh(self.H[np.ix_(members, members)])[-1]
            self._curvature[g] = max(float(top) * (1.0 + 1e-12), self._floor)

    def minimise(self, theta: Array, g: Array) -> Array:
        """Rounds of coordinate descent, which finds the face, and a Newton step on the face, which finds the point."""
        t = theta.copy()
        if self.penalty.code in (NONE, L2):
            self._newton_on_face(t, g)
            return t
        c, first = g.copy(), 0.0
        for round_ in range(ROUNDS):
            change = max(self._sweep(c, t) for _ in range(SWEEPS))
            first = max(first, change)
            if change <= max(RELATIVE_CHANGE * first, self._rounding(t)):
                break
            if round_ >= EASY_ROUNDS and self.penalty.code != GROUP_L2:
                t = ActiveSet(self.H, self.penalty, t, c).minimise()
            else:
                if round_ == EASY_ROUNDS:
                    t = self._interior_point(g - self.H @ theta)
                    c = g + self.H @ (t - theta)
                self._newton_on_face(t, c)
            c = g + self.H @ (t - theta)
        return t

    def factor(self) -> ScaledCholesky:
        """H + r'', for a quadratic r: none or l2."""
        matrix = self.H.copy()
        matrix[np.diag_indices_from(matrix)] += face.quadratic_weight(self.penalty)
        return damped_cholesky(matrix)

    def _interior_point(self, linear: Array) -> Array:
        """The minimiser of linear't + t'Ht/2 + r(t) as a second-order cone programme, groups near 0 put there."""
        part = penalty_rows(self.penalty, self.groups, len(linear))
        # In the units of the penalty, so that the solver's absolute tolerances mean something.
        unit = 1.0 / float(part.cost.max())
        P = sparse.csc_matrix(unit * self.H)
        P.resize(len(linear) + len(part.cost), len(linear) + len(part.cost))
        q = unit * np.concatenate((linear, part.cost))
        x, _ = solve_cone_program(P, q, part.rows, part.right, part.cones)
        t = x[: len(linear)]
        return face.snap(self.penalty, self.groups, t, -(linear + self.H @ t))

    def _rounding(self, t: Array) -> float:
        """A change that is no more than the rounding of t."""
        return 4.0 * np.finfo(np.float64).eps * float((np.abs(t) * np.sqrt(self._diagonal)).max())

    def _sweep(self, c: Array, t: Array) -> float:
        p = self.penalty
        if p.code == GROUP_L2:
            return sweep_groups(self.H, self._curvature, c, t, p.reg, self._order, self._starts, self._steps)
        return sweep(self.H, self._diagonal, c, t, p.code, p.reg, p.a, p.b)

    def _newton_on_face(self, t: Array, c: Array) -> None:
        """t moves to the minimiser over the span of its face, or part of the way where the face ends before.

        Where the face is flat the plain step may be rounding blown up and decrease nothing; a damped one is then
        tried.
        """
        on = np.flatnonzero(face.free(self.penalty, self.groups, t))
        if not on.size:
            return
        slope = (c + face.gradient(self.penalty, self.groups, t))[on]
        matrix = self.H[np.ix_(on, on)] if on.size < t.size else self.H.copy()
        face.add_hessian(self.penalty, self.groups, t, on, matrix)
        for damping in (0.0, 1e-10, 1e-6):
            step = np.zeros_like(t)
            step[on] = -damped_cholesky(matrix, damping).solve(slope)
            if self._take(t, c, step):
                return

    def _take(self, t: Array, c: Array, step: Array) -> bool:
        """Move t by the first part 1, 1/2, 1/4, ... of the step, kept on the face, that does not increase the model."""
        part = 1.0
        for _ in range(12):
            trial = face.onto_closed_face(self.penalty, self.groups, t, t + part * step)
            moved = trial - t
            change = float(c @ moved) + 0.5 * float(moved @ (self.H @ moved))
            if change + face.increase(self.penalty, self.groups, t, trial) <= 0.0:
                t[:] = trial
                return True
            part *= 0.5
        return False
