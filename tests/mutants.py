"""Broken files by number: mutant k of a kind is always the same file, so that a failure can be looked at again.

HDF5 files are problems, results, checkpoints and caches of references with bytes flipped, runs overwritten, moved or
lost, tails cut, or with types, shapes and links that nobody should have written. Graph files are edge lists and GraphML
with the same done to bytes, words and lines.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Mutation = Callable[[bytes, random.Random], bytes]

ROWS, COLUMNS, AGENTS = 40, 6, 3


# --- bytes ------------------------------------------------------------------------------------------------


def flip_bytes(content: bytes, rng: random.Random) -> bytes:
    """A few bytes anywhere, or all within the beginning, where HDF5 keeps what describes the rest."""
    changed = bytearray(content)
    reach = len(changed) if rng.random() < 0.5 else min(len(changed), 2500)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        changed[rng.randrange(reach)] ^= rng.randrange(1, 256)
    return bytes(changed)


def flip_a_bit(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut_tail(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def overwrite_run(content: bytes, rng: random.Random) -> bytes:
    start, length = rng.randrange(len(content)), rng.choice((2, 4, 8, 8, 64, 512))
    filler = rng.choice((b"\0", b"\xff", b"\x7f", bytes([rng.randrange(256)])))
    return content[:start] + filler * min(length, len(content) - start) + content[start + length :]


def move_run(content: bytes, rng: random.Random) -> bytes:
    """A run of bytes is lost, or put in a second time somewhere else."""
    start, length = rng.randrange(len(content)), rng.choice((1, 8, 100, 1000))
    if rng.random() < 0.5:
        return content[:start] + content[start + length :]
    place = rng.randrange(len(content))
    return content[:place] + content[start : start + length] + content[place:]


def large_number(content: bytes, rng: random.Random) -> bytes:
    """Eight bytes become a length or an address that no file has."""
    start = rng.randrange(max(1, len(content) - 8))
    value = rng.choice((1 << 62, 1 << 40, (1 << 63) - 1, (1 << 64) - 2, 1 << 31, len(content), len(content) + 1))
    return content[:start] + value.to_bytes(8, "little") + content[start + 8 :]


BYTES: tuple[Mutation, ...] = (flip_bytes, flip_bytes, flip_a_bit, cut_tail, overwrite_run, move_run, large_number)


# --- HDF5: problems that are well-formed but wrong ------------------------------------------------------------


def design(rng: random.Random) -> tuple[Any, Any]:
    generator = np.random.default_rng(rng.randrange(1 << 30))
    X = generator.standard_normal((ROWS, COLUMNS))
    return X, X @ generator.standard_normal(COLUMNS)


def swapped_type(file: h5py.File, rng: random.Random) -> None:
    X, y = design(rng)
    kinds: list[Callable[[Any], Any]] = [
        lambda a: a.astype(
            rng.choice(["i1", "u2", ">i4", "u8", "f2", ">f4", ">f8", "longdouble", "c8", "c16", "bool"])
        ),
        lambda a: a.astype("S8"),
        lambda a: np.full(a.shape, b"x" * rng.choice((1, 300)), object),
        lambda a: a.astype([("a", "f8"), ("b", "i2")]),
        lambda a: (a * 1e38).astype(np.float64),
        lambda a: np.where(a > 1, np.nan, a),
        lambda a: np.full(a.shape, rng.choice((np.inf, 1e308, -1e308, 5e-324, 0.0))),
        lambda a: (a > 0).astype(h5py.enum_dtype({"no": 0, "yes": 1})),
        lambda a: np.zeros(a.shape, "V5"),
    ]
    change, which = rng.choice(kinds), rng.choice(("X", "y", "both"))
    for name, values in (("X", X), ("y", y)):
        values = change(values) if which in (name, "both") else values
        kind = h5py.string_dtype() if values.dtype == object else values.dtype
        file.create_dataset(name, data=values, dtype=kind)


def edited_shape(file: h5py.File, rng: random.Random) -> None:
    X, y = design(rng)
    shapes: list[Any] = [X.T, X[0], X[..., np.newaxis], X[:0], X[:, :0], X[:1], X[:, :1], X.reshape(1, -1), X[:-1], 3.0]
    file.create_dataset("X", data=rng.choice(shapes)) if rng.random() < 0.6 else file.create_dataset("X", data=X)
    if rng.random() < 0.7:
        file.create_dataset("y", data=rng.choice([y, y[:, np.newaxis], y[:-1], y[:0], X, y[np.newaxis], 1.0, y[:1]]))
    else:
        file.create_dataset("y", data=h5py.Empty("f8"))


def declared_only(file: h5py.File, rng: random.Random) -> None:
    """Numbers that were never written, up to shapes of exabytes."""
    _, y = design(rng)
    rows = rng.choice((ROWS, 10**6, 10**9, 10**15))
    chunks = rng.choice((None, True, (1, COLUMNS), (ROWS, 1)))
    file.create_dataset("X", shape=(rows, COLUMNS), dtype=rng.choice(["f4", "f8"]), chunks=chunks)
    file.create_dataset("y", data=y)


def odd_links(file: h5py.File, rng: random.Random) -> None:
    X, y = design(rng)
    file.create_dataset("kept/X", data=X)
    targets: list[Any] = [
        h5py.SoftLink("/kept/X"),
        h5py.SoftLink("/X"),
        h5py.SoftLink("/nowhere"),
        h5py.SoftLink("X/X/X"),
        h5py.ExternalLink("/etc/passwd", "/X"),
        h5py.ExternalLink("other.h5", "/X"),
    ]
    file["X"] = rng.choice(targets)
    file["y"] = rng.choice([y, h5py.SoftLink("/X"), h5py.SoftLink("/kept")])


def odd_company(file: h5py.File, rng: random.Random) -> None:
    """X and y are sound; what lies beside them is not."""
    X, y = design(rng)
    file.create_dataset("X", data=X)
    file.create_dataset("y", data=y)
    numbers: list[Any] = [
        np.zeros(COLUMNS),
        np.full(COLUMNS, -1),
        np.full(COLUMNS, 10**9),
        np.full(COLUMNS, 2**64 - 1, "u8"),
        np.arange(COLUMNS) % AGENTS,
        np.arange(COLUMNS + 1),
        np.zeros((COLUMNS, 1), int),
        np.full(COLUMNS, b"a"),
    ]
    for name in rng.sample(["partition", "groups", "feature_names"], rng.choice((1, 2, 3))):
        file.create_dataset(name, data=rng.choice(numbers))
    if rng.random() < 0.3:
        file.attrs.create("note", np.zeros(rng.choice((1, 8000)), "f8"))


STRUCTURES = (swapped_type, swapped_type, edited_shape, edited_shape, declared_only, odd_links, odd_company)


def write_bases(folder: Path) -> None:
    """Sound problems, stored in the ways that HDF5 has: plain, in filtered chunks, and in the newest format."""
    X, y = design(random.Random(0))
    names = [f"feature {k}" for k in range(COLUMNS)]
    for name, version in (("plain.h5", None), ("newest.h5", "latest")):
        with h5py.File(folder / name, "w", libver=version) as file:
            file.create_dataset("X", data=X)
            file.create_dataset("y", data=y)
            if version:
                file.create_dataset("groups", data=np.arange(COLUMNS) // 2)
    with h5py.File(folder / "chunked.h5", "w") as file:
        stored = {"chunks": (16, 3), "compression": "gzip", "shuffle": True, "fletcher32": True}
        file.create_dataset("X", data=X.astype(np.float32), **stored)
        file.create_dataset("y", data=(y > 0).astype("i1"), chunks=(7,))
        file.create_dataset("partition", data=np.arange(COLUMNS) % AGENTS)
        file.create_dataset("feature_names", data=names, dtype=h5py.string_dtype())


def hdf5_mutant(number: int, base: Path, path: Path) -> None:
    """Write mutant `number` of the file `base` to `path`: by bytes, or (of problems, one in three) by structure."""
    rng = random.Random(f"hdf5 {number}")
    if number % 3 == 0 and base.name in ("plain.h5", "newest.h5", "chunked.h5"):
        with h5py.File(path, "w") as file:
            rng.choice(STRUCTURES)(file, rng)
        if rng.random() < 0.8:
            return
        base = path
    path.write_bytes(rng.choice(BYTES)(base.read_bytes(), rng))


# --- graphs -----------------------------------------------------------------------------------------------

VERTICES = 8
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (0, 7), (0, 4), (2, 6)]
WORDS = [
    "-1",
    "8",
    "1000000000",
    "9" * 4000,
    "1e9",
    "0x1",
    "+1",
    "1_0",
    "\u0663",
    "nan",
    "inf",
    "-0",
    "1e-320",
    "1e400",
]
WORDS += ["", "#", "<", ">", "&amp;", "&x;", '"', "\x00", "\x1b[31m", "\ufeff", "0.5", "directed", "edge", "node"]


def edge_list(weighted: bool) -> str:
    lines = [f"{i} {j}" + (f" {1 + k / 4}" if weighted else "") for k, (i, j) in enumerate(EDGES)]
    return "# a comment\n" + "\n".join(lines) + "\n"


def graphml(weighted: bool) -> str:
    nodes = "".join(f'<node id="{k}"/>\n' for k in range(VERTICES))
    weight = '<data key="w">{}</data>' if weighted else ""
    edges = "".join(
        f'<edge source="{i}" target="{j}">{weight.format(1 + k)}</edge>\n' for k, (i, j) in enumerate(EDGES)
    )
    key = '<key id="w" for="edge" attr.name="weight" attr.type="double"/>\n'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        f'{key}<graph edgedefault="undirected">\n{nodes}{edges}</graph></graphml>\n'
    )


def change_word(content: bytes, rng: random.Random) -> bytes:
    words = content.split(b" ")
    words[rng.randrange(len(words))] = rng.choice(WORDS).encode()
    return b" ".join(words)


def change_number(content: bytes, rng: random.Random) -> bytes:
    places = [k for k, byte in enumerate(content) if chr(byte) in string.digits]
    place = rng.choice(places or [0])
    return content[:place] + rng.choice(WORDS).encode() + content[place + 1 :]


def change_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    k = rng.randrange(len(lines))
    changes: list[Callable[[], object]] = [
        lambda: lines.pop(k),
        lambda: lines.insert(rng.randrange(len(lines)), lines[k]),
        lambda: rng.shuffle(lines),
        lambda: lines.insert(k, b"x" * 5000 + b"\n"),
        lambda: lines.insert(k, b"<a>" * 50),
        lambda: lines.insert(k, b'<!DOCTYPE a [<!ENTITY b "c">]>'),
        lambda: lines.extend(lines * 40),
    ]
    rng.choice(changes)()
    return b"".join(lines)


GRAPH_MUTATIONS: tuple[Mutation, ...] = (*BYTES, change_word, change_word, change_number, change_number, change_lines)


def graph_mutant(number: int, folder: Path) -> Path:
    """Write mutant `number` of an edge list (even numbers) or of a GraphML file into `folder`."""
    rng = random.Random(f"graph {number}")
    write, name = (edge_list, "graph.txt") if number % 2 == 0 else (graphml, "graph.graphml")
    content = write(rng.random() < 0.5).encode()
    for _ in range(rng.choice((1, 1, 1, 2))):
        content = rng.choice(GRAPH_MUTATIONS)(content, rng) if content else content
    path = folder / name
    path.write_bytes(content)
    return path
