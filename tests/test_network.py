"""Networks: the families against networkx, weights, Laplacians, connectivity, and the rules of drawing again."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdglm_fast import graphs
from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.graph_spec import parse_spec
from fdglm_fast.network import Network, build_network

FAMILIES = [
    ("complete", 9),
    ("star", 9),
    ("er:0.3", 24),
    ("lattice", 12),
    ("lattice", 36),
    ("lattice", 7),
    ("rgg", 40),
    ("rgg:0.45", 20),
    ("ring", 9),
    ("ring", 2),
    ("path", 8),
    ("regular:3", 14),
    ("regular:9", 12),
    ("hypercube", 16),
]


def as_networkx(network: Network) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(network.agents))
    for (i, j), w in zip(network.edges.tolist(), network.weights.tolist(), strict=True):
        graph.add_edge(i, j, weight=w)
    return graph


def edge_set(graph: nx.Graph) -> set[tuple[int, int]]:
    return {(min(e), max(e)) for e in graph.edges()}


def explicit_laplacian(network: Network) -> np.ndarray:
    """L entry by entry, from the definition."""
    L = np.zeros((network.agents, network.agents))
    for (i, j), w in zip(network.edges.tolist(), network.weights.tolist(), strict=True):
        L[i, i] += w
        L[j, j] += w
        L[i, j] -= w
        L[j, i] -= w
    return L


# --- families ---


@pytest.mark.parametrize(("spec", "m"), FAMILIES)
@pytest.mark.parametrize("weights", ["unit", "metropolis"])
def test_family_agrees_with_networkx(spec: str, m: int, weights: str) -> None:
    network = build_network(spec, m, seed=5, weights=weights)
    graph = as_networkx(network)
    assert network.agents == graph.number_of_nodes() == m
    assert network.degrees.tolist() == [graph.degree(v) for v in range(m)]
    assert network.degrees.dtype == np.int64
    np.testing.assert_allclose(network.weighted_degrees, [graph.degree(v, weight="weight") for v in range(m)])
    assert network.is_connected and nx.is_connected(graph)
    assert network.diameter == nx.diameter(graph)
    spectrum = np.sort(nx.laplacian_spectrum(graph))
    assert network.laplacian_norm == pytest.approx(spectrum[-1], rel=1e-10)
    assert network.spectral_gap == pytest.approx(spectrum[1], rel=1e-9)
    assert network.max_degree == max(dict(graph.degree()).values())


@pytest.mark.parametrize(("spec", "m"), FAMILIES)
def test_edges_are_in_lexicographic_order(spec: str, m: int) -> None:
    edges = build_network(spec, m, seed=5).edges
    pairs = [tuple(e) for e in edges.tolist()]
    assert edges.dtype == np.int64
    assert all(i < j for i, j in pairs)
    assert pairs == sorted(set(pairs))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("complete", nx.complete_graph(16)),
        ("star", nx.star_graph(15)),
        ("ring", nx.cycle_graph(16)),
        ("path", nx.path_graph(16)),
    ],
)
def test_fixed_families_are_those_of_networkx(spec: str, expected: nx.Graph) -> None:
    assert edge_set(as_networkx(build_network(spec, 16))) == edge_set(expected)


def test_hypercube_joins_numbers_that_differ_in_one_bit() -> None:
    expected = {(i, j) for i in range(32) for j in range(i + 1, 32) if (i ^ j).bit_count() == 1}
    assert edge_set(as_networkx(build_network("hypercube", 32))) == expected


@pytest.mark.parametrize(("m", "shape"), [(12, (3, 4)), (36, (6, 6)), (7, (1, 7)), (30, (5, 6)), (2, (1, 2))])
def test_lattice(m: int, shape: tuple[int, int]) -> None:
    rows, columns = shape
    assert graphs.lattice_shape(m) == shape
    network = build_network("lattice", m)
    points = [(r, c) for r in range(rows) for c in range(columns)]
    centre = ((rows - 1) // 2, (columns - 1) // 2)
    order = [centre] + [point for point in points if point != centre]
    expected = {
        (i, j)
        for i in range(m)
        for j in range(i + 1, m)
        if max(abs(order[i][0] - order[j][0]), abs(order[i][1] - order[j][1])) == 1
    }
    assert edge_set(as_networkx(network)) == expected
    assert network.positions is not None
    drawn = [(rows - 1 - y, x) for x, y in network.positions.tolist()]
    assert drawn == order


def test_rgg_joins_what_is_nearer_than_the_radius() -> None:
    network = build_network("rgg:0.4", 30, seed=2)
    assert network.positions is not None
    p = network.positions
    assert p.min() >= 0 and p.max() <= 1
    expected = {(i, j) for i in range(30) for j in range(i + 1, 30) if math.dist(p[i], p[j]) < 0.4}
    assert edge_set(as_networkx(network)) == expected
    reference = nx.random_geometric_graph(30, 0.4, pos={v: tuple(p[v]) for v in range(30)})
    assert edge_set(as_networkx(network)) == edge_set(reference)


def test_rgg_distance_equal_to_the_radius_is_no_edge() -> None:
    class Corners:
        def random(self, shape: tuple[int, int]) -> np.ndarray:
            return np.array([[0.0, 0.0], [0.5, 0.0], [0.5, 0.25]])

    edges, _ = graphs.random_geometric(3, 0.5, Corners())  # type: ignore[arg-type]
    assert edges.tolist() == [[1, 2]]


def test_rgg_with_a_huge_radius_is_complete() -> None:
    assert len(build_network("rgg:1e308", 12).edges) == 66


@pytest.mark.parametrize("p", [0.05, 0.5, 0.93])
def test_er_has_each_pair_with_probability_p(p: float) -> None:
    rng = np.random.default_rng(3)
    m, draws = 20, 400
    count = np.zeros((m, m))
    for _ in range(draws):
        edges = graphs.erdos_renyi(m, p, rng)
        count[edges[:, 0], edges[:, 1]] += 1
    frequency = count[np.triu_indices(m, 1)] / draws
    # 190 pairs: five standard deviations for the worst one, and for the mean of all.
    assert np.abs(frequency - p).max() < 5 * math.sqrt(p * (1 - p) / draws)
    assert abs(frequency.mean() - p) < 5 * math.sqrt(p * (1 - p) / draws / 190)


def test_er_extremes() -> None:
    rng = np.random.default_rng(0)
    assert len(graphs.erdos_renyi(30, 1.0, rng)) == 435
    assert len(graphs.erdos_renyi(30, 1e-300, rng)) == 0
    assert len(graphs.erdos_renyi(30, 5e-324, rng)) == 0
    assert len(graphs.erdos_renyi(30, math.nextafter(1.0, 0.0), rng)) == 435


@pytest.mark.parametrize(("m", "k"), [(10, 3), (11, 6), (10, 9), (10, 8), (2, 1)])
def test_regular_degrees(m: int, k: int) -> None:
    assert build_network(f"regular:{k}", m).degrees.tolist() == [k] * m


# --- seeds and attempts ---


@pytest.mark.parametrize("spec", ["er:0.3", "rgg:0.5", "regular:3"])
def test_seed_decides_the_graph(spec: str) -> None:
    first, again, other = (build_network(spec, 20, seed=s) for s in (4, 4, 5))
    assert first.edges.tolist() == again.edges.tolist()
    assert first.edges.tolist() != other.edges.tolist()
    assert first.seed == 4


def test_disconnected_draws_are_repeated_and_counted() -> None:
    m, p = 16, 0.14
    attempts = set()
    for seed in range(12):
        network = build_network(f"er:{p}", m, seed=seed)
        attempts.add(network.attempt)
        for attempt in range(network.attempt + 1):
            rng = np.random.default_rng(np.random.SeedSequence([seed, attempt]))
            edges = graphs.erdos_renyi(m, p, rng)
            graph = nx.Graph(edges.tolist())
            graph.add_nodes_from(range(m))
            assert nx.is_connected(graph) == (attempt == network.attempt)
        assert edges.tolist() == network.edges.tolist()
    assert len(attempts) > 2


def test_fixed_families_have_no_seed() -> None:
    network = build_network("ring", 6, seed=9)
    assert network.seed is None and network.attempt == 0


@pytest.mark.parametrize(
    ("spec", "remedy"), [("er:0.001", "probability"), ("rgg:0.01", "radius"), ("regular:1", "neighbours")]
)
def test_hopeless_graphs_say_what_to_change(spec: str, remedy: str) -> None:
    with pytest.raises(DataError, match=f"disconnected in all 100 draws for 30 agents.*{remedy}"):
        build_network(spec, 30)


# --- wrong specifications ---


@pytest.mark.parametrize(
    ("spec", "m", "message"),
    [
        ("compleet", 4, "did you mean 'complete'"),
        ("zzz", 4, "known: complete"),
        ("complete:3", 4, "takes no parameter"),
        ("star:", 4, "takes no parameter"),
        ("er", 4, "needs a probability"),
        ("er:", 4, "needs a probability"),
        ("er:0", 4, "needs a probability"),
        ("er:1.1", 4, "needs a probability"),
        ("er:nan", 4, "needs a probability"),
        ("er:0_1", 4, "needs a probability"),
        ("rgg:-1", 4, "needs a positive radius"),
        ("rgg:inf", 4, "needs a positive radius"),
        ("regular", 4, "needs a whole number"),
        ("regular:2.5", 4, "needs a whole number"),
        ("regular:0", 4, "needs a whole number"),
        ("regular:inf", 4, "needs a whole number"),
        ("regular:4", 4, "no graph of 4 agents has 4 neighbours"),
        ("regular:3", 5, "no graph of 5 agents has 3 neighbours"),
        ("hypercube", 12, "power of two"),
        ("file", 4, "needs a path"),
        ("file:", 4, "needs a path"),
        ("complete", 1_000_000, "more than the limit"),
        ("er:0.9", 1_000_000, "more than the limit"),
        ("rgg:0.9", 1_000_000, "more than the limit"),
        ("regular:1000", 100_000, "more than the limit"),
        ("ring", 10**12, "number of agents must be"),
        ("ring", 0, "number of agents must be"),
    ],
)
def test_wrong_specifications(spec: str, m: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_network(spec, m)


def test_wrong_seed_and_weights() -> None:
    with pytest.raises(UsageError, match="seed"):
        build_network("ring", 4, seed=-1)
    with pytest.raises(UsageError, match="did you mean 'metropolis'"):
        build_network("ring", 4, weights="metropolos")
    with pytest.raises(UsageError, match="need a graph from a file"):
        build_network("ring", 4, weights="file")


def test_control_characters_are_escaped() -> None:
    with pytest.raises(UsageError) as caught:
        build_network("\x1b[31mring", 4)
    assert "\x1b" not in str(caught.value)


def test_defaults_of_specifications() -> None:
    assert parse_spec("rgg").parameter == 0.3
    assert parse_spec("file:a:b.txt").path == "a:b.txt"


# --- one agent ---


@pytest.mark.parametrize("spec", ["complete", "hypercube", "file:/nowhere"])
def test_one_agent_has_no_network(spec: str) -> None:
    network = build_network(spec, 1)
    assert network.edges.shape == (0, 2) and network.weights.shape == (0,)
    assert network.laplacian_norm == 0.0 and network.spectral_gap is None
    assert network.diameter == 0 and network.is_connected and network.max_degree == 0
    assert network.laplacian().toarray().tolist() == [[0.0]]


# --- weights and matrices ---


def test_metropolis_weights() -> None:
    network = build_network("star", 5, weights="metropolis")
    assert network.weights.tolist() == [0.2] * 4
    assert not network.unit_weights and build_network("star", 5).unit_weights
    path = build_network("path", 4, weights="metropolis")
    np.testing.assert_allclose(path.weights, [1 / 3, 1 / 3, 1 / 3])
    # I - L is doubly stochastic and non-negative: the point of these weights.
    mixing = np.eye(24) - build_network("er:0.3", 24, weights="metropolis").laplacian().toarray()
    assert mixing.min() >= 0 and np.allclose(mixing.sum(axis=1), 1)


@st.composite
def weighted_networks(draw: st.DrawFn) -> Network:
    m = draw(st.integers(2, 9))
    pairs = [(i, j) for i in range(m) for j in range(i + 1, m)]
    chosen = sorted(draw(st.sets(st.sampled_from(pairs), min_size=1)))
    weights = draw(st.lists(st.floats(1e-3, 1e3), min_size=len(chosen), max_size=len(chosen)))
    return Network(m, np.array(chosen, dtype=np.int64), np.array(weights))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(weighted_networks())
def test_laplacian_properties(network: Network) -> None:
    L = network.laplacian().toarray()
    np.testing.assert_allclose(L, explicit_laplacian(network), rtol=1e-14, atol=0)
    assert np.array_equal(L, L.T)
    scale = np.abs(L).max()
    assert np.abs(L.sum(axis=1)).max() <= 1e-14 * scale
    values = np.linalg.eigvalsh(L)
    assert values[0] >= -1e-13 * scale
    assert network.laplacian_norm == pytest.approx(values[-1], rel=1e-10)
    graph = as_networkx(network)
    assert network.is_connected == nx.is_connected(graph)
    assert sorted(map(len, network.components())) == sorted(map(len, nx.connected_components(graph)))
    assert {frozenset(c.tolist()) for c in network.components()} == {
        frozenset(c) for c in nx.connected_components(graph)
    }
    if network.is_connected:
        assert network.spectral_gap == pytest.approx(values[1], rel=1e-6)
        assert network.diameter == nx.diameter(graph)
    else:
        assert network.spectral_gap == 0.0 and network.diameter is None
    A = network.adjacency()
    assert A.has_sorted_indices and np.array_equal(A.toarray(), np.diag(np.diag(L)) - L)


@pytest.mark.parametrize(
    ("m", "edges", "weights", "message"),
    [
        (3, [[0, 1], [1, 3]], [1.0, 1.0], "from 0 to 2"),
        (3, [[1, 0]], [1.0], "from 0 to 2"),
        (3, [[1, 2], [0, 1]], [1.0, 1.0], "lexicographic"),
        (3, [[0, 1], [0, 1]], [1.0, 1.0], "lexicographic"),
        (3, [[0, 1]], [1.0, 1.0], "one float64 weight"),
        (3, [[0, 1]], [0.0], "positive"),
        (3, [[0, 1]], [math.nan], "positive"),
        (3, [[0, 1], [1, 2]], [1.7e308, 1.7e308], "finite"),
        (0, [[0, 1]], [1.0], "one agent or more"),
    ],
)
def test_networks_are_checked(m: int, edges: list[list[int]], weights: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Network(m, np.array(edges, dtype=np.int64), np.array(weights))
