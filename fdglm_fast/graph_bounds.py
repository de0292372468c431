"""What section 3 of the paper says about ||L|| and ||L^+|| without a spectrum, beside the exact values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fdglm_fast.network import Network

SLACK = 1e-9  # the exact values carry that much rounding


@dataclass(frozen=True)
class GraphBound:
    """One bound; `value` and `holds` (against `exact`) are None, with a `reason`, where it does not apply."""

    name: str
    statement: str
    value: float | None
    exact: float | None
    holds: bool | None
    reason: str | None = None


def degree_bound(max_weighted_degree: float) -> float:
    """||L|| <= 2 Delta, Delta the largest weighted degree."""
    return 2.0 * max_weighted_degree


def mohar_bound(diameter: int, m: int, max_degree: int) -> float:
    """||L^+|| >= 2 (diam - 1 - log(m - 1)) / Delta, as the paper quotes Mohar (1991, theorem 2.3).

    Not a certificate: the hypercube of 2^18 vertices has ||L^+|| = 1/2, and this gives 0.503.
    """
    return 2.0 * (diameter - 1.0 - math.log(m - 1)) / max_degree


def mckay_bound(diameter: int, m: int) -> float:
    """||L^+|| <= m diam / 4, that is lambda_2 >= 4 / (m diam)."""
    return m * diameter / 4.0


def ramanujan_gap(k: int) -> float:
    """lambda_2 >= k - 2 sqrt(k - 1) for a k-regular Ramanujan graph."""
    return k - 2.0 * math.sqrt(k - 1)


def graph_bounds(network: Network) -> list[GraphBound]:
    """The bounds of section 3 for a connected network of two agents or more; none for a single agent."""
    gap = network.spectral_gap
    if gap is None:
        return []
    norm, inverse = network.laplacian_norm, 1.0 / gap
    degree = degree_bound(float(network.weighted_degrees.max()))
    found = [GraphBound("degree", "||L|| <= 2 Delta", degree, norm, norm <= degree * (1 + SLACK))]
    found += _diameter_bounds(network, inverse)
    found.append(_ramanujan(network, gap))
    return found


def _diameter_bounds(network: Network, inverse: float) -> list[GraphBound]:
    names = ("mohar", "||L^+|| >= 2(diam-1-log(m-1))/Delta"), ("mckay", "||L^+|| <= m diam/4")
    reason = None
    if not network.unit_weights:
        reason = "unit weights only"
    elif network.diameter is None:
        reason = "diameter not known"
    if reason is not None or network.diameter is None:
        return [GraphBound(name, statement, None, inverse, None, reason) for name, statement in names]
    mohar = mohar_bound(network.diameter, network.agents, network.max_degree)
    mckay = mckay_bound(network.diameter, network.agents)
    return [
        GraphBound(*names[0], mohar, inverse, inverse * (1 + SLACK) >= mohar),
        GraphBound(*names[1], mckay, inverse, inverse <= mckay * (1 + SLACK)),
    ]


def _ramanujan(network: Network, gap: float) -> GraphBound:
    """Whether the gap is that of a Ramanujan graph; a graph that is not regular has no such number."""
    k = network.max_degree
    statement = "lambda_2 >= K - 2 sqrt(K-1)"
    if not network.unit_weights:
        return GraphBound("ramanujan", statement, None, gap, None, "unit weights only")
    if int(network.degrees.min()) != k:
        return GraphBound("ramanujan", statement, None, gap, None, "regular graphs only")
    value = ramanujan_gap(k)
    return GraphBound("ramanujan", statement, value, gap, gap * (1 + SLACK) >= value)
