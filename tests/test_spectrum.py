"""Both ends of the spectrum against closed forms, by the dense solver and by all branches of the sparse one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fdglm_fast import spectrum
from fdglm_fast.errors import DataError
from fdglm_fast.graph_bounds import graph_bounds, mohar_bound, ramanujan_gap
from fdglm_fast.network import Network, build_network


def closed_form(spec: str, m: int) -> tuple[float, float]:
    """(||L||, lambda_2) of the families whose spectrum is known."""
    pi = math.pi
    return {
        "complete": (m, m),
        "star": (m, 1.0),
        "ring": (4.0 if m % 2 == 0 else 2 + 2 * math.cos(pi / m), 4 * math.sin(pi / m) ** 2),
        "path": (4 * math.cos(pi / (2 * m)) ** 2, 4 * math.sin(pi / (2 * m)) ** 2),
        "hypercube": (2 * math.log2(m), 2.0),
    }[spec]


SIZES = [("complete", 3), ("star", 3), ("ring", 3), ("path", 3), ("hypercube", 4)] + [
    (spec, m) for spec in ("complete", "star", "ring", "path", "hypercube") for m in (16, 64, 256)
]


def check(spec: str, m: int, network: Network) -> None:
    norm, gap = closed_form(spec, m)
    assert network.laplacian_norm >= norm * (1 - 1e-9)
    assert network.laplacian_norm == pytest.approx(norm, rel=1e-9)
    assert network.spectral_gap == pytest.approx(gap, rel=1e-9)


@pytest.mark.parametrize(("spec", "m"), SIZES)
def test_dense(spec: str, m: int) -> None:
    check(spec, m, build_network(spec, m))


@pytest.mark.parametrize(("spec", "m"), SIZES[5:])
def test_sparse(spec: str, m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "DENSE_LIMIT", 0)
    check(spec, m, build_network(spec, m))


@pytest.mark.parametrize("spec", ["complete", "star", "ring", "path", "hypercube"])
def test_sparse_by_factorisation(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain Lanczos gives up at once, as it does on long graphs."""
    plain = spectrum._lanczos
    monkeypatch.setattr(spectrum, "DENSE_LIMIT", 0)
    monkeypatch.setattr(spectrum, "_patience", lambda laplacian: -1)
    monkeypatch.setattr(spectrum, "_lanczos", lambda *a, maxiter: None if maxiter < 0 else plain(*a, maxiter))
    check(spec, 64, build_network(spec, 64))


@pytest.mark.parametrize(("spec", "m"), [("path", 5000), ("ring", 3001), ("hypercube", 2048), ("star", 2000)])
def test_large(spec: str, m: int) -> None:
    network = build_network(spec, m)
    check(spec, m, network)
    assert network.diameter == (None if m > 2000 else 2)


@pytest.mark.parametrize("spec", ["er:0.05", "rgg:0.2", "regular:4", "lattice"])
@pytest.mark.parametrize("weights", ["unit", "metropolis"])
def test_sparse_agrees_with_dense(spec: str, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = build_network(spec, 240, seed=1, weights=weights)
    values = np.linalg.eigvalsh(network.laplacian().toarray())
    monkeypatch.setattr(spectrum, "DENSE_LIMIT", 0)
    assert values[-1] * (1 - 1e-9) <= network.laplacian_norm <= values[-1] * (1 + 1e-9)
    assert network.spectral_gap == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("dense", [True, False])
def test_the_laplacian_is_at_most_the_degrees_times_their_factor(dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """c Deg - L is positive semidefinite, and would not be with a c smaller by 1e-6; weights over nine decades."""
    if not dense:
        monkeypatch.setattr(spectrum, "DENSE_LIMIT", 0)
    rng = np.random.default_rng(3)
    for seed in range(60):
        family = ("er:0.3", "regular:4", "rgg:0.6", "star", "complete")[seed % 5]
        drawn = build_network(family, int(rng.integers(6, 30)), seed)
        network = Network(drawn.agents, drawn.edges, 10.0 ** rng.uniform(-seed / 12, seed / 12, len(drawn.edges)))
        L, c = network.laplacian().toarray(), network.degree_factor
        root = 1.0 / np.sqrt(np.diag(L))
        values = np.linalg.eigvalsh(root[:, np.newaxis] * (c * np.diag(np.diag(L)) - L) * root)
        assert -1e-14 <= values[0] <= 1e-6 and 1.0 < c <= 2.0
    assert Network(2, np.array([[0, 1]]), np.array([3.0])).degree_factor == 2.0


@pytest.mark.parametrize(("spec", "factor"), [("complete", 64 / 63), ("star", 2.0), ("ring", 2.0), ("hypercube", 2.0)])
def test_degree_factors_of_known_graphs(spec: str, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = build_network(spec, 64).degree_factor
    assert found >= factor and found == pytest.approx(factor, abs=2e-7)
    monkeypatch.setattr(spectrum, "DENSE_LIMIT", 0)
    assert build_network(spec, 64).degree_factor == found
    monkeypatch.setattr(spectrum, "_lanczos", lambda *a, maxiter: None)
    assert build_network(spec, 64).degree_factor == 2.0  # what holds for every graph


def test_degree_factor_without_edges_and_in_parts() -> None:
    assert build_network("complete", 1).degree_factor == 0.0
    parts = Network(5, np.array([[0, 1], [2, 3], [2, 4], [3, 4]]), np.ones(4))
    assert parts.degree_factor == 2.0  # of the pair; the triangle has 1.5


def test_the_answer_is_reproducible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "DENSE_LIMIT", 0)
    first, again = (build_network("complete", 40) for _ in range(2))  # invariant subspaces: restarts are drawn
    assert first.laplacian_norm == again.laplacian_norm and first.spectral_gap == again.spectral_gap


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_scale_of_the_weights(scale: float) -> None:
    path = build_network("path", 6)
    network = Network(6, path.edges, path.weights * scale)
    norm, gap = closed_form("path", 6)
    assert network.laplacian_norm == pytest.approx(norm * scale, rel=1e-12)
    assert network.spectral_gap == pytest.approx(gap * scale, rel=1e-9)


def test_a_weak_link_keeps_its_digits() -> None:
    """Two pairs joined by a link of weight e: lambda_2 = 1 + e - sqrt(1 + e^2) = e - e^2/2 + ..."""
    weak = 1e-8
    network = Network(4, np.array([[0, 1], [1, 2], [2, 3]]), np.array([1.0, weak, 1.0]))
    assert network.spectral_gap == pytest.approx(weak - weak**2 / 2, rel=1e-7)


def test_weights_too_far_apart_are_refused_but_the_norm_is_there() -> None:
    network = Network(4, np.array([[0, 1], [1, 2], [2, 3]]), np.array([1.0, 1e-30, 1.0]))
    assert network.laplacian_norm == pytest.approx(2.0)
    with pytest.raises(DataError, match="too far apart"):
        _ = network.spectral_gap


# --- the bounds of section 3 ---


@pytest.mark.parametrize(
    ("spec", "m"),
    [("complete", 8), ("star", 20), ("path", 60), ("ring", 31), ("er:0.2", 40), ("rgg", 50), ("lattice", 30)],
)
def test_bounds_hold(spec: str, m: int) -> None:
    network = build_network(spec, m)
    bounds = {bound.name: bound for bound in graph_bounds(network)}
    assert network.diameter is not None and network.spectral_gap is not None
    assert bounds["degree"].value == 2 * network.max_degree and bounds["degree"].holds
    delta = 2 * (network.diameter - 1 - math.log(m - 1)) / network.max_degree
    assert bounds["mohar"].value == pytest.approx(delta) and bounds["mohar"].holds
    assert bounds["mckay"].value == pytest.approx(m * network.diameter / 4) and bounds["mckay"].holds
    assert bounds["mckay"].exact == pytest.approx(1 / network.spectral_gap)


def test_ramanujan() -> None:
    complete = {bound.name: bound for bound in graph_bounds(build_network("complete", 10))}
    assert complete["ramanujan"].value == pytest.approx(9 - 2 * math.sqrt(8))
    assert complete["ramanujan"].holds
    # Two complete graphs of 20 with one edge of each exchanged: regular, and nowhere near an expander.
    edges = [(i, j) for side in (0, 20) for i in range(side, side + 20) for j in range(i + 1, side + 20)]
    edges = sorted((set(edges) - {(0, 1), (20, 21)}) | {(0, 20), (1, 21)})
    loose = Network(40, np.array(edges, dtype=np.int64), np.ones(len(edges)))
    assert loose.degrees.tolist() == [19] * 40
    ramanujan = graph_bounds(loose)[-1]
    assert ramanujan.value == pytest.approx(ramanujan_gap(19)) and ramanujan.holds is False


def test_bounds_that_do_not_apply() -> None:
    assert graph_bounds(build_network("star", 1)) == []
    weighted = {b.name: b for b in graph_bounds(build_network("star", 9, weights="metropolis"))}
    assert weighted["degree"].holds and weighted["degree"].value == pytest.approx(2 * 8 / 9)
    for name in ("mohar", "mckay", "ramanujan"):
        assert weighted[name].value is None and weighted[name].reason == "unit weights only"
    irregular = graph_bounds(build_network("star", 9))[-1]
    assert irregular.value is None and irregular.reason == "regular graphs only"
    large = {b.name: b for b in graph_bounds(build_network("star", 2001))}
    assert large["mckay"].value is None and large["mckay"].reason == "diameter not known"


def test_mohar_as_quoted_is_no_certificate() -> None:
    """The hypercube of 2^k vertices: diameter and degree k, ||L^+|| = 1/2."""
    assert mohar_bound(18, 2**18, 18) > 0.5
    assert mohar_bound(17, 2**17, 17) < 0.5
