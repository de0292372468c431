"""Graph files: edge lists and GraphML, what they may say, and every way in which they can be wrong."""

from __future__ import annotations

import time
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.network import Network, build_network


def read(folder: Path, text: str | bytes, m: int, weights: str = "file", name: str = "graph.txt") -> Network:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return build_network(f"file:{path}", m, weights=weights)


def graphml(body: str, default: str = "undirected", keys: str = "") -> str:
    key = keys or '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
    head = '<?xml version="1.0" encoding="UTF-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    return f'{head}\n{key}\n<graph edgedefault="{default}">\n{body}\n</graph>\n</graphml>'


def nodes(*names: str) -> str:
    return "".join(f'<node id="{name}"/>' for name in names)


# --- edge lists ---


def test_edge_list(tmp_path: Path) -> None:
    text = "# a triangle and a tail\n\n2 1 0.5\n0 1 2   # the first agent\n\t0 2 1e-3\n3 2 4\n"
    network = read(tmp_path, text, 4)
    assert network.edges.tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    assert network.weights.tolist() == [2.0, 1e-3, 0.5, 4.0]
    expected = np.zeros((4, 4))
    for i, j, w in [(2, 1, 0.5), (0, 1, 2.0), (0, 2, 1e-3), (3, 2, 4.0)]:
        expected[[i, j], [i, j]] += w
        expected[[i, j], [j, i]] -= w
    np.testing.assert_allclose(network.laplacian().toarray(), expected, rtol=1e-15)
    assert network.spec.startswith("file:") and network.seed is None


def test_weights_of_a_file_are_used_only_when_asked_for(tmp_path: Path) -> None:
    text = "0 1 5\n1 2 7\n"
    assert read(tmp_path, text, 3, "unit").weights.tolist() == [1.0, 1.0]
    assert read(tmp_path, text, 3, "metropolis").weights.tolist() == pytest.approx([1 / 3, 1 / 3])
    assert read(tmp_path, text, 3, "file").weights.tolist() == [5.0, 7.0]
    assert read(tmp_path, "0 1\n1 2 7", 3, "file").weights.tolist() == [1.0, 7.0]
    with pytest.raises(DataError, match="has no weights"):
        read(tmp_path, "0 1\n1 2\n", 3, "file")


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf0 1 2\r\n1 2 2\r\n", b"0 1 2 # \xff\xfe\n1 2 2", b"+0 01 2\n1 2 2"])
def test_harmless_variants(tmp_path: Path, text: bytes) -> None:
    assert read(tmp_path, text, 3).edges.tolist() == [[0, 1], [1, 2]]


def test_both_directions_with_one_weight_count_once(tmp_path: Path) -> None:
    network = read(tmp_path, "0 1 2\n1 0 2.0\n1 2 3\n", 3)
    assert network.edges.tolist() == [[0, 1], [1, 2]] and network.weights.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n0 1\n", "line 2: edge 0 1 is a duplicate of line 1"),
        ("1 2\n\n0 1 3\n# x\n0 1 3\n", "line 5: edge 0 1 is a duplicate of line 3"),
        ("0 1\n1 0\n0 1\n1 2\n", "line 3: edge 0 1 is a duplicate"),
        ("1 2\n0 1\n1 0\n1 0\n", "line 4: edge 1 0 is a duplicate"),
        ("0 1 2\n1 0 3\n", "line 2: edge 1 0 has weight 3, but line 1 gives it 2"),
        ("0 1 2\n1 0\n", "line 2: edge 1 0 has weight 1, but line 1 gives it 2"),
        ("0 1\n2 2\n", "line 2: vertex 2 is joined to itself"),
        ("0 1 0\n", "line 1: weight '0' is not a positive, finite number"),
        ("0 1 -2\n", "line 1: weight '-2' is not"),
        ("0 1 nan\n", "line 1: weight 'nan' is not"),
        ("0 1 inf\n", "line 1: weight 'inf' is not"),
        ("0 1 1e999\n", "line 1: weight '1e999' is not"),
        ("0 1 1_0\n", "line 1: weight '1_0' is not"),
        ("0 1 one\n", "line 1: weight 'one' is not"),
        ("0 1.0\n", "line 1: vertex '1.0' is not a whole number"),
        ("0 a\n", "line 1: vertex 'a' is not a whole number"),
        ("0 \u0663\n", "line 1: vertex .* is not a whole number"),
        ("0 -1\n", "line 1: vertex -1 is out of range, it must be from 0 to 2"),
        ("0 3\n", "line 1: vertex 3 is out of range"),
        ("0 1\n1 1000000000\n", "line 2: vertex 1000000000 is out of range"),
        ("0 " + "9" * 3000, "line 1: vertex 9999.* is out of range"),
        ("0\n", "line 1: expected 'i j'"),
        ("0 1 2 3\n", "line 1: expected 'i j'"),
        ("0,1\n", "line 1: expected 'i j'"),
        ("0 1\n" + "#" * 5000, "line 2: longer than 4096 bytes"),
        ("", "has no edges"),
        ("# nothing\n", "has no edges"),
        ("0 1 1e308\n1 2 1e308\n", "sum must be a finite number"),
    ],
)
def test_wrong_edge_lists(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, text, 3)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("weights", ["unit", "metropolis"])
def test_bad_weights_are_refused_even_where_they_are_not_used(tmp_path: Path, weights: str) -> None:
    with pytest.raises(DataError, match="line 1: weight '-1'"):
        read(tmp_path, "0 1 -1\n1 2 1\n", 3, weights)


def test_a_disconnected_file_names_its_components(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="disconnected") as caught:
        read(tmp_path, "0 1\n1 2\n2 3\n3 4\n4 5\n5 6\n7 8\n", 10, "unit")
    message = str(caught.value)
    assert "3 components, of 7 vertices (0, 1, 2, 3, 4, ...); 2 vertices (7, 8); 1 vertex (9)" in message
    assert "names no vertex above 8" in message
    with pytest.raises(DataError, match=r"10 components, of .* and 5 more\.$"):
        read(tmp_path, "".join(f"{2 * i} {2 * i + 1}\n" for i in range(10)), 20, "unit")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in [(tmp_path, "directory"), (tmp_path / "none", "No such file"), ("a\0b", "null byte")]:
        with pytest.raises(DataError, match=f"cannot be read: .*{reason}"):
            build_network(f"file:{path}", 3)


def test_names_are_printed_harmlessly(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, "0 \x1b[2J\n", 3, name="gra\x1b[31mph.txt")
    assert "\x1b" not in str(caught.value) and r"\x1b[31m" in str(caught.value)


def test_endless_lines_are_refused_quickly() -> None:
    started = time.perf_counter()
    with pytest.raises(DataError, match="longer than 4096 bytes"):
        build_network("file:/dev/zero", 3)
    assert time.perf_counter() - started < 1.0


def test_a_file_that_repeats_itself_is_not_read_to_its_end(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 3: edge 0 1 is a duplicate"):
        read(tmp_path, "0 1\n1 0\n" + "0 1\n" * 10 + "nonsense\n", 2, "unit")


def test_weights_of_a_file_need_a_file() -> None:
    with pytest.raises(UsageError):
        build_network("star", 3, weights="file")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=st.text(alphabet="0123 .-+e#x_\n\t\x00é", max_size=40) | st.binary(max_size=40))
def test_any_text_is_a_network_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, text: str | bytes) -> None:
    try:
        network = read(tmp_path_factory.getbasetemp(), text, 3, "unit", "any.txt")
    except DataError as error:
        assert str(error).isprintable() and str(error).endswith(".")
    else:
        assert network.is_connected


# --- GraphML ---


@pytest.mark.parametrize("weighted", [False, True])
def test_graphml_written_by_networkx(tmp_path: Path, weighted: bool) -> None:
    graph = nx.gnp_random_graph(12, 0.4, seed=3)
    assert nx.is_connected(graph)
    if weighted:
        for k, (i, j) in enumerate(graph.edges()):
            graph[i][j]["weight"] = 2 if k % 3 == 0 else 0.25 * (k + 1)  # networkx makes a key for each type
    order = list(reversed(range(12)))
    shuffled = nx.Graph()
    shuffled.add_nodes_from(order)
    shuffled.add_edges_from(graph.edges(data=True))
    nx.write_graphml(shuffled, tmp_path / "g.graphml")
    network = build_network(f"file:{tmp_path / 'g.graphml'}", 12, weights="file" if weighted else "unit")
    expected = nx.laplacian_matrix(graph, nodelist=range(12)).toarray()
    np.testing.assert_allclose(network.laplacian().toarray(), expected)


def test_graphml_ids_that_are_no_numbers_count_as_they_appear(tmp_path: Path) -> None:
    body = nodes("n2", "n0", "n1") + '<edge source="n0" target="n2"/><edge source="n0" target="n1"/>'
    assert read(tmp_path, graphml(body), 3, "unit", "g.GraphML").edges.tolist() == [[0, 1], [1, 2]]
    # whole numbers, but not 0 to m-1
    body = nodes("3", "1", "2") + '<edge source="1" target="3"/><edge source="1" target="2"/>'
    assert read(tmp_path, graphml(body), 3, "unit", "g.graphml").edges.tolist() == [[0, 1], [1, 2]]
    # 0 to m-1 in another order, edges before nodes
    body = '<edge source="2" target="1"/>' + nodes("2", "0", "1") + '<edge source="0" target="2"/>'
    assert read(tmp_path, graphml(body), 3, "unit", "g.graphml").edges.tolist() == [[0, 2], [1, 2]]


def test_graphml_weights(tmp_path: Path) -> None:
    keys = (
        '<key id="a" for="node" attr.name="weight"/><key id="b" for="edge" attr.name="length"/>'
        '<key id="c" for="edge" attr.name="weight"><default> 2.5 </default></key>'
    )
    body = (
        '<node id="0"><data key="a">9</data></node>'
        + nodes("1", "2")
        + '<edge source="0" target="1"><data key="b">7</data></edge>'
        + '<edge source="1" target="2"><data key="c">\n 4e0 </data></edge>'
    )
    network = read(tmp_path, graphml(body, keys=keys), 3, "file", "g.graphml")
    assert network.weights.tolist() == [2.5, 4.0]
    plain = nodes("0", "1") + '<edge source="0" target="1"/>'
    with pytest.raises(DataError, match="has no weights"):
        read(tmp_path, graphml(plain), 2, "file", "g.graphml")


def test_graphml_prefix_and_directions(tmp_path: Path) -> None:
    text = (
        '<g:graphml xmlns:g="http://graphml.graphdrawing.org/xmlns"><g:graph edgedefault="directed">'
        '<g:node id="0"/><g:node id="1"/><g:edge source="1" target="0" directed="false"/></g:graph></g:graphml>'
    )
    assert read(tmp_path, text, 2, "unit", "g.graphml").edges.tolist() == [[0, 1]]


EDGE = '<edge source="0" target="1"/>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (graphml(nodes("0", "1") + EDGE, "directed"), "line 4: a directed edge"),
        (graphml(nodes("0", "1") + EDGE.replace("/>", ' directed="true"/>')), "line 4: a directed edge"),
        (graphml(nodes("0", "1") + "<hyperedge/>"), "line 4: a hyperedge"),
        (graphml(nodes("0", "1", "2") + EDGE), "line 4: node '2' is one too many for 2 agents"),
        (graphml(nodes("0") + EDGE), "line 4: node '1' does not exist"),
        (graphml(nodes("0")), "has 1 nodes, but there are 2 agents"),
        (graphml(nodes("0", "0")), "line 4: node '0' is given twice"),
        (graphml("<node/>"), "line 4: a node without 'id'"),
        (graphml(nodes("0", "1") + '<edge source="0"/>'), "line 4: an edge without 'target'"),
        (graphml(nodes("0", "1") + '<edge source="0" target="0"/>'), "node '0' is joined to itself"),
        (graphml(nodes("0", "1") + EDGE + "\n" + EDGE), "line 5: edge 0 1 is a duplicate of line 4"),
        (graphml(nodes("0", "1") + EDGE * 3), "duplicate"),
        (graphml(nodes("0", "1")), "has no edges"),
        (graphml('<node id="0"><graph/></node>'), "a second graph"),
        (graphml(nodes("x" * 2000)), "an id longer than"),
        (graphml('<edge source="0" target="1"><data key="w">-1</data></edge>'), "weight '-1' is not"),
        (graphml('<edge source="0" target="1"><data key="w"></data></edge>'), "weight '' is not"),
        (graphml(f'<edge source="0" target="1"><data key="w">{"1" * 999}</data></edge>'), "a weight longer"),
        ("<html/>", "outermost element is 'html'"),
        ("<graphml>" + "<a>" * 100, "nested deeper"),
        ("<graphml><graph>", "line 1: not well-formed XML"),
        ("0 1\n", "line 1: not well-formed XML"),
        ("", "line 1: not well-formed XML"),
        ('<?xml version="1.0" encoding="none"?><graphml/>', "unknown encoding"),
        ("<graphml><node id='" + "x" * 3_000_000, "longer than 1048576 bytes"),
    ],
)
def test_wrong_graphml(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text, 2, "unit", "g.graphml")


def test_graphml_with_unequal_weights_in_both_directions(tmp_path: Path) -> None:
    body = nodes("0", "1") + "".join(
        f'<edge source="{i}" target="{j}"><data key="w">{w}</data></edge>\n' for i, j, w in [(0, 1, 2), (1, 0, 3)]
    )
    with pytest.raises(DataError, match="line 5: edge 1 0 has weight 3, but line 4 gives it 2"):
        read(tmp_path, graphml(body), 2, "file", "g.graphml")
    assert read(tmp_path, graphml(body.replace(">3<", ">2<")), 2, "file", "g.graphml").weights.tolist() == [2.0]


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;">]>',
        '<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE g SYSTEM "http://localhost:1/x.dtd">',
        "<!DOCTYPE g>",
    ],
)
def test_a_document_type_is_refused(tmp_path: Path, doctype: str) -> None:
    with pytest.raises(DataError, match="document type declaration"):
        read(tmp_path, f'{doctype}<graphml><graph><node id="&c;"/></graph></graphml>', 2, "unit", "g.graphml")
