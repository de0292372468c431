"""The oracle of the fast method: dense matrices, v itself and the square root of L, straight from the formulas.

T(theta, v, lambda):   theta+  = prox(theta - tau_theta X_j' lambda_j)
                       v+      = v - tau_v L^(1/2) lambda
                       lambda+ = prox(lambda + sigma [X_j (2 theta+ - theta) + L^(1/2) (2 v+ - v)])

and a reflected Halpern iteration of it with restarts. Nothing of the package is imported.

The Laplacian is bounded by c times the degrees, c the largest eigenvalue of Deg^-1 L rounded up to a multiple of 2^-24;
the first weight is 0.35 sqrt(m n) times the largest second derivative of the loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import naive
import numpy as np

CHECK, ENOUGH, SOME, LONG = 10, 0.2, 0.5, 0.36
CURVATURE = {"logistic": 0.25, "squared-hinge": 2.0}  # one for the others
FLOOR = 4.0 * np.sqrt(np.finfo(float).eps)  # of the first residual: below it the residual is rounding


class Z(NamedTuple):
    """theta (d,), v and lambda (m, n)."""

    theta: Any
    v: Any
    lam: Any

    def plus(self, factor: float, other: Z) -> Z:
        return Z(*(a + factor * b for a, b in zip(self, other, strict=True)))


class Oracle:
    """One problem; `run` gives T(z) and z after each iteration."""

    def __init__(self, X: Any, y: Any, blocks: list[list[int]], edges: naive.Edges, loss: Any, penalty: Any) -> None:
        self.X, self.y, self.blocks, self.loss, self.penalty = X, y, blocks, loss, penalty
        self.n, self.m = len(y), len(blocks)
        L = np.array(naive.laplacian(self.m, edges), float)
        values, vectors = np.linalg.eigh(L)
        self.root = vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        self.bounds = np.diag(L) * self.degree_factor(L)
        self.scale = self.column_scales()
        self.norms = np.array([np.linalg.norm(X[:, b] * np.sqrt(self.scale[b]), 2) for b in blocks])
        self.w = 0.35 * CURVATURE.get(loss[0], 1.0) * np.sqrt(self.m * self.n)

    def degree_factor(self, L: Any) -> float:
        if self.m == 1:
            return 0.0
        largest = np.linalg.eigvals(L / np.diag(L)[:, None]).real.max()
        return float(min(2.0, np.ceil(largest * 2.0**24 + 0.1) / 2.0**24))

    def column_scales(self) -> Any:
        """n / (norm of the column)^2; a group of group-l2 counts as its largest column."""
        squares = (self.X**2).sum(axis=0)
        if self.penalty[0] == "group-l2":
            groups = np.array(self.penalty[2])
            squares = np.array([squares[groups == g].max() for g in groups])
        return len(self.y) / squares

    def steps(self, w: float) -> tuple[float, float, Any]:
        chi = self.norms.max()
        tau_theta = 1.0 / (w * chi)
        tau_v = tau_theta * chi**2 / self.bounds.mean() if self.m > 1 else 0.0
        return tau_theta, tau_v, 1.0 / (tau_theta * self.norms**2 + tau_v * self.bounds)

    def T(self, z: Z) -> Z:
        tau_theta, tau_v, sigma = self.steps(self.w)
        theta = np.empty_like(z.theta)
        for j, b in enumerate(self.blocks):
            moved = z.theta[b] - tau_theta * self.scale[b] * (self.X[:, b].T @ z.lam[j])
            theta[b] = self.prox(self.n * tau_theta, moved.tolist(), b)
        v = z.v - tau_v * self.root @ z.lam
        around = self.root @ (2.0 * v - z.v)
        lam = np.empty_like(z.lam)
        for j, b in enumerate(self.blocks):
            lam[j] = z.lam[j] + sigma[j] * (self.X[:, b] @ (2.0 * theta[b] - z.theta[b]) + around[j])
        lam[0] = [naive.dual_step(self.loss, a, y, 1, sigma[0]) for a, y in zip(lam[0].tolist(), self.y, strict=True)]
        return Z(theta, v, lam)

    def prox(self, tau: float, moved: list[float], columns: list[int]) -> Any:
        """Column by column, each with its own tau; group by group for group-l2."""
        out = np.empty(len(columns))
        groups = self.penalty[2] if self.penalty[0] == "group-l2" else range(self.X.shape[1])
        for g in sorted({groups[c] for c in columns}):
            here = [i for i, c in enumerate(columns) if groups[c] == g]
            mine = [columns[i] for i in here]
            out[here] = naive.prox(self.penalty, tau * self.scale[mine[0]], [moved[i] for i in here], mine)
        return out

    def residual(self, z: Z) -> float:
        """|z - T(z)| in the norm of P."""
        tau_theta, tau_v, sigma = self.steps(self.w)
        d = self.T(z).plus(-1.0, z)
        image = np.stack([self.X[:, b] @ d.theta[b] for b in self.blocks]) + self.root @ d.v
        squares = (
            np.sum(d.theta**2 / self.scale) / tau_theta
            + np.sum(d.lam**2 / sigma[:, None])
            - 2.0 * np.sum(d.lam * image)
        )
        return float(np.sqrt(max(squares + (np.sum(d.v**2) / tau_v if tau_v else 0.0), 0.0)))

    def run(self, iterations: int, next_weight: Any) -> list[tuple[Z, Z, int]]:
        """(T(z_k), z_{k+1}, restarts) by iteration; `next_weight(w, primal, dual)` is the rule at restarts."""
        z = anchor = Z(np.zeros(self.X.shape[1]), np.zeros((self.m, self.n)), np.zeros((self.m, self.n)))
        k, due, first, last, restarts, found, begin = 0, False, 0.0, 0.0, 0, [], 0.0
        for done in range(1, iterations + 1):
            new = self.T(z)
            if due:
                tau_theta, tau_v, sigma = self.steps(1.0)
                far = new.plus(-1.0, anchor)
                primal = np.sum(far.theta**2 / self.scale) / tau_theta + (np.sum(far.v**2) / tau_v if tau_v else 0.0)
                if last > FLOOR * begin:
                    self.w = next_weight(self.w, primal, np.sum(far.lam**2 / sigma[:, None]))
                z = anchor = new
                k, due, restarts = 0, False, restarts + 1
                found.append((new, z, restarts))
                continue
            if k % CHECK == 0:
                r = self.residual(z)
                begin = begin or r
                if k == 0:
                    first = last = r
                else:
                    enough = r <= ENOUGH * first or (r <= SOME * first and r > last)
                    due = (enough and r > FLOOR * begin) or k >= LONG * done
                    last = r
            reflected = new.plus(1.0, new.plus(-1.0, z))
            z = reflected.plus(1.0 / (k + 2.0), anchor.plus(-1.0, reflected))
            k += 1
            found.append((new, z, restarts))
        return found
