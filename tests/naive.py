"""The oracle: the paper's iteration in plain Python loops, written from the paper alone.

Lists of floats and the `math` module; nothing of the package is imported. Slow on purpose.
Names are the paper's. Agent 1 of the paper, the one that holds y, is agent 0 here.

Losses:    ('squared',) ('huber', k) ('absolute',) ('quantile', q) ('logistic',) ('hinge',)
           ('squared-hinge',) ('poisson',); labels of the three margin losses are -1 and +1.
Penalties: ('none',) ('l1', reg) ('l2', reg) ('elastic-net', reg, ratio) ('nonneg',) ('box', lo, hi)
           ('group-l2', reg, groups), where groups[c] is the group number of column c.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

Vector = list[float]
Matrix = list[list[float]]
Edges = list[tuple[int, int, float]]
Spec = tuple[Any, ...]

HALVINGS = 200
# An average of points of a box may leave it by rounding; this much is still inside.
INDICATOR_SLACK = 1e-12


class Record(NamedTuple):
    """The state after one iteration; theta and theta_bar are in column order, lam and v per agent."""

    theta: Vector
    lam: Matrix
    v: Matrix
    theta_bar: Vector


class Constants(NamedTuple):
    """What Theorem 1 is told: chi >= ||X||, D >= ||L||, 1/delta >= ||L^+||, R >= ||theta_hat||."""

    n: int
    m: int
    chi: float
    D: float
    delta: float
    R: float
    rho: float


# ---------------------------------------------------------------------------------------------- losses


def loss_value(loss: Spec, z: float, y: float) -> float:
    """ell(z, y)."""
    name = loss[0]
    e = z - y
    margin = y * z
    if name == "squared":
        return e * e / 2
    if name == "huber":
        k = loss[1]
        return e * e / 2 if abs(e) <= k else k * abs(e) - k * k / 2
    if name == "absolute":
        return abs(e)
    if name == "quantile":
        q = loss[1]
        return (1 - q) * e if e > 0 else -q * e
    if name == "logistic":
        # log(1 + exp(-margin)) without overflow
        return max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))
    if name == "hinge":
        return max(0.0, 1 - margin)
    if name == "squared-hinge":
        return max(0.0, 1 - margin) ** 2
    if name == "poisson":
        return math.exp(z) - y * z
    raise ValueError(f"unknown loss {name!r}")


def dual_step(loss: Spec, a: float, y: float, n: int, sigma: float) -> float:
    """(FD-GLM-4), one coordinate: argmin over lam of ell(w)/n + lam^2/(2 sigma), w = (n/sigma)(a - lam).

    With s = sigma/n the condition of optimality is lam in d ell(w), w = (a - lam)/s. On each piece of ell
    put that piece's slope for lam, solve, and keep the piece that w then really falls into.
    """
    name = loss[0]
    s = sigma / n
    r = a - s * y  # the lam for which w = y
    if name == "squared":
        # lam = w - y, so s lam = a - lam - s y
        return r / (1 + s)
    if name == "huber":
        # inside: as squared, with |w - y| = |lam| <= k; outside: lam = +-k
        lam = r / (1 + s)
        return lam if abs(lam) <= loss[1] else math.copysign(loss[1], lam)
    if name == "absolute":
        return _kink(r, -1.0, 1.0)
    if name == "quantile":
        return _kink(r, -loss[1], 1 - loss[1])
    if name == "logistic":
        return _logistic_step(a, y, s)
    if name == "hinge":
        # slope -y below the margin 1, 0 above; the kink is at w = 1/y = y
        return _kink(r, -1.0, 0.0) if y > 0 else _kink(r, 0.0, 1.0)
    if name == "squared-hinge":
        # y w < 1: lam = -2 y (1 - y w) = 2 (w - y), so s lam = 2 (a - lam - s y); else lam = 0, w = a/s
        return 0.0 if y * a >= s else 2 * r / (2 + s)
    if name == "poisson":
        return _poisson_step(a, y, s)
    raise ValueError(f"unknown loss {name!r}")


def _kink(r: float, left: float, right: float) -> float:
    """A loss of slope `left` for w < y and `right` for w > y.

    w > y means (a - right)/s > y, that is r > right; w < y means r < left; else w = y, where lam = r.
    """
    if r > right:
        return right
    if r < left:
        return left
    return r


def _logistic_step(a: float, y: float, s: float) -> float:
    """lam = -y p with p = 1/(1 + exp(y w)) and y w = (y a + p)/s: bisection on p in [0, 1]."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        p = (low + high) / 2
        margin = (y * a + p) / s
        tail = math.exp(-abs(margin))
        slope = tail / (1 + tail) if margin > 0 else 1 / (1 + tail)
        if p < slope:
            low = p
        else:
            high = p
    return -y * (low + high) / 2


def _poisson_step(a: float, y: float, s: float) -> float:
    """lam = e - y with e = exp(w) and s w = a - lam: bisection on s log e + e = a + y.

    The left side increases from -inf. The root is at most max(1, a + y), since log e > 0 beyond 1.
    """
    low, high = 0.0, max(1.0, a + y)
    for _ in range(HALVINGS):
        e = (low + high) / 2
        if s * math.log(e) + e < a + y:
            low = e
        else:
            high = e
    return (low + high) / 2 - y


# ------------------------------------------------------------------------------------------- penalties


def _members(groups: list[int]) -> dict[int, list[int]]:
    """The columns of each group."""
    members: dict[int, list[int]] = {}
    for column, group in enumerate(groups):
        members.setdefault(group, []).append(column)
    return members


def penalty_value(penalty: Spec, theta: Vector) -> float:
    """r(theta); inf outside a constraint."""
    name = penalty[0]
    if name == "none":
        return 0.0
    if name == "l1":
        return penalty[1] * sum(abs(t) for t in theta)
    if name == "l2":
        return penalty[1] / 2 * sum(t * t for t in theta)
    if name == "elastic-net":
        reg, ratio = penalty[1], penalty[2]
        return reg * sum(ratio * abs(t) + (1 - ratio) / 2 * t * t for t in theta)
    if name == "group-l2":
        total = 0.0
        for columns in _members(penalty[2]).values():
            total += math.sqrt(len(columns)) * math.sqrt(sum(theta[c] ** 2 for c in columns))
        return penalty[1] * total
    if name == "nonneg":
        return 0.0 if all(t >= -INDICATOR_SLACK for t in theta) else math.inf
    if name == "box":
        low = penalty[1] - INDICATOR_SLACK * (1 + abs(penalty[1]))
        high = penalty[2] + INDICATOR_SLACK * (1 + abs(penalty[2]))
        return 0.0 if all(low <= t <= high for t in theta) else math.inf
    raise ValueError(f"unknown penalty {name!r}")


def prox(penalty: Spec, tau: float, u: Vector, columns: list[int]) -> Vector:
    """argmin over t of tau r(t) + ||t - u||^2/2, for the agent that owns `columns`."""
    name = penalty[0]
    if name == "none":
        return list(u)
    if name == "l1":
        return [_soft(x, tau * penalty[1]) for x in u]
    if name == "l2":
        return [x / (1 + tau * penalty[1]) for x in u]
    if name == "elastic-net":
        reg, ratio = penalty[1], penalty[2]
        return [_soft(x, tau * reg * ratio) / (1 + tau * reg * (1 - ratio)) for x in u]
    if name == "group-l2":
        return _group_prox(tau * penalty[1], penalty[2], u, columns)
    if name == "nonneg":
        return [x if x > 0 else 0.0 for x in u]
    if name == "box":
        return [penalty[1] if x < penalty[1] else penalty[2] if x > penalty[2] else x for x in u]
    raise ValueError(f"unknown penalty {name!r}")


def _soft(x: float, c: float) -> float:
    """argmin over t of c |t| + (t - x)^2/2."""
    if x > c:
        return x - c
    if x < -c:
        return x + c
    return 0.0


def _group_prox(c: float, groups: list[int], u: Vector, columns: list[int]) -> Vector:
    """Each group is shortened by c sqrt(size), or vanishes. Separable only if an agent owns whole groups."""
    position = {column: k for k, column in enumerate(columns)}
    out = [0.0] * len(columns)
    for members in _members(groups).values():
        owned = [position[column] for column in members if column in position]
        if not owned:
            continue
        if len(owned) < len(members):
            raise ValueError("a group is split between agents, so the penalty is not separable")
        norm = math.sqrt(sum(u[k] ** 2 for k in owned))
        cut = c * math.sqrt(len(members))
        if norm > cut:
            for k in owned:
                out[k] = u[k] * (1 - cut / norm)
    return out


# ------------------------------------------------------------------------------------------- iteration


def objective(X: Matrix, y: Vector, theta: Vector, loss: Spec, penalty: Spec) -> float:
    """(1/n) sum_i ell(x_i' theta, y_i) + r(theta)."""
    total = 0.0
    for row, response in zip(X, y, strict=True):
        total += loss_value(loss, sum(x * t for x, t in zip(row, theta, strict=True)), response)
    return total / len(X) + penalty_value(penalty, theta)


def laplacian(m: int, edges: Edges) -> Matrix:
    """L = sum over edges of w (e_i - e_j)(e_i - e_j)'."""
    L = [[0.0] * m for _ in range(m)]
    for i, j, w in edges:
        L[i][i] += w
        L[j][j] += w
        L[i][j] -= w
        L[j][i] -= w
    return L


def _differences(values: Matrix, edges: Edges) -> Matrix:
    """Row j: sum over neighbours k of j of w_jk (values_j - values_k)."""
    out = [[0.0] * len(row) for row in values]
    for i, j, w in edges:
        for t in range(len(values[0])):
            out[i][t] += w * (values[i][t] - values[j][t])
            out[j][t] += w * (values[j][t] - values[i][t])
    return out


def solve(
    X: Matrix,
    y: Vector,
    blocks: list[list[int]],
    edges: Edges,
    loss: Spec,
    penalty: Spec,
    sigma: float,
    tau: float,
    iterations: int,
) -> list[Record]:
    """(FD-GLM-1) to (FD-GLM-5) from zero; agent j owns the columns blocks[j]. One agent: v stays zero."""
    n, m = len(X), len(blocks)
    theta = [0.0] * sum(len(block) for block in blocks)
    totals = list(theta)
    lam = [[0.0] * n for _ in range(m)]
    v = [[0.0] * n for _ in range(m)]
    records = []
    for t in range(1, iterations + 1):
        new_theta = list(theta)
        for j, block in enumerate(blocks):  # (FD-GLM-1)
            u = [theta[c] - tau / n * sum(X[i][c] * lam[j][i] for i in range(n)) for c in block]
            for c, value in zip(block, prox(penalty, tau, u, block), strict=True):
                new_theta[c] = value
        new_v = v
        if m > 1:  # (FD-GLM-2)
            gaps = _differences(lam, edges)
            new_v = [[v[j][i] - tau / n * gaps[j][i] for i in range(n)] for j in range(m)]
        flow = _differences([[2 * new_v[j][i] - v[j][i] for i in range(n)] for j in range(m)], edges)
        ahead = [2 * new - old for new, old in zip(new_theta, theta, strict=True)]
        lam = [  # (FD-GLM-3), and for agent 0 (FD-GLM-5)
            [lam[j][i] + sigma / n * (sum(X[i][c] * ahead[c] for c in block) + flow[j][i]) for i in range(n)]
            for j, block in enumerate(blocks)
        ]
        lam[0] = [dual_step(loss, lam[0][i], y[i], n, sigma) for i in range(n)]  # (FD-GLM-4)
        theta, v = new_theta, new_v
        totals = [total + value for total, value in zip(totals, theta, strict=True)]
        records.append(Record(theta, lam, v, [total / t for total in totals]))
    return records


# --------------------------------------------------------------------------------------------- theorem


def _reach(c: Constants) -> float:
    """(chi + D) R sqrt(1 + 2 chi^2/delta^2); one agent has no Laplacian, so D = 0 and the root is 1."""
    if c.m == 1:
        return c.chi * c.R
    return (c.chi + c.D) * c.R * math.sqrt(1 + 2 * c.chi**2 / c.delta**2)


def theorem_steps(n: int, m: int, chi: float, D: float, delta: float, R: float, rho: float) -> tuple[float, float]:
    """sigma = m^(1/2) n^(3/2) rho/((chi+D) R sqrt(1+2chi^2/delta^2)), tau = n^2/((chi+D)^2 sigma)."""
    sigma = math.sqrt(m) * n**1.5 * rho / _reach(Constants(n, m, chi, D, delta, R, rho))
    norm = chi if m == 1 else chi + D
    return sigma, n**2 / (norm**2 * sigma)


def first_iteration(c: Constants) -> int:
    """The smallest T >= 1 with T >= 2 m n rho^2/sigma: where the square-root bound begins to hold."""
    sigma, _ = theorem_steps(*c)
    return max(1, math.ceil(2 * c.m * c.n * c.rho**2 / sigma))


def _rate(T: int, c: Constants) -> float:
    """(chi+D) R rho sqrt(1+2chi^2/delta^2)/((n/m)^(1/2) T), what both bounds are made of."""
    return _reach(c) * c.rho * math.sqrt(c.m / c.n) / T


def bound(loss_class: str, best: float, T: int, c: Constants) -> float:
    """What Theorem 1 says of the objective at theta_bar after T iterations; best is the minimum.

    'lipschitz':      best + 2 rate
    'sqrt-lipschitz': (1 + 2 rate)(best + rate), the factor being the proof's 1 + 2 m n rho^2/(T sigma);
                      inf (nothing is claimed) before T = first_iteration.
    """
    rate = _rate(T, c)
    if loss_class == "lipschitz":
        return best + 2 * rate
    if loss_class != "sqrt-lipschitz":
        raise ValueError(f"unknown loss class {loss_class!r}")
    if first_iteration(c) > T:
        return math.inf
    return (1 + 2 * rate) * (best + rate)


def printed_bound(best: float, T: int, c: Constants) -> float:
    """The square-root bound as the paper prints it, m^(1/2) n^(3/2) in the factor: NOT a true bound."""
    if first_iteration(c) > T:
        return math.inf
    factor = 1 + 2 * _reach(c) * c.rho / (math.sqrt(c.m) * c.n**1.5 * T)
    return factor * (best + _rate(T, c))
