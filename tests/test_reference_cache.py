"""The cache of references: what goes in comes out, and no broken file is ever an error."""

from __future__ import annotations

import multiprocessing
from dataclasses import asdict
from pathlib import Path

import h5py
import numpy as np
import pytest

from fdglm_fast.losses import parse_loss
from fdglm_fast.penalties import parse_penalty
from fdglm_fast.reference import CachedReference, Reference, cached_reference, reference_key


def made(seed: int, d: int = 5) -> Reference:
    theta = np.random.default_rng(seed).standard_normal(d)
    return Reference(theta, 0.1 + seed, 1.0 + seed, 2.0, "cholesky", 1e-15, 1e-16, 0.25)


def same(one: Reference, other: Reference) -> bool:
    a, b = asdict(one), asdict(other)
    return np.array_equal(a.pop("theta"), b.pop("theta")) and a == b


def never() -> Reference:
    raise AssertionError("the cache should have known")


def put(path: Path, key: str, seed: int) -> CachedReference:
    return cached_reference(path, key, lambda: made(seed))


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "data.reference.h5"
    for seed, key in enumerate(("a", "b", "c")):
        found = put(path, key, seed)
        assert not found.hit and found.warning is None and same(found.reference, made(seed))
    for seed, key in enumerate(("a", "b", "c")):
        found = cached_reference(path, key, never)
        assert found.hit and found.warning is None and same(found.reference, made(seed))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_objective_at_zero_may_be_infinite(tmp_path: Path) -> None:
    path, odd = tmp_path / "cache.h5", Reference(np.ones(2), 1.0, np.inf, 1.4, "x", 0.0, 0.0, 0.0)
    cached_reference(path, "k", lambda: odd)
    assert same(cached_reference(path, "k", never).reference, odd)


def test_keys() -> None:
    squared, logistic = parse_loss("squared"), parse_loss("logistic")
    l1, l2, group = parse_penalty("l1", 0.1), parse_penalty("l2", 0.1), parse_penalty("group-l2", 0.1)
    keys = [
        reference_key("data", squared, l1),
        reference_key("other", squared, l1),
        reference_key("data", logistic, l1),
        reference_key("data", squared, l2),
        reference_key("data", squared, parse_penalty("l1", 0.1 + 1e-17 + 2e-17)),
        reference_key("data", parse_loss("huber:1"), l1),
        reference_key("data", parse_loss("huber:1.5"), l1),
        reference_key("data", squared, group, np.array([0, 0, 1])),
        reference_key("data", squared, group, np.array([0, 1, 1])),
    ]
    assert len(set(keys)) == len(keys) and all(len(key) == 64 for key in keys)
    assert reference_key("data", squared, l1, np.array([0])) == keys[0]


def spoil_text(path: Path) -> None:
    path.write_text("this is not HDF5")


def spoil_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def spoil_empty(path: Path) -> None:
    path.write_bytes(b"")


def spoil_foreign(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["X"] = np.ones(3)


def spoil_numbers(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["key/theta"][1] = np.nan


def spoil_attribute(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["key"].attrs["objective"]


def spoil_checksum(path: Path) -> None:
    content, wanted = bytearray(path.read_bytes()), made(0).theta.tobytes()
    content[content.index(wanted)] ^= 1
    path.write_bytes(content)


def spoil_link(path: Path) -> None:
    with h5py.File(path.with_name("elsewhere.h5"), "w") as file:
        file["theta"] = made(9).theta
    with h5py.File(path, "r+") as file:
        del file["key/theta"]
        file["key/theta"] = h5py.ExternalLink("elsewhere.h5", "/theta")


def spoil_size(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["key/theta"]
        file["key"].create_dataset("theta", shape=(10**12,), dtype=np.float64, chunks=(1000,))


SPOILS = [spoil_text, spoil_cut, spoil_empty, spoil_foreign, spoil_numbers, spoil_attribute]
SPOILS += [spoil_checksum, spoil_link, spoil_size]


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_broken_cache_is_replaced(tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "cache.h5"
    put(path, "key", 0)
    assert callable(spoil)
    spoil(path)
    found = put(path, "key", 1)
    assert not found.hit and same(found.reference, made(1))
    assert found.warning is not None and "ignored and replaced" in found.warning and "\n" not in found.warning
    again = cached_reference(path, "key", never)
    assert again.hit and again.warning is None and same(again.reference, made(1))


def test_nowhere_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "missing" / "cache.h5", tmp_path / "folder", Path("/proc/cache.h5")):
        found = put(path, "key", 0)
        assert same(found.reference, made(0)) and not found.hit
        assert found.warning is not None and "not cached" in found.warning
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "read-only" in str(put(tmp_path / "cache.h5", "key", 0).warning)
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def write_some(path: Path, first: int) -> None:
    for seed in range(first, first + 8):
        put(path, f"k{seed}", seed)


def test_two_writers(tmp_path: Path) -> None:
    path = tmp_path / "cache.h5"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_some, args=(path, first)) for first in (0, 8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    for seed in range(16):
        assert same(cached_reference(path, f"k{seed}", never).reference, made(seed))


def test_errors_of_the_computation_pass_through(tmp_path: Path) -> None:
    def fail() -> Reference:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cached_reference(tmp_path / "cache.h5", "key", fail)
    assert not list(tmp_path.iterdir())
