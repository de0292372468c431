"""The losses, pointwise and compiled: value, slope, curvature, conjugate, and the dual step of agent 1.

Every function takes the loss's code and parameter k (the K of huber, the Q of quantile, else unused). Binary
responses are y = -1 or +1. Nothing here raises or allocates, and a NaN that enters the dual step leaves it,
so that a broken run shows. All run as plain Python too, on anything with arithmetic and comparisons.

    squared        (z - y)^2 / 2                    logistic       log(1 + exp(-y z))
    huber(k)       e^2/2, |e| <= k;                 hinge          max(0, 1 - y z)
                   k|e| - k^2/2, |e| > k (e = z-y)  squared-hinge  max(0, 1 - y z)^2
    absolute       |z - y|                          poisson        exp(z) - y z
    quantile(q)    q max(y-z, 0) + (1-q) max(z-y, 0)
"""

from __future__ import annotations

import math

from fdglm_fast.kernels._jit import scalar
from fdglm_fast.losses import ABSOLUTE, HINGE, HUBER, LOGISTIC, QUANTILE, SQUARED, SQUARED_HINGE

EXP_LIMIT = 709.0  # exp beyond it overflows, which plain Python answers with an exception
SLACK = 1e-12  # how far rounding may carry a dual variable out of the conjugate's domain
# Both Newton iterations below have |f''| <= |f'|: an error e becomes at most e^2/2, so after a step of this
# size the error is below 1e-16 and no further evaluation is needed.
LAST_STEP = 1e-8


@scalar
def _clip(x: float, low: float, high: float) -> float:
    if x < low:
        return low
    if x > high:
        return high
    return x


@scalar
def _exp(x: float) -> float:
    return math.inf if x > EXP_LIMIT else math.exp(x)


@scalar
def _sigmoid_of_minus(t: float) -> float:
    """1/(1 + exp(t)), with the exponential on the side where it cannot overflow."""
    if t > 0.0:
        e = math.exp(-t)
        return e / (1.0 + e)
    return 1.0 / (1.0 + math.exp(t))


@scalar
def value(code: int, k: float, z: float, y: float) -> float:
    """loss(z, y)."""
    if code == SQUARED:
        return 0.5 * (z - y) * (z - y)
    if code == HUBER:
        e = z - y if z > y else y - z
        return k * (e - 0.5 * k) if e > k else 0.5 * e * e
    if code == ABSOLUTE:
        return z - y if z > y else y - z
    if code == QUANTILE:
        return (1.0 - k) * (z - y) if z > y else k * (y - z)
    if code == LOGISTIC:
        t = y * z
        return math.log1p(math.exp(-t)) if t > 0.0 else math.log1p(math.exp(t)) - t
    if code in (HINGE, SQUARED_HINGE):
        gap = 1.0 - y * z
        if gap <= 0.0:
            return 0.0
        return gap if code == HINGE else gap * gap
    return _exp(z) - y * z


@scalar
def slope(code: int, k: float, z: float, y: float) -> float:
    """loss'(z, y); at a kink the subgradient 0, which all losses with kinks have there."""
    if code == SQUARED:
        return z - y
    if code == HUBER:
        return _clip(z - y, -k, k)
    if code in (ABSOLUTE, QUANTILE):
        e = z - y
        if e > 0.0:
            return 1.0 if code == ABSOLUTE else 1.0 - k
        if e < 0.0:
            return -1.0 if code == ABSOLUTE else -k
        return e
    if code == LOGISTIC:
        return -y * _sigmoid_of_minus(y * z)
    if code in (HINGE, SQUARED_HINGE):
        gap = 1.0 - y * z
        if gap <= 0.0:
            return 0.0
        return -y if code == HINGE else -2.0 * y * gap
    return _exp(z) - y


@scalar
def curvature(code: int, k: float, z: float, y: float) -> float:
    """loss''(z, y), and 0 where there is none."""
    if code == SQUARED:
        return 1.0
    if code == HUBER:
        e = z - y
        return 1.0 if -k < e and e < k else 0.0
    if code == LOGISTIC:
        q = _sigmoid_of_minus(y * z)
        return q * _sigmoid_of_minus(-y * z)
    if code == SQUARED_HINGE:
        return 2.0 if y * z < 1.0 else 0.0
    if code in (ABSOLUTE, QUANTILE, HINGE):
        return 0.0
    return _exp(z)


@scalar
def _into(x: float, low: float, high: float) -> float:
    """x where it lies in [low, high], the nearer end where it is out by no more than the slack, else NaN."""
    if x < low - SLACK * max(1.0, abs(low)) or x > high + SLACK * max(1.0, abs(high)):
        return math.nan
    return _clip(x, low, high)


@scalar
def _x_log_x(x: float) -> float:
    return x * math.log(x) if x > 0.0 else 0.0


@scalar
def _conjugate_inside(code: int, lam: float, y: float) -> float:
    """loss*(lam, y) for a lam in the domain."""
    if code in (SQUARED, HUBER):
        return lam * (0.5 * lam + y)
    if code == LOGISTIC:
        q = -y * lam
        return _x_log_x(q) + ((1.0 - q) * math.log1p(-q) if q < 1.0 else 0.0)
    if code == SQUARED_HINGE:
        return lam * (0.25 * lam + y)
    if code in (ABSOLUTE, QUANTILE, HINGE):
        return lam * y
    return _x_log_x(lam + y) - (lam + y)


@scalar
def conjugate(code: int, k: float, lam: float, y: float) -> float:
    """loss*(lam, y) = sup_z lam z - loss(z, y), infinite outside its domain.

    squared  lam^2/2 + lam y          huber     the same for |lam| <= k       absolute  lam y for |lam| <= 1
    quantile lam y for -q <= lam <= 1-q         hinge  y lam for -1 <= y lam <= 0
    logistic q log q + (1-q) log(1-q) for q = -y lam in [0, 1]   squared-hinge  y lam + lam^2/4 for y lam <= 0
    poisson  (lam+y) log(lam+y) - (lam+y) for lam >= -y
    """
    if lam != lam or y != y:
        return lam + y
    low, high = -math.inf, math.inf
    if code == HUBER:
        low, high = -k, k
    elif code == ABSOLUTE:
        low, high = -1.0, 1.0
    elif code == QUANTILE:
        low, high = -k, 1.0 - k
    elif code in (LOGISTIC, HINGE):
        low, high = (-1.0, 0.0) if y > 0.0 else (0.0, 1.0)
    elif code == SQUARED_HINGE:
        low, high = (-math.inf, 0.0) if y > 0.0 else (0.0, math.inf)
    elif code != SQUARED:
        low = -y
    inside = _into(lam, low, high)
    return math.inf if inside != inside else _conjugate_inside(code, inside, y)


@scalar
def dual_step(code: int, k: float, a: float, s: float, y: float) -> float:
    """prox_{s loss*}(a) = argmin_lam loss*(lam) + (lam - a)^2/(2 s), for s > 0.

    By Moreau's identity it is a - s z = loss'(z) with z = prox_{loss/s}(a/s).
    """
    if code == SQUARED:
        return (a - s * y) / (1.0 + s)
    if code == HUBER:
        return _clip((a - s * y) / (1.0 + s), -k, k)
    if code == ABSOLUTE:
        return _clip(a - s * y, -1.0, 1.0)
    if code == QUANTILE:
        return _clip(a - s * y, -k, 1.0 - k)
    if code == LOGISTIC:
        return _logistic_step(a, s, y)
    # The hinges in p = y lam <= 0, where loss* is p (p >= -1) or p + p^2/4: y^2 = 1 turns the step around y.
    if code == HINGE:
        return y * _clip(y * a - s, -1.0, 0.0)
    if code == SQUARED_HINGE:
        p = (y * a - s) / (1.0 + 0.5 * s)
        return y * p if p <= 0.0 or p != p else 0.0
    return _poisson_step(a, s, y)


@scalar
def _logistic_root(c: float, t0: float, s: float) -> float:
    """The w >= 0 with s w - q(t0 + w) - c = 0, q(t) = 1/(1 + exp(t)), for -1/2 <= c <= 0 <= t0.

    s w <= q(t0 + w) <= exp(-w) gives w exp(w) <= 1/s, and hence 0 <= w <= log(1 + 1/s): a bracket that stays
    short where [b/s, (b+1)/s] is 1e8 long. The function is increasing and concave, so Newton's method from
    the left end never passes the root; where it crawls (s near 0) or rounding misleads, bisection steps in.
    """
    w, low, high = 0.0, 0.0, math.log1p(1.0 / s)
    last = high
    for _ in range(100):
        e = math.exp(-(t0 + w))
        q = e / (1.0 + e)
        f = s * w - q - c
        if f < 0.0:
            low = w
        else:
            high = w
        step = -f / (s + q / (1.0 + e))  # q' = -q (1 - q) = -q/(1 + e)
        size = step if step > 0.0 else -step
        if size <= LAST_STEP:
            return w + step
        if w + step < low or w + step > high or 2.0 * size > last:
            last = 0.5 * (high - low)
            w = low + last
        else:
            last = size
            w = w + step
    return w


@scalar
def _logistic_step(a: float, s: float, y: float) -> float:
    """The dual step of the logistic loss: lam = -y q(t), where t = y z solves s t - q(t) - y a = 0.

    q(-t) = 1 - q(t) mirrors the equation onto itself with b = y a turned into -1 - b, so b >= -1/2 and t >= 0
    may be assumed, where exp(-t) cannot overflow. A positive b is taken out by t = b/s + w, because s t - b
    would cancel: the rest, w, is all that has to be found.
    """
    b = y * a
    mirrored = b < -0.5
    if mirrored:
        b = -1.0 - b
    t0 = b / s if b > 0.0 else 0.0
    c = 0.0 if b > 0.0 else b
    e = math.exp(-(t0 + _logistic_root(c, t0, s)))
    return -y / (1.0 + e) if mirrored else -y * e / (1.0 + e)


@scalar
def _lambert(level: float) -> float:
    """The x with x + exp(x) = level.

    g(x) = x + exp(x) - level is increasing and convex, so each tangent lies below g and its zero to the right
    of the root: started on the right, Newton's method walks down to the root and never passes it. `level` is
    on the right if level <= 1, since g(level) = exp(level) > 0, and beyond 1 so is log(level), since there
    g(log(level)) = log(level) > 0. Below -40 and above 1e18 that start is the root to the last bit, and
    going on would only risk infinities.
    """
    x = math.log(level) if level > 1.0 else level
    if level < -40.0 or level > 1e18:
        return x
    for _ in range(50):
        e = math.exp(x)
        step = (x + e - level) / (1.0 + e)
        x = x - step
        if not step > LAST_STEP:
            return x
    return x


@scalar
def _poisson_step(a: float, s: float, y: float) -> float:
    """The dual step of the Poisson loss: lam = exp(z) - y with exp(z) + s z = a + y.

    exp(z) = s u makes that log u + u = level = (a + y)/s - log s, and lam = s u - y = a - s (log u + log s).
    """
    log_s = math.log(s)
    level = (a + y) / s - log_s
    x = _lambert(level)
    u = level - x if level > 1.0 and level < math.inf else math.exp(x)
    lam = s * u - y
    if u > 1.0 and 2.0 * lam < y and 2.0 * lam > -y:
        return a - s * (x + log_s)  # s u and y cancel, and s z is the small number of the two
    return lam
