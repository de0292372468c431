"""The whole state of a run in a file, to go on from after a kill with the same bits.

Written to a temporary file, synced and renamed, so that a kill at any moment leaves the old checkpoint or the new one.
A checkpoint names what it belongs to (data, network, model, steps, type, version); resuming anything else is refused,
and the refusal names the difference.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast import __version__
from fdglm_fast.engine import KEPT
from fdglm_fast.errors import DataError, FdglmError
from fdglm_fast.files import atomic_hdf5, printable
from fdglm_fast.network import Network
from fdglm_fast.problem import Problem
from fdglm_fast.trace import Record

FORMAT = "fdglm-checkpoint"
SHARE = 0.03  # of a run's time that writing may take
MOST_TEXT = 64 << 20


def identity(problem: Problem, network: Network, sigma: float, tau: float) -> dict[str, Any]:
    """What a checkpoint belongs to; two runs with the same identity have the same iterates."""
    return {
        "version": __version__,
        "data": problem.fingerprint,
        "graph": network_hash(network),
        "agents": problem.agents,
        "loss": problem.loss.spec,
        "penalty": problem.penalty.spec,
        "reg": problem.penalty.reg,
        "type": problem.dtype.name,
        "sigma": sigma,
        "tau": tau,
    }


def network_hash(network: Network) -> str:
    """SHA-256 of the vertices, edges and weights."""
    digest = hashlib.sha256(str(network.agents).encode())
    digest.update(np.ascontiguousarray(network.edges, dtype="<i8").data)
    digest.update(np.ascontiguousarray(network.weights, dtype="<f8").data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A state after `iteration` iterations, with the trace and the seconds spent so far."""

    belongs: dict[str, Any]
    iteration: int
    arrays: dict[str, npt.NDArray[Any]]
    trace: list[dict[str, Any]]
    seconds: float

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
            write_checkpoint(self.path, checkpoint)
            self.failure = None
        except FdglmError as error:
            self.failure = str(error)
        self._last = time.perf_counter()
        self._cost = self._last - began
        self.spent += self._cost


def write_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Replace `path` by the checkpoint, atomically."""
    import h5py

    about = {
        "belongs": checkpoint.belongs,
        "iteration": checkpoint.iteration,
        "seconds": checkpoint.seconds,
        "trace": checkpoint.trace,
    }
    with atomic_hdf5(path, force=True) as file:
        file.attrs["format"] = FORMAT
        for name in KEPT:
            array = checkpoint.arrays[name]
            checked = {"fletcher32": True} if array.size else {}
            file.create_dataset(name, data=array, **checked)
        text = json.dumps(about)
        file.create_dataset("about", data=text, dtype=h5py.string_dtype())
        file.attrs["about_sha256"] = hashlib.sha256(text.encode()).hexdigest()  # strings have no checksum of HDF5's


def read_checkpoint(path: str) -> Checkpoint:
    """A checkpoint that `write_checkpoint` wrote; DataError where it is something else, or damaged."""
    from fdglm_fast import hdf5_guard as guard
    from fdglm_fast.hdf5_heap import check_heaps

    size = guard.check_file(path).st_size
    what = f"checkpoint '{printable(path)}'"
    with guard.no_plugins(), guard.open_file(path) as file, guard.reading(what):
        check_heaps(path)
        if file.attrs.get("format") != FORMAT:
            raise DataError(f"'{printable(path)}' is not a checkpoint of `fdglm solve`.")
        found = {}
        for name in (*KEPT, "about"):
            dataset = guard.find(file["/"], name)
            if dataset is None:
                raise DataError(f"{what} has no '{name}'.")
            guard.check_dataset(dataset, what, False)
            guard.check_storage(dataset, what, size)
            if name in KEPT and dataset.dtype.kind != "f":
                raise DataError(f"{what} is damaged: '{name}' holds no real numbers.")
            found[name] = dataset
        if found["about"].shape != () or size > 1 << 50:
            raise DataError(f"{what} has no description of its run.")
        arrays = {name: found[name][...] for name in KEPT}
        text = found["about"].asstr()[()]
        if file.attrs.get("about_sha256") != hashlib.sha256(text.encode()).hexdigest():
            raise DataError(f"{what} is damaged: the description of its run is not what was written.")
    try:
        about = json.loads(text)
        trace = [Record.from_json(values).as_json() for values in about["trace"]]
        done = about["iteration"]
        if not isinstance(done, int) or done < max([0, *(record["iteration"] or 0 for record in trace)]):
            raise ValueError
        return Checkpoint(dict(about["belongs"]), done, arrays, trace, float(about["seconds"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{what} has a description that cannot be read.") from error
