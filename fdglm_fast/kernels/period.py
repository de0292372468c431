"""What the fast method decides at a look and at a restart, on the numbers of a period (see `fdglm_fast.halpern`).

The kernels ask these functions, so that a call of theirs may run for as many iterations as it likes; the numbers are
one small array, which a checkpoint carries.
"""

from __future__ import annotations

import math
from typing import Any

from fdglm_fast.kernels._jit import scalar

CHECK = 10  # iterations between looks at r
ENOUGH, SOME, LONG = 0.2, 0.5, 0.36  # of r_0; of r_0 when r rises; of all iterations
TRIAL = 20  # iterations of a period from which on it says how good its way is
RISE = 4.0  # times r_0: so far r rises by rounding, which both ways may amplify, or where the weight is far off
PATIENCE = 2  # periods in a row without enough progress, after which the other way is tried again
SHARE = 0.25  # of the way to the weight that balances distances, in the logarithm
CHANGE = 1.2  # the most that a restart changes the weight by, as a factor; distances are too noisy for more,
FAR, LEAP = 10.0, 3.0  # unless the weight is off by more than FAR: then it may change by LEAP

# The numbers of a period, in the order of `fdglm_fast.halpern.Period`, which says what they are.
K, DUE, FIRST, LAST, W, LOOKS, RESTARTS = range(7)
ANCHORED, RELAXED_RATE, ANCHORED_RATE, BEGIN, SLOW, ITERATIONS, PLAIN = range(7, 14)


@scalar
def look(period: Any, k: int, r: float, floor: float) -> None:
    """Take note of r before the iteration k after the anchor, and decide whether a restart is due.

    Below `floor` times the first r of all, r is rounding, and says nothing.
    """
    period[LOOKS] += 1
    if period[BEGIN] == 0.0:
        period[BEGIN] = r
    if k == 0:
        period[FIRST] = period[LAST] = r
        return
    first, last = period[FIRST], period[LAST]
    enough = (r <= ENOUGH * first or (r <= SOME * first and r > last)) and r > floor * period[BEGIN]
    risen = k >= TRIAL and r > RISE * first
    period[DUE] = k >= LONG * period[ITERATIONS] or (period[PLAIN] == 0 and (enough or risen))
    period[LAST] = r


@scalar
def is_trusted(period: Any, floor: float) -> bool:
    """Whether the last r was more than rounding."""
    return bool(period[LAST] > floor * period[BEGIN])


@scalar
def restart(period: Any, trusted: bool) -> None:
    """Begin a new period, on the way that has been the better one; on neither where r has risen far."""
    plain = period[PLAIN] > 0
    period[PLAIN] = not plain and period[K] > TRIAL and period[LAST] > RISE * period[FIRST]
    if period[K] > TRIAL and trusted and not plain:
        rate = math.log(period[FIRST] / period[LAST]) / period[K]
        anchored = period[ANCHORED] > 0
        period[ANCHORED_RATE if anchored else RELAXED_RATE] = rate
        other = period[RELAXED_RATE if anchored else ANCHORED_RATE]
        period[SLOW] = period[SLOW] + 1 if period[LAST] > ENOUGH * period[FIRST] else 0.0
        if other > rate or period[SLOW] >= PATIENCE:
            period[ANCHORED], period[SLOW] = not anchored, 0.0
    period[K], period[DUE] = 0.0, 0.0
    period[RESTARTS] += 1


@scalar
def next_weight(w: float, primal: float, dual: float) -> float:
    """`SHARE` of the way, in the logarithm, to the weight that makes both squared distances equal, sqrt(dual/primal).

    Displacements are a guess: in a period that was too short to get anywhere they only say which side moved faster,
    and a weight that follows them blindly runs away. They also tend to confirm a weight that is wrong, so that the
    first one matters (see `local_steps`).
    """
    if not (primal > 0.0 and dual > 0.0 and math.isfinite(primal) and math.isfinite(dual)):
        return w
    away = 0.5 * (math.log(dual) - math.log(primal)) - math.log(w)
    most = LEAP if abs(away) > math.log(FAR) else CHANGE
    return w * min(max(math.exp(SHARE * away), 1.0 / most), most)
