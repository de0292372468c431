"""The oracle of the fast method: dense matrices, v itself, its coupling M and the metric, straight from the formulas.

With a_j = max(|X_j S^(1/2)|^2, chi^2 b_j/mean(b)), tau = 1/(w sqrt(mean a)), tau_v = tau chi^2/mean(b) and sigma =
1/(tau a),

    Sigma = sigma - tau_v sigma L sigma,        M M' = Sigma^+ sigma L on the range of Sigma

T(theta, v, lambda):   theta+  = prox(theta - tau X_j' lambda_j)
                       v+      = v - tau_v M' lambda
                       lambda+ = argmin loss*(lambda_1) + |lambda - lambda^half|^2/2 in the norm of Sigma^-1
                       lambda^half = lambda + Sigma [X_j (2 theta+ - theta) + M (2 v+ - v)]

T is followed beyond its image, or back towards an anchor, with restarts. Nothing of the package is imported.

The Laplacian is bounded by b, c (1 + 2^-10) times the degrees, c the largest eigenvalue of Deg^-1 L rounded up to a
multiple of 2^-24; the first weight is 0.25 sqrt(m n) times the largest second derivative of the loss (0.3 of it for the
logistic one), less where lambda_2(L)/|L| is below 0.02. On the complete graph with equal weights 1 - tau_v sigma L is a
projection, Sigma has no inverse, and its range is what all agents agree on, from which lambda never departs: there v
does not matter, and |X_j S^(1/2)|^2 is replaced by |X S^(1/2)|^2/m.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import naive
import numpy as np

CHECK, ENOUGH, SOME, LONG = 10, 0.2, 0.5, 0.36
CURVATURE = {"logistic": 0.3 * 0.25, "squared-hinge": 2.0}  # one for the others
TRIAL, RELAX, RISE = 20, 0.9, 4.0
FLOOR = np.finfo(float).eps ** 0.75  # of the first r: below it r is rounding
NOISE = 1e3 * np.finfo(float).eps  # of deg |p|^2: below it <p, L p> is rounding


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
        self.L = L = np.array(naive.laplacian(self.m, edges), float)
        self.bounds = np.diag(L) * self.degree_factor(L) * (1.0 + 2.0**-10)
        self.scale = self.column_scales()
        self.norms = np.array([np.linalg.norm(X[:, b] * np.sqrt(self.scale[b]), 2) for b in blocks])
        apart = L[~np.eye(self.m, dtype=bool)]
        self.uniform = self.m > 1 and bool(np.all(apart == apart[0]))
        if self.uniform:
            self.bounds = np.full(self.m, -self.m * apart[0])
            self.norms = np.full(self.m, np.linalg.norm(X * np.sqrt(self.scale), 2) / np.sqrt(self.m))
        self.w = 0.25 * CURVATURE.get(loss[0], 1.0) * np.sqrt(self.m * self.n)
        if self.m > 1:
            values = np.linalg.eigvalsh(L)
            self.w *= min(1.0, round((values[1] / values[-1] / 0.02) ** 0.25, 6))

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
        chi, ratio = self.norms.max(), 0.0
        if self.m > 1:
            ratio = chi**2 / self.bounds.mean()
        demands = np.maximum(self.norms**2, ratio * self.bounds)
        tau_theta = 1.0 / (w * np.sqrt(demands.mean()))
        return tau_theta, tau_theta * ratio, 1.0 / (tau_theta * demands)

    def metric(self) -> tuple[Any, Any, Any]:
        """Sigma, M, and what finds v from u where Sigma M v = sigma u.

        With N = tau_v sigma^(1/2) L sigma^(1/2): Sigma = sigma^(1/2) (1 - N) sigma^(1/2), and M = sigma^(-1/2)
        (N/(1 - N)/tau_v)^(1/2).
        """
        _, tau_v, sigma = self.steps(self.w)
        root = np.sqrt(sigma)
        values, vectors = np.linalg.eigh(tau_v * root[:, None] * self.L * root)
        ones = np.ones(self.m) / self.m
        mixing = np.outer(ones, np.ones(self.m)) if self.uniform else vectors @ np.diag(1.0 - values) @ vectors.T
        Sigma = root[:, None] * mixing * root
        if self.uniform or self.m == 1:
            return Sigma, np.zeros((self.m, self.m)), None
        inner = np.sqrt(np.maximum(values, 0.0) / (tau_v * (1.0 - values)))
        back = np.concatenate([[0.0], 1.0 / ((1.0 - values[1:]) * inner[1:])])  # consensus is not in the range
        return (
            Sigma,
            (vectors @ np.diag(inner) @ vectors.T) / root[:, None],
            vectors @ np.diag(back) @ vectors.T * root,
        )

    def T(self, z: Z) -> Z:
        tau_theta, tau_v, _ = self.steps(self.w)
        Sigma, M, _ = self.metric()
        theta = np.empty_like(z.theta)
        for j, b in enumerate(self.blocks):
            moved = z.theta[b] - tau_theta * self.scale[b] * (self.X[:, b].T @ z.lam[j])
            theta[b] = self.prox(self.n * tau_theta, moved.tolist(), b)
        v = z.v - tau_v * M.T @ z.lam
        pulls = np.stack([self.X[:, b] @ (2.0 * theta[b] - z.theta[b]) for b in self.blocks]) + M @ (2.0 * v - z.v)
        half = z.lam + Sigma @ pulls
        step = Sigma[0, 0]
        pairs = zip(half[0].tolist(), self.y, strict=True)
        first = np.array([naive.dual_step(self.loss, a, y, 1, step) for a, y in pairs])
        return Z(theta, v, half - np.outer(Sigma[:, 0], (half[0] - first) / step))

    def prox(self, tau: float, moved: list[float], columns: list[int]) -> Any:
        """Column by column, each with its own tau; group by group for group-l2."""
        out = np.empty(len(columns))
        groups = self.penalty[2] if self.penalty[0] == "group-l2" else range(self.X.shape[1])
        for g in sorted({groups[c] for c in columns}):
            here = [i for i, c in enumerate(columns) if groups[c] == g]
            mine = [columns[i] for i in here]
            out[here] = naive.prox(self.penalty, tau * self.scale[mine[0]], [moved[i] for i in here], mine)
        return out

    def size(self, z: Z) -> float:
        """r: how far T moves z, with the disagreement of lambda for the move of v."""
        tau_theta, tau_v, sigma = self.steps(self.w)
        d = self.T(z).plus(-1.0, z)
        squares = np.sum(d.theta**2 / self.scale) / tau_theta + np.sum(d.lam**2 / sigma[:, None])
        if self.m > 1:
            squares += tau_v * np.sum((self.L @ z.lam) ** 2 / self.bounds[:, None])
        return float(np.sqrt(squares))

    def run(self, iterations: int, next_weight: Any) -> list[tuple[Z, Z, int]]:
        """(T(z_k), z_{k+1}, restarts) by iteration; `next_weight(w, primal, dual)` is the rule at restarts."""
        z = anchor = Z(np.zeros(self.X.shape[1]), np.zeros((self.m, self.n)), np.zeros((self.m, self.n)))
        k, due, first, last, restarts, found, begin = 0, False, 0.0, 0.0, 0, [], 0.0
        anchored, rates, slow, plain = False, {True: np.inf, False: np.inf}, 0, False
        # tau_v times the sum of lambda that the solver keeps in the place of v, less what all agents leave out of it.
        p, common = np.zeros((self.m, self.n)), np.zeros(self.n)
        for done in range(1, iterations + 1):
            new = self.T(z)
            tau_v = self.steps(self.w)[1]
            p_new = p + tau_v * (z.lam - common)
            if due:
                far = new.plus(-1.0, anchor)
                tau_theta, tau_v, sigma = self.steps(1.0)
                primal = np.sum(far.theta**2 / self.scale) / tau_theta
                spread = np.sum(p_new * (self.L @ p_new))
                seen = spread > NOISE * np.sum(np.diag(self.L)[:, None] * p_new**2)
                primal += spread / tau_v if seen else 0.0
                trusted, told = last > FLOOR * begin, seen or self.uniform or self.m == 1
                dual = np.sum(far.lam**2 / sigma[:, None])
                w = next_weight(self.w, primal, dual) if trusted and told else self.w
                z = anchor = self.change_weight(w, new)
                if k + 1 > TRIAL and trusted and not plain:
                    rates[anchored] = np.log(first / last) / (k + 1)
                    slow = slow + 1 if last > ENOUGH * first else 0
                    if rates[not anchored] > rates[anchored] or slow >= 2:
                        anchored, slow = not anchored, 0
                plain = not plain and k + 1 > TRIAL and last > RISE * first
                common = z.lam[0]
                p, k, due, restarts = 0.0 * p, 0, False, restarts + 1
                found.append((new, z, restarts))
                continue
            if k % CHECK == 0:
                r = self.size(z)
                begin = begin or r
                if k == 0:
                    first = last = r
                else:
                    enough = r <= ENOUGH * first or (r <= SOME * first and r > last)
                    early = (enough and r > FLOOR * begin) or (k >= TRIAL and r > RISE * first)
                    due = k >= LONG * done or (early and not plain)
                    last = r
            if plain:
                z, p = new, p_new
            elif anchored:
                reflected = new.plus(1.0, new.plus(-1.0, z))
                z = reflected.plus(1.0 / (k + 2.0), anchor.plus(-1.0, reflected))
                p = (1.0 - 1.0 / (k + 2.0)) * (2.0 * p_new - p)
            else:
                z = new.plus(RELAX, new.plus(-1.0, z))
                p = p_new + RELAX * (p_new - p)
            k += 1
            found.append((new, z, restarts))
        return found

    def change_weight(self, w: float, z: Z) -> Z:
        """Another weight is another M: what carries over is the pull on lambda, Sigma M v = sigma u, so u stays."""
        Sigma, M, _ = self.metric()
        u = (Sigma @ M @ z.v) / self.steps(self.w)[2][:, None]
        self.w = w
        back = self.metric()[2]
        return z if back is None else Z(z.theta, back @ u, z.lam)
