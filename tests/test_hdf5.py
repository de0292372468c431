"""Reading problems: what is accepted, what is refused and with which sentence, and what `fdglm info` says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from fdglm_cli.info import command
from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.finite import check_finite, find_nonfinite
from fdglm_fast.hdf5 import Source, data_hash, open_source
from fdglm_fast.memory import available_memory, human_size, require_memory, solve_bytes, solve_terms
from fdglm_fast.survey import response_kind

N, D = 30, 6
X = np.random.default_rng(0).standard_normal((N, D))
Y = np.random.default_rng(1).standard_normal(N)
SECRET = np.full((N, D), 42.0)


def write(path: Path, fill: Callable[[h5py.File], Any] | None = None, **datasets: Any) -> str:
    """A file with X and y, with datasets replaced, added or (None) left out, then handed to `fill`."""
    with h5py.File(path, "w") as file:
        for name, data in {"X": X, "y": Y, **datasets}.items():
            if data is not None:
                file[name] = data
        if fill is not None:
            fill(file)
    return str(path)


def refusal(address: str, **names: Any) -> str:
    """The sentence with which a problem is refused, whenever it is noticed."""
    with pytest.raises(DataError) as caught, open_source(address, **names) as source:
        for _ in source.blocks():
            pass
        source.require_response()
        source.partition_owner()
        source.groups()
        source.feature_names()
    sentence = str(caught.value)
    assert sentence.isprintable() and "Traceback" not in sentence
    return sentence


# What is accepted


def test_reads_what_was_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", partition=[2, 0, 1, 0, 2, 1], groups=[7, 7, 3, 3, 9, 9])
    with open_source(path) as source:
        assert (source.n, source.d, source.dtype, source.x_chunks) == (N, D, np.float64, None)
        np.testing.assert_array_equal(source.read_rows(0, N), X)
        np.testing.assert_array_equal(source.read_rows(3, 9, np.float32), X[3:9].astype(np.float32))
        y, owner, groups = source.response(), source.partition_owner(), source.groups()
        assert y is not None and owner is not None and groups is not None
        np.testing.assert_array_equal(y, Y)
        assert owner.tolist() == [2, 0, 1, 0, 2, 1] and owner.dtype == np.int64
        assert groups.tolist() == [1, 1, 0, 0, 2, 2]
        assert source.feature_names() is None


def test_optional_datasets_may_be_absent(tmp_path: Path) -> None:
    with open_source(write(tmp_path / "a.h5", y=None)) as source:
        assert source.response() is None and source.partition_owner() is None and source.groups() is None


@pytest.mark.parametrize("dtype", ["i1", "u8", ">i4", "?", "f2", ">f4", ">f8", "f4"])
def test_types_are_converted(tmp_path: Path, dtype: str) -> None:
    values = (np.arange(N * D).reshape(N, D) % 100).astype(dtype)
    with open_source(write(tmp_path / "a.h5", X=values, y=np.arange(N, dtype="u1"))) as source:
        assert source.dtype == np.dtype(dtype)
        assert source.solve_dtype == (np.float32 if dtype[-2:] in ("f2", "f4") else np.float64)
        block = source.read_rows(0, N, source.solve_dtype)
        assert block.flags.c_contiguous and block.dtype == source.solve_dtype
        np.testing.assert_array_equal(block, values.astype(np.float64))
        y = source.response()
        assert y is not None and y.dtype == np.float64 and y.tolist() == list(range(N))


def test_column_response_other_names_and_groups(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", X=None, y=None, **{"deep/er/A": X, "deep/er/b": Y.reshape(-1, 1)})
    for address, x, y in ((f"{path}::/deep/er", "A", "b"), (f"{path}::deep", "er/A", "/deep/er/b")):
        with open_source(address, x=x, y=y) as source:
            np.testing.assert_array_equal(source.read_rows(0, N), X)
            np.testing.assert_array_equal(source.require_response(), Y)


def test_a_name_with_colons_is_a_file_first(tmp_path: Path) -> None:
    with open_source(write(tmp_path / "a::b.h5")) as source:
        assert source.group == "/" and source.n == N


def test_soft_links_inside_the_file_are_followed(tmp_path: Path) -> None:
    def links(file: h5py.File) -> None:
        file.create_group("g")["there"] = h5py.SoftLink("/h")
        file.create_group("h")["A"] = h5py.SoftLink("/X")

    with open_source(write(tmp_path / "a.h5", links), x="g/there/A") as source:
        np.testing.assert_array_equal(source.read_rows(0, N), X)


@pytest.mark.parametrize("kind", ["vlen", "fixed", "utf8"])
def test_feature_names(tmp_path: Path, kind: str) -> None:
    names = [f"größe {k}" if kind != "fixed" else f"size {k}" for k in range(D)]
    types = {"vlen": h5py.string_dtype(), "fixed": "S8", "utf8": h5py.string_dtype("utf-8", 12)}
    encoded = [name.encode() for name in names]

    def add(file: h5py.File) -> None:
        file.create_dataset("feature_names", data=encoded, dtype=types[kind])

    with open_source(write(tmp_path / "a.h5", add)) as source:
        assert source.feature_names() == names


@pytest.mark.parametrize(
    "options", [{}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf"}, {"compression": "szip"}]
)
def test_blocks_cover_chunked_and_filtered_data(tmp_path: Path, options: dict[str, Any]) -> None:
    def add(file: h5py.File) -> None:
        file.create_dataset("X", data=X, chunks=(4, 5), fletcher32=True, **options)

    with open_source(write(tmp_path / "a.h5", add, X=None)) as source:
        assert source.x_chunks == (4, 5) and "fletcher32" in source.filters
        for rows in (None, 1, 7, 1000):
            blocks = list(source.blocks(rows=rows))
            np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), X)
            assert [start for start, _ in blocks] == list(range(0, N, rows or N))


def test_block_rows_follow_the_chunks(tmp_path: Path) -> None:
    def add(file: h5py.File) -> None:
        file.create_dataset("X", data=np.zeros((100, D)), chunks=(8, D))

    with open_source(write(tmp_path / "a.h5", add, X=None, y=None)) as source:
        row = 8 * D
        assert source.block_rows(row * 30) == 24
        assert source.block_rows(row * 8) == 8
        assert source.block_rows(row * 3) == 8  # one chunk fits in memory, so it is not read three times
        assert source.block_rows(row * 10_000) == 100


# What is refused


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing.h5", "does not exist"),
        ("missing/deep.h5", "does not exist"),
        ("folder", "is a folder"),
        ("text.h5", "is not an HDF5 file"),
        ("empty.h5", "HDF5"),
        ("pipe", "not a regular file"),
        ("nul\0.h5", "cannot be read"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.h5").write_text("1 2 3\n" * 1000)
    (tmp_path / "empty.h5").write_text("")
    os.mkfifo(tmp_path / "pipe")
    assert sentence in refusal(str(tmp_path / name))


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files(tmp_path: Path, kept: float) -> None:
    path = Path(write(tmp_path / "a.h5"))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    assert "truncated" in refusal(str(path))


def test_a_file_being_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    script = "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "open\n"
        assert "being written by another program" in refusal(path)
        writer.communicate("")
    with open_source(path) as source:
        assert source.n == N


def test_a_file_whose_writer_died(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    script = (
        "import h5py, os, sys\n"
        "f = h5py.File(sys.argv[1], 'w', libver='latest'); f['X'] = [[1.0]]; f.flush(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, path], check=True, timeout=60)
    assert "its writer did not close it" in refusal(path)


@pytest.mark.parametrize(
    ("datasets", "sentence"),
    [
        ({"X": None}, "has no dataset 'X'; found: y"),
        ({"X": None, "x": X}, "did you mean 'x'? (found: x, y)"),
        ({"y": None}, "has no dataset 'y'"),
        ({"X": X[0]}, "must have two dimensions (samples, features), not 1"),
        ({"X": X[None]}, "must have two dimensions"),
        ({"X": 3.0}, "must have two dimensions"),
        ({"y": X}, "must be a vector, but its shape is (30, 6)"),
        ({"y": Y.reshape(1, -1)}, "must be a vector"),
        ({"y": Y[:-1]}, "has 30 rows, but dataset 'y'"),
        ({"X": X.astype(complex)}, "must hold real numbers, not complex numbers"),
        ({"y": Y.astype(complex)}, "must hold real numbers, not complex numbers"),
        ({"X": [["a", "b"]] * N}, "not strings"),
        ({"X": np.full((N, D), b"1.5")}, "not strings"),
        ({"X": np.zeros((N, D), dtype=[("a", "f8"), ("b", "i4")])}, "not compound records"),
        ({"X": np.zeros((0, D))}, "is empty"),
        ({"X": np.zeros((N, 0))}, "is empty"),
        ({"X": h5py.Empty("f8")}, "is empty"),
        ({"partition": [0, 1]}, "must have one entry for each of the 6 columns"),
        ({"partition": np.zeros(D)}, "must hold whole numbers"),
        ({"groups": np.zeros((D, 1), int)}, "must have one entry for each of the 6 columns"),
        ({"groups": ["a"] * D}, "must hold whole numbers, not strings"),
        ({"feature_names": np.arange(D)}, "must hold strings"),
        ({"feature_names": ["a"]}, "must have one entry"),
    ],
)
def test_datasets_that_do_not_fit(tmp_path: Path, datasets: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(write(tmp_path / "a.h5", **datasets))


def test_a_group_or_a_reference_is_no_dataset(tmp_path: Path) -> None:
    def reference(file: h5py.File) -> None:
        file.create_dataset("X", (N, D), h5py.ref_dtype)[0, 0] = file["y"].ref

    assert "not a dataset" in refusal(write(tmp_path / "a.h5", lambda f: f.create_group("X"), X=None))
    assert "must hold real numbers" in refusal(write(tmp_path / "b.h5", reference, X=None))
    path = write(tmp_path / "c.h5")
    assert "has no group '/nowhere'" in refusal(f"{path}::/nowhere")
    assert "has no group '/X'" in refusal(f"{path}::/X")
    assert "has no dataset 'y/X'" in refusal(path, x="y/X")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nonfinite_values_are_located_and_counted(tmp_path: Path, bad: float, dtype: type) -> None:
    values = X.astype(dtype)
    values[11, 4] = values[11, 5] = values[29, 0] = bad
    with open_source(write(tmp_path / "a.h5", X=values)) as source:
        for rows in (1, 5, 30):
            with pytest.raises(DataError, match=rf"3 values .* the first \({bad}\) in row 11, column 4"):
                list(source.blocks(rows=rows))


def test_nonfinite_response_is_located(tmp_path: Path) -> None:
    y = Y.copy()
    y[17] = np.nan
    assert "has a value that is not finite: nan in row 17 (counted" in refusal(write(tmp_path / "a.h5", y=y))


def test_values_too_large_for_float32(tmp_path: Path) -> None:
    values = X.copy()
    values[3, 2] = 1e300
    with open_source(write(tmp_path / "a.h5", X=values)) as source:
        assert sum(len(block) for _, block in source.blocks(np.float64)) == N
        with pytest.raises(DataError, match=r"too large for float32, the first \(1e\+300\) in row 3, column 2"):
            list(source.blocks(np.float32))


def test_check_finite_is_not_fooled_by_sums_that_overflow() -> None:
    huge = np.full((4, 4), 3e38, dtype=np.float32)
    check_finite(huge, 0, "X")
    assert find_nonfinite(huge) is None
    huge[2, 1] = -np.inf
    assert find_nonfinite(huge) == (1, 2, 1)
    with pytest.raises(DataError, match="row 102, column 1"):
        check_finite(huge, 100, "X")
    cancelling = np.array([np.inf, -np.inf])
    assert find_nonfinite(cancelling) == (2, 0, 0)
    assert find_nonfinite(np.arange(3)) is None


# Untrusted files


def outside(tmp_path: Path) -> str:
    return write(tmp_path / "outside.h5", X=SECRET, **{"g/X": SECRET})


def external(target: str, where: str = "/X") -> h5py.ExternalLink:
    return h5py.ExternalLink(target, where)


def test_external_links_are_refused_at_any_component(tmp_path: Path) -> None:
    target = outside(tmp_path)

    def links(file: h5py.File) -> None:
        file["X"] = external(target)
        file["out"] = external(target, "/g")
        file["soft"] = h5py.SoftLink("/out")
        file["soft2"] = h5py.SoftLink("/soft/X")
        file["soft3"] = h5py.SoftLink("soft2")
        file.create_group("inner")["up"] = external(target, "/")

    path = write(tmp_path / "a.h5", links, X=None)
    for name in ("X", "out/X", "soft/X", "soft2", "soft3", "inner/up/g/X", "/inner/up/X", "./out/./X"):
        assert "external link" in refusal(path, x=name)
    assert "external link" in refusal(f"{path}::/out")
    assert "external link" in refusal(f"{path}::/inner/up")
    for name in ("y", "partition", "groups", "feature_names"):
        absent = {"y": None} if name == "y" else {}
        other = write(tmp_path / "b.h5", lambda f, n=name: f.__setitem__(n, external(target)), **absent)
        assert "external link" in refusal(other)


def test_an_external_link_is_not_even_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"  # opening it would wait for a writer forever
    os.mkfifo(pipe)
    path = write(tmp_path / "a.h5", lambda f: f.__setitem__("X", external(str(pipe))), X=None)
    script = "import sys; from fdglm_fast.hdf5 import open_source; open_source(sys.argv[1])"
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=60)
    assert "external link" in run.stderr


def test_virtual_datasets_and_external_storage_are_refused(tmp_path: Path) -> None:
    target = outside(tmp_path)
    (tmp_path / "raw").write_bytes(SECRET.tobytes())

    def virtual(file: h5py.File) -> None:
        layout = h5py.VirtualLayout((N, D), "f8")
        layout[...] = h5py.VirtualSource(target, "X", (N, D))
        file.create_virtual_dataset("X", layout)

    def storage(file: h5py.File) -> None:
        file.create_dataset("X", (N, D), "f8", external=[(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)])

    with h5py.File(write(tmp_path / "a.h5", virtual, X=None)) as file:
        np.testing.assert_array_equal(file["X"][...], SECRET)  # what an ordinary read does
    assert "virtual dataset" in refusal(str(tmp_path / "a.h5"))
    assert "external storage" in refusal(write(tmp_path / "b.h5", storage, X=None))


def test_soft_link_loops_and_user_links_end(tmp_path: Path) -> None:
    def loop(file: h5py.File) -> None:
        file["X"] = h5py.SoftLink("/Z")
        file["Z"] = h5py.SoftLink("/X")

    assert "more than 16 soft links" in refusal(write(tmp_path / "a.h5", loop, X=None))
    dangling = write(tmp_path / "b.h5", lambda f: f.__setitem__("X", h5py.SoftLink("/nowhere")), X=None)
    assert "has no dataset 'X'" in refusal(dangling)


@pytest.mark.parametrize("chunks", [None, (1000, 1000)])
def test_declared_sizes_are_checked_before_reading(tmp_path: Path, chunks: tuple[int, int] | None) -> None:
    def absurd(file: h5py.File) -> None:
        file.create_dataset("X", (10**6, 10**6), "f8", chunks=chunks)

    path = write(tmp_path / "a.h5", absurd, X=None)
    assert Path(path).stat().st_size < 5000
    assert "declares 7.3 TiB, but" in refusal(path)


def test_chunks_that_were_never_written_are_noticed(tmp_path: Path) -> None:
    def partly(file: h5py.File) -> None:
        file.create_dataset("X", (N, D), "f8", chunks=(10, D), compression="gzip")[:20] = 1.0

    assert "2 of its 3 chunks were written" in refusal(write(tmp_path / "a.h5", partly, X=None))


def test_reads_are_bounded_by_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wide(file: h5py.File) -> None:
        file.create_dataset("X", data=np.zeros((5000, 1000), "i1"), chunks=(100, 1000), compression="gzip")

    path = write(tmp_path / "a.h5", wide, X=None, y=None)
    with open_source(path) as source:
        monkeypatch.setattr("fdglm_fast.hdf5._UNCHECKED_BYTES", 0)
        monkeypatch.setattr("fdglm_fast.memory.available_memory", lambda: 1 << 20)
        with pytest.raises(DataError, match=r"needs .* of memory, but only 1\.0 MiB"):
            source.read_rows(0, 5000, np.float64)
        assert source.read_rows(0, 100, np.float64).shape == (100, 1000)
    monkeypatch.setattr("fdglm_fast.memory.available_memory", lambda: 1 << 10)
    assert "one chunk of dataset 'X'" in refusal(path)


def filtered(file: h5py.File, code: int) -> None:
    """A dataset X that says its (only, raw-written) chunk passed through the filter `code`."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((N, D))
    plist.set_filter(code, h5py.h5z.FLAG_OPTIONAL, ())
    space = h5py.h5s.create_simple((N, D))
    made = h5py.h5d.create(file.id, b"X", h5py.h5t.NATIVE_DOUBLE, space, plist)
    made.write_direct_chunk((0, 0), X.tobytes())


def test_unknown_filters_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", lambda f: filtered(f, 32015), X=None)
    assert "uses the filter 32015" in refusal(path) and "unless plugins are allowed" in refusal(path)
    assert "does not have" in refusal(path, allow_filters=True)
    scaled = write(tmp_path / "b.h5", lambda f: f.create_dataset("X", data=X, chunks=(N, D), scaleoffset=3), X=None)
    assert "uses the filter 6" in refusal(scaled)
    with open_source(scaled, allow_filters=True) as source:
        np.testing.assert_allclose(source.read_rows(0, N), X, atol=1e-3)


def test_plugin_folders_are_off_while_a_file_is_open(tmp_path: Path) -> None:
    before = [h5py.h5pl.get(k) for k in range(h5py.h5pl.size())]
    assert before
    with open_source(write(tmp_path / "a.h5")):
        assert h5py.h5pl.size() == 0
    assert "no dataset" in refusal(str(tmp_path / "a.h5"), x="nothing")
    assert [h5py.h5pl.get(k) for k in range(h5py.h5pl.size())] == before
    with open_source(str(tmp_path / "a.h5"), allow_filters=True):
        assert h5py.h5pl.size() == len(before)


def test_control_characters_in_names_are_disarmed(tmp_path: Path) -> None:
    path = write(tmp_path / "a\x1b[2J.h5", X=None, **{"evil\x1b]0;owned\x07": X})
    sentence = refusal(path)  # refusal() asserts that the sentence is printable
    assert "evil\\x1b]0;owned\\x07" in sentence and "a\\x1b[2J.h5" in sentence
    assert "\\x1b" in refusal(path, x="\x1b[31m")


def test_damaged_content_is_a_sentence(tmp_path: Path) -> None:
    def checked(file: h5py.File) -> None:
        file.create_dataset("X", data=X, chunks=(N, D), fletcher32=True)

    path = Path(write(tmp_path / "a.h5", checked, X=None))
    content = bytearray(path.read_bytes())
    content[content.index(X.tobytes()) + 100] ^= 1
    path.write_bytes(content)
    assert "rows 0 to 29 of dataset 'X'" in refusal(str(path)) and "damaged" in refusal(str(path))


def test_every_byte_of_the_metadata_may_be_wrong(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.h5", partition=[0, 0, 1, 1, 2, 2], feature_names=["n"] * D))
    content = path.read_bytes()
    rng = np.random.default_rng(5)
    refused = 0
    for place in rng.integers(0, min(len(content), 4000), 250):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            with open_source(str(path)) as source:
                data_hash(source)
                source.feature_names()
        except DataError:
            refused += 1
    assert refused > 25


def test_a_heap_of_strings_without_an_end(tmp_path: Path) -> None:
    """HDF5 would read in circles in a heap whose free space has no size."""
    path = tmp_path / "a.h5"
    write(path, feature_names=[f"column {k}" for k in range(D)])
    with open_source(str(path)) as source:
        assert source.feature_names() is not None
    content = bytearray(path.read_bytes())
    place = content.index(b"GCOL") + 16
    while content[place] or content[place + 1]:  # to the free space, which has index 0
        place += 16 + (int.from_bytes(content[place + 8 : place + 16], "little") + 7) // 8 * 8
    for size in (0, 8, 1 << 20, (1 << 64) - 16):
        content[place + 8 : place + 16] = size.to_bytes(8, "little")
        path.write_bytes(content)
        with open_source(str(path)) as source, pytest.raises(DataError, match="a heap of strings at byte"):
            source.feature_names()


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.h5"))
    with open_source(str(path)) as source:
        blocks = source.blocks(rows=10)
        next(blocks)
        path.rename(tmp_path / "moved.h5")
        write(path)
        with pytest.raises(DataError, match="changed while it was read"):
            list(blocks)


# Hash


def hash_of(path: Path, fill: Callable[[h5py.File], Any] | None = None, **datasets: Any) -> str:
    with open_source(write(path, fill, **datasets)) as source:
        return data_hash(source)


def test_hash_follows_content_and_not_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.h5"
    plain = hash_of(path)

    def packed(file: h5py.File) -> None:
        file.create_dataset("X", data=X.astype(">f8"), chunks=(7, 4), compression="gzip")

    assert hash_of(path, packed, X=None) == plain
    monkeypatch.setattr(Source, "block_rows", lambda self: 3)
    assert hash_of(path) == plain
    changed = X.copy()
    changed[-1, -1] = np.nextafter(changed[-1, -1], 9.0)
    others = [
        hash_of(path, X=changed),
        hash_of(path, X=X.astype("f4")),
        hash_of(path, X=X.reshape(D, N).reshape(N // 2, D * 2), y=Y[: N // 2]),
        hash_of(path, y=Y[::-1]),
        hash_of(path, y=None),
        hash_of(path, partition=[0] * D),
        hash_of(path, groups=[0] * D),
        hash_of(path, groups=[0, 0, 0, 1, 1, 1]),
    ]
    assert len({plain, *others}) == len(others) + 1
    assert hash_of(path, groups=[5, 5, 5, 8, 8, 8]) == others[-1]
    assert len(plain) == 64 and int(plain, 16) >= 0


# Memory


def test_memory_of_this_machine_is_plausible() -> None:
    assert 1 << 20 < available_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def fake_system(root: Path, cgroup: str, mounts: str, groups: dict[str, dict[str, str]]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal: 900 kB\nMemAvailable: 8388608 kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    (root / "proc/self/mountinfo").write_text(mounts)
    for folder, files in groups.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (root / folder / name).write_text(text)
    return root


V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"


@pytest.mark.parametrize(
    ("cgroup", "mounts", "groups", "expected"),
    [
        ("0::/\n", "", {}, 8 << 30),
        ("0::/user/job\n", V2, {"sys/fs/cgroup/user/job": {"memory.max": "max\n"}}, 8 << 30),
        (
            "0::/user/job\n",
            V2,
            {
                "sys/fs/cgroup/user": {"memory.max": "1000\n", "memory.current": "400\n"},
                "sys/fs/cgroup/user/job": {
                    "memory.max": "5000\n",
                    "memory.current": "4700\n",
                    "memory.stat": "anon 4500\ninactive_file 200\n",
                },
            },
            500,
        ),
        (
            "0::/user/job\n",
            V2,
            {"sys/fs/cgroup/user": {"memory.high": "1000\n", "memory.max": "max", "memory.current": "400\n"}},
            600,
        ),
        (
            "4:memory:/docker/abc/inner\n0::/\n",
            V1,
            {
                "sys/fs/cgroup/memory": {
                    "memory.limit_in_bytes": "3000\n",
                    "memory.usage_in_bytes": "1500\n",
                    "memory.stat": "inactive_file 7\ntotal_inactive_file 500\n",
                }
            },
            2000,
        ),
        (
            "4:memory:/elsewhere\n",
            V1,
            {"sys/fs/cgroup/memory": {"memory.limit_in_bytes": "3000\n", "memory.usage_in_bytes": "9000\n"}},
            0,
        ),
    ],
)
def test_control_groups_limit_the_memory(
    tmp_path: Path, cgroup: str, mounts: str, groups: dict[str, dict[str, str]], expected: int
) -> None:
    assert available_memory(fake_system(tmp_path, cgroup, mounts, groups)) == expected


def test_address_space_limits_the_memory() -> None:
    script = (
        "import resource; from fdglm_fast.memory import available_memory\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); print(available_memory())"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert 0 < int(run.stdout) < 2 << 30


def test_solve_memory_follows_the_formula() -> None:
    n, d, m = 1000, 300, 16
    terms = solve_terms(n, d, m, 4)
    assert terms["design"] + terms["state"] == 4 * (n * d + 2 * n * m)
    assert solve_bytes(n, d, m, 4) == sum(terms.values())
    assert solve_bytes(n, d, m + 1, 8) - solve_bytes(n, d, m, 8) == 8 * 2 * n
    assert solve_bytes(n, d, m, 8, "fast") - solve_bytes(n, d, m, 8) == 8 * 2 * n * m  # p_0 and lambda_0
    with pytest.raises(DataError, match=r"a solve needs 8\.0 EiB of memory, but only"):
        require_memory(1 << 63, "a solve")


def test_sizes_in_human_units() -> None:
    sizes = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", (1 << 20) - 1: "1.0 MiB"}
    assert {size: human_size(size) for size in sizes} == sizes
    assert human_size(8 << 40) == "8.0 TiB" and human_size(5000 << 60) == "5000.0 EiB"


# fdglm info


def test_info_reports_as_json(tmp_path: Path) -> None:
    constant = X.copy()
    constant[:, 2] = 7.0
    path = write(
        tmp_path / "a.h5",
        X=constant,
        y=(Y > 0) * 1.0,
        partition=[0, 1, 2, 0, 1, 2],
        groups=[0, 0, 0, 1, 1, 1],
    )
    report = json.loads(CliRunner().invoke(command, [path, "--json"]).stdout)
    assert report["data"] == {"path": path, "group": "/", "n": N, "d": D, "dtype": "float64"}
    assert report["agents"] == 3 and report["partition"]["source"] == "dataset" and report["groups"] == 2
    assert report["checks"] == {"nonfinite": 0, "constant_columns": [2], "faults": []}
    assert report["response"] == "binary" and report["feature_names"] is None
    assert report["memory"]["needed"] == solve_bytes(N, D, 3, 8) and report["memory"]["fits"] is True
    anchored = json.loads(CliRunner().invoke(command, [path, "--json", "--method", "fast"]).stdout)
    assert anchored["memory"]["needed"] == solve_bytes(N, D, 3, 8, "fast") > report["memory"]["needed"]
    unchecked = json.loads(CliRunner().invoke(command, [path, "--json", "--no-check"]).stdout)
    assert unchecked["checks"]["nonfinite"] is None and unchecked["checks"]["constant_columns"] is None


def test_info_prints_a_table(tmp_path: Path) -> None:
    names = ["[bold]a", "b\x1b[2J", *"cdef"]
    path = write(tmp_path / "a.h5", feature_names=names)
    run = CliRunner().invoke(command, [path, "--agents", "4"])
    assert run.exit_code == 0
    for part in ("30 samples x 6 features, float64", "real", "contiguous (default)", "[bold]a", "b\\x1b[2J"):
        assert part in run.output
    assert "\x1b" not in run.output


def test_info_shows_everything_before_it_fails(tmp_path: Path) -> None:
    bad = X.copy()
    bad[4, 1] = np.nan
    path = write(tmp_path / "a.h5", X=bad, y=np.where(np.arange(N) == 3, np.inf, Y))
    run = CliRunner().invoke(command, [path, "--json"])
    assert isinstance(run.exception, DataError) and run.exception.exit_code == 3
    faults = json.loads(run.stdout)["checks"]["faults"]
    assert len(faults) == 2 and "nan in row 4, column 1" in faults[0] and "inf in row 3" in faults[1]


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (["--agents", "7"], UsageError, "more agents (7) than features (6)"),
        (["--x", "design"], DataError, "has no dataset 'design'"),
        (["--y", "Y"], DataError, "did you mean 'y'"),
    ],
)
def test_info_refuses(tmp_path: Path, arguments: list[str], error: type[Exception], sentence: str) -> None:
    run = CliRunner().invoke(command, [write(tmp_path / "a.h5"), *arguments])
    assert isinstance(run.exception, error) and sentence in str(run.exception)


def test_info_does_not_import_numba(tmp_path: Path) -> None:
    script = (
        "import sys; from fdglm_cli.info import command\n"
        "early = 'h5py' in sys.modules\n"
        "command([sys.argv[1]], standalone_mode=False)\n"
        "print(early, [name for name in ('numba', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    path = write(tmp_path / "a.h5")
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=60)
    assert run.stdout.splitlines()[-1] == "False []", run.stderr


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        ([0, 1, 1], "binary"),
        ([-1, 1], "binary"),
        ([0, 3, 1], "count"),
        ([-1, 0, 1], "real"),
        ([0.5, 1], "real"),
        ([2, 2], "constant"),
    ],
)
def test_response_kinds(y: list[float], kind: str) -> None:
    assert response_kind(np.array(y, dtype=np.float64)) == kind
