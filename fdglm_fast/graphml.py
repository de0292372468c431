"""GraphML, read with expat as a stream: undirected, one graph, weights from the key called 'weight'.

The file is not trusted. A document type declaration is refused, so no entity is ever expanded or fetched; no
more nodes are kept than there are agents; nesting, tags and texts have a greatest length.
"""

from __future__ import annotations

from typing import BinaryIO, NoReturn
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from fdglm_fast.errors import DataError
from fdglm_fast.files import printable
from fdglm_fast.graph_file import EdgeCollector, parse_weight

CHUNK = 1 << 16
MAX_TOKEN = 1 << 20  # bytes of one tag that expat may hold back
MAX_DEPTH = 32
MAX_ID = 1000
MAX_KEYS = 100
MAX_TEXT = 256  # characters of a weight

Attributes = dict[str, str]


def read_graphml(stream: BinaryIO, collector: EdgeCollector) -> None:
    """Feed the edges of a GraphML stream to the collector.

    Node ids that are the whole numbers 0 to m - 1 are the vertices themselves; any others are numbered in the
    order of their node elements.
    """
    reader = _Reader(collector)
    parser = reader.parser
    fed = 0
    try:
        while chunk := stream.read(CHUNK):
            parser.Parse(chunk, False)
            fed += len(chunk)
            if fed - max(parser.CurrentByteIndex, 0) > MAX_TOKEN:
                reader.fail(f"an element longer than {MAX_TOKEN} bytes")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise collector.fault(error.lineno, f"not well-formed XML ({expat.ErrorString(error.code)})") from error
    collector.relabel(reader.vertices())


class _Reader:
    """The state of one pass over the file: the ids met so far, and the element being read."""

    def __init__(self, collector: EdgeCollector) -> None:
        self.collector = collector
        self.open_tags: list[str] = []
        self.numbers: dict[str, int] = {}  # every id, numbered as first met in a node or an edge
        self.nodes: dict[str, None] = {}  # the ids of node elements in their order
        self.graph_seen = False
        self.directed = "false"
        self.weight_keys: set[str] = set()  # more than one where the weights are of several types
        self.reading_weight_key = False
        self.default_weight: float | None = None
        self.edge: tuple[int, int, int] | None = None
        self.weight: float | None = None
        self.text: list[str] | None = None
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.doctype

    def fail(self, what: str) -> NoReturn:
        raise self.collector.fault(self.parser.CurrentLineNumber, what)

    def doctype(self, *_: object) -> None:
        self.fail("a document type declaration (DTD) is not accepted")

    def start(self, name: str, attributes: Attributes) -> None:
        tag = name.rpartition(" ")[2]
        parent = self.open_tags[-1] if self.open_tags else ""
        if not parent and tag != "graphml":
            self.fail(f"the outermost element is '{printable(tag, 40)}', not 'graphml'")
        if len(self.open_tags) >= MAX_DEPTH:
            self.fail(f"elements nested deeper than {MAX_DEPTH}")
        self.open_tags.append(tag)
        if tag == "graph":
            self.start_graph(attributes)
        elif tag == "hyperedge":
            self.fail("a hyperedge is not accepted")
        elif (parent, tag) == ("graph", "node"):
            self.start_node(attributes)
        elif (parent, tag) == ("graph", "edge"):
            self.start_edge(attributes)
        elif (parent, tag) == ("graphml", "key"):
            self.start_key(attributes)
        elif self.is_weight(parent, tag, attributes):
            self.text = []

    def end(self, _: str) -> None:
        tag = self.open_tags.pop()
        if self.text is not None and tag in ("data", "default"):
            self.end_weight(tag)
        elif tag == "edge" and self.edge is not None:
            tail, head, line = self.edge
            self.collector.add(tail, head, self.weight, line)
            self.edge = None
            if self.collector.is_full:
                self.fail("more edges than pairs of nodes, so that one is a duplicate")
        elif tag == "key":
            self.reading_weight_key = False

    def characters(self, text: str) -> None:
        if self.text is None:
            return
        self.text.append(text)
        if sum(map(len, self.text)) > MAX_TEXT:
            self.fail(f"a weight longer than {MAX_TEXT} characters")

    # --- elements ---

    def start_graph(self, attributes: Attributes) -> None:
        if self.graph_seen:
            self.fail("a second graph; one is accepted")
        self.graph_seen = True
        self.directed = "true" if attributes.get("edgedefault") == "directed" else "false"

    def start_node(self, attributes: Attributes) -> None:
        name = self.attribute("node", "id", attributes)
        if name in self.nodes:
            self.fail(f"node '{printable(name, 40)}' is given twice")
        self.number(name)
        self.nodes[name] = None

    def start_edge(self, attributes: Attributes) -> None:
        if attributes.get("directed", self.directed) == "true":
            self.fail("a directed edge; only undirected graphs are accepted")
        source, target = (self.attribute("edge", end, attributes) for end in ("source", "target"))
        if source == target:
            self.fail(f"node '{printable(source, 40)}' is joined to itself")
        self.edge = (self.number(source), self.number(target), self.parser.CurrentLineNumber)
        self.weight = self.default_weight

    def start_key(self, attributes: Attributes) -> None:
        if attributes.get("attr.name") != "weight" or attributes.get("for", "all") not in ("edge", "all"):
            return
        if len(self.weight_keys) == MAX_KEYS:
            self.fail(f"more than {MAX_KEYS} keys called 'weight'")
        self.weight_keys.add(self.attribute("key", "id", attributes))
        self.reading_weight_key = True

    def is_weight(self, parent: str, tag: str, attributes: Attributes) -> bool:
        if tag == "default":
            return parent == "key" and self.reading_weight_key
        given = tag == "data" and parent == "edge" and self.edge is not None
        return given and attributes.get("key") in self.weight_keys

    def end_weight(self, tag: str) -> None:
        text = "".join(self.text or ()).strip()
        self.text = None
        value = parse_weight(text)
        if value is None:
            self.fail(f"weight '{printable(text, 40)}' is not a positive, finite number")
        if tag == "data":
            self.weight = value
        else:
            self.default_weight = value

    # --- names ---

    def attribute(self, tag: str, name: str, attributes: Attributes) -> str:
        value = attributes.get(name)
        if value is None:
            self.fail(f"{'an' if tag == 'edge' else 'a'} {tag} without '{name}'")
        if len(value) > MAX_ID:
            self.fail(f"an id longer than {MAX_ID} characters")
        return value

    def number(self, name: str) -> int:
        agents = self.collector.agents
        if name not in self.numbers and len(self.numbers) == agents:
            self.fail(f"node '{printable(name, 40)}' is one too many for {agents} agents")
        return self.numbers.setdefault(name, len(self.numbers))

    def vertices(self) -> NDArray[np.int64]:
        """The vertex of each numbered id."""
        agents, path = self.collector.agents, printable(self.collector.path)
        for name, number in self.numbers.items():
            if name not in self.nodes:
                raise self.collector.fault(
                    self.collector.first_line(number), f"node '{printable(name, 40)}' does not exist"
                )
        if len(self.nodes) != agents:
            raise DataError(f"graph file '{path}' has {len(self.nodes)} nodes, but there are {agents} agents.")
        whole = {str(v) for v in range(agents)}
        order = (int(name) for name in self.nodes) if whole == self.nodes.keys() else range(agents)
        result = np.empty(agents, dtype=np.int64)
        for name, vertex in zip(self.nodes, order, strict=True):
            result[self.numbers[name]] = vertex
        return result
