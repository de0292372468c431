"""The whole state of a run in a file, to go on from after a kill with the same bits.

Written to a temporary file, synced and renamed, so that a kill at any moment leaves the old checkpoint or the new one.
Several processes write a part each, with the arrays of their own agents; the file of that name is then a manifest that
lists the parts, renamed into place when all are there. Whoever resumes takes what belongs to its own agents from either
kind, so that the number of ranks, and the engine, may change.

A checkpoint names what it belongs to (data, network, model, steps, type, version); resuming anything else is refused,
and the refusal names the difference.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.errors import DataError, FdglmError
from fdglm_fast.files import atomic_hdf5, printable
from fdglm_fast.state_parts import join, take
from fdglm_fast.team import Team
from fdglm_fast.trace import Record

FORMAT = "fdglm-checkpoint"
PART = "fdglm-checkpoint-part"
SHARE = 0.03  # of a run's time that writing may take
MOST_TEXT = 64 << 20


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A state after `iteration` iterations, with the trace and the seconds spent so far."""

    belongs: dict[str, Any]
    iteration: int
    arrays: dict[str, npt.NDArray[Any]]
    trace: list[dict[str, Any]]
    seconds: float
    columns: list[int] = field(default_factory=list)  # of each agent of the whole problem

    def about(self) -> dict[str, Any]:
        """What is written beside the arrays."""
        names = ("belongs", "iteration", "seconds", "trace", "columns")
        return {name: getattr(self, name) for name in names}

    def check(self, belongs: dict[str, Any], shapes: dict[str, tuple[int, ...]], path: str) -> None:
        """DataError that names the first difference, if there is one."""
        for name, value in belongs.items():
            stored = self.belongs.get(name)
            if stored != value:
                short = (str(stored)[:16], str(value)[:16]) if name in ("data", "graph") else (stored, value)
                raise DataError(
                    f"checkpoint '{printable(path)}' belongs to another {name}: it has {short[0]}, this run {short[1]}."
                )
        for name, shape in shapes.items():
            if name not in self.arrays:
                raise DataError(f"checkpoint '{printable(path)}' has no '{name}'.")
            if self.arrays[name].shape != shape:
                raise DataError(f"checkpoint '{printable(path)}' is damaged: '{name}' has the wrong shape.")


@dataclass
class Keeper:
    """Decides when to write: every `every` seconds, but with all writes, and the one at the end, in SHARE of the time.

    A write that fails (a full disk) does not end a run that goes well: the checkpoint before it stays, the next one is
    tried in its turn, and `failure` says what was wrong with the last.
    """

    path: str
    every: float = 60.0
    team: Team | None = None
    _last: float = field(default_factory=time.perf_counter)
    _began: float = field(default_factory=time.perf_counter)
    _cost: float = 0.0
    spent: float = 0.0  # seconds, on all writes so far
    failure: str | None = None

    def due(self) -> bool:
        now = time.perf_counter()
        return now - self._last >= self.every and self.spent + 2.0 * self._cost <= SHARE * (now - self._began)

    def write(self, checkpoint: Checkpoint) -> None:
        began = time.perf_counter()
        try:
            if self.team is None or self.team.size == 1:
                write_checkpoint(self.path, checkpoint)
            else:
                write_parts(self.path, checkpoint, self.team)
            self.failure = None
        except FdglmError as error:
            self.failure = str(error)
        self._last = time.perf_counter()
        self._cost = self._last - began
        self.spent += self._cost


def write_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Replace `path` by the checkpoint, atomically."""
    before = listed_parts(path)
    _write(path, FORMAT, checkpoint.about(), checkpoint.arrays)
    remove_parts(before)


def write_parts(path: str, checkpoint: Checkpoint, team: Team) -> None:
    """Every process its part, then the manifest, which replaces `path` when all parts are there."""
    token = team.decide("name of the checkpoint's parts", secrets.token_hex(4))
    part = f"{path}.{checkpoint.iteration}.{token}.{int(team.members[0])}.part"
    team.together(lambda: _write(part, PART, {"agents": team.members.tolist()}, checkpoint.arrays))
    parts = team.collect("parts of the checkpoint", (os.path.basename(part), team.members.tolist()))

    def manifest() -> None:
        if team.speaks:
            before = listed_parts(path)
            listed = [{"file": name, "agents": agents} for name, agents in parts]
            _write(path, FORMAT, {**checkpoint.about(), "parts": listed}, {})
            remove_parts(before)

    team.together(manifest)


def _write(path: str | os.PathLike[str], kind: str, about: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
    import h5py

    with atomic_hdf5(path, force=True) as file:
        file.attrs["format"] = kind
        for name, array in arrays.items():
            checked = {"fletcher32": True} if array.size else {}
            file.create_dataset(name, data=array, **checked)
        text = json.dumps(about)
        file.create_dataset("about", data=text, dtype=h5py.string_dtype())
        file.attrs["about_sha256"] = hashlib.sha256(text.encode()).hexdigest()  # strings have no checksum of HDF5's


def listed_parts(path: str | os.PathLike[str]) -> list[str]:
    """The parts that the manifest at `path` lists; none where there is no manifest."""
    if not os.path.isfile(path):
        return []
    try:
        about = _read(os.fspath(path), FORMAT, ())[0]
        return [_beside(os.fspath(path), part["file"]) for part in about.get("parts", [])]
    except (DataError, KeyError, TypeError):
        return []


def remove_parts(paths: list[str]) -> None:
    """Remove parts that no manifest lists any more."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def read_checkpoint(path: str, names: Iterable[str], members: npt.NDArray[np.int64] | None = None) -> Checkpoint:
    """A checkpoint of one process or of many, with the arrays `names` of the agents `members` (all by default).

    DataError where it is something else, or damaged. Arrays that are not there are left out: they may be of another
    method, which `Checkpoint.check` tells.
    """
    what = f"checkpoint '{printable(path)}'"
    kept = tuple(names)
    about, arrays = _read(path, FORMAT, kept)
    try:
        columns = [int(size) for size in about["columns"]]
        if "parts" in about:
            arrays = _from_parts(path, about["parts"], columns, members, kept)
        elif members is not None:
            arrays = take(arrays, columns, np.arange(len(columns)), members)
        trace = [Record.from_json(values).as_json() for values in about["trace"]]
        done = about["iteration"]
        if not isinstance(done, int) or done < max([0, *(record["iteration"] or 0 for record in trace)]):
            raise ValueError
        belongs, seconds = dict(about["belongs"]), float(about["seconds"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise DataError(f"{what} has a description that cannot be read.") from error
    return Checkpoint(belongs, done, arrays, trace, seconds, columns)


def _from_parts(
    path: str,
    parts: list[dict[str, Any]],
    columns: list[int],
    members: npt.NDArray[np.int64] | None,
    names: tuple[str, ...],
) -> dict[str, npt.NDArray[Any]]:
    wanted = np.arange(len(columns)) if members is None else members
    pieces = []
    for part in parts:
        held = np.array(part["agents"], np.int64)
        here = np.intersect1d(held, wanted)
        if here.size:
            pieces.append((here, take(_read(_beside(path, part["file"]), PART, names)[1], columns, held, here)))
    if not pieces or not np.isin(wanted, np.concatenate([here for here, _ in pieces])).all():
        raise DataError(f"checkpoint '{printable(path)}' lists no part for some of its agents.")
    return join(pieces, columns, wanted)


def _beside(path: str, name: str) -> str:
    """A part lies beside its manifest, wherever the manifest says it lies."""
    return os.path.join(os.path.dirname(path), os.path.basename(name))


def _read(path: str, kind: str, names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The description and the arrays of a file; a manifest has no arrays."""
    from fdglm_fast import hdf5_guard as guard
    from fdglm_fast.hdf5_heap import check_heaps

    size = guard.check_file(path).st_size
    what = f"checkpoint '{printable(path)}'"
    with guard.no_plugins(), guard.open_file(path) as file, guard.reading(what):
        check_heaps(path)
        if file.attrs.get("format") != kind:
            raise DataError(f"'{printable(path)}' is not a checkpoint of `fdglm solve`.")

        def find(name: str) -> Any:
            dataset = guard.find(file["/"], name)
            if dataset is None:
                return None
            guard.check_dataset(dataset, what, False)
            guard.check_storage(dataset, what, size)
            return dataset

        described = find("about")
        if described is None or described.shape != () or size > 1 << 50:
            raise DataError(f"{what} has no description of its run.")
        text = described.asstr()[()]
        if file.attrs.get("about_sha256") != hashlib.sha256(text.encode()).hexdigest():
            raise DataError(f"{what} is damaged: the description of its run is not what was written.")
        try:
            about = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{what} has a description that cannot be read.") from error
        if not isinstance(about, dict):
            raise DataError(f"{what} has a description that cannot be read.")
        if "parts" in about:
            return about, {}
        there = {name: found for name in names if (found := find(name)) is not None}
        for name, dataset in there.items():
            if dataset.dtype.kind != "f":
                raise DataError(f"{what} is damaged: '{name}' holds no real numbers.")
        return about, {name: dataset[...] for name, dataset in there.items()}
