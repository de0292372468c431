"""An outcome as JSON and as an HDF5 file, and back for predictions.

The file holds `theta_average` and `theta_last` (in the order of the columns of X), the trace as a table, and the whole
JSON of the run as the attribute `run`: all that is needed to do it again.
"""

from __future__ import annotations

import json
import math
import os
import platform
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast import __version__
from fdglm_fast.errors import DataError
from fdglm_fast.files import atomic_hdf5, printable
from fdglm_fast.job import Outcome

FORMAT = "fdglm-result"
FORMAT_VERSION = 1
MOST_TEXT = 64 << 20  # bytes of JSON that a result may carry: a trace of every iteration of a long run fits


# What differs from one run to the next of the same thing: the times. Everything else is the same to the last bit.
TIMES = "time"
TRACE_TIMES = "seconds"


def as_json(outcome: Outcome, tags: dict[str, str] | None = None, command: str | None = None) -> dict[str, Any]:
    """The JSON of `solve --json`; None where something is unknown, never NaN."""
    job, problem, network, result = outcome.job, outcome.problem, outcome.network, outcome.result
    end = result.trace[-1] if result.trace else None
    single = job.agents == 1
    seconds, factor = outcome.seconds, outcome.bound_factors
    return clean(
        {
            "data": {
                "path": job.data,
                "n": problem.n,
                "d": problem.d,
                "dtype": problem.dtype.name,
                "hash": outcome.data_hash,
            },
            "agents": job.agents,
            "graph": {
                "spec": None if single else job.graph,
                "weights": None if single else job.weights,
                "seed": None if single else job.seed,
                "edges": len(network.edges),
                "max_degree": network.max_degree if not single else 0,
                "laplacian_norm": network.laplacian_norm,
                "spectral_gap": network.spectral_gap,
                "attempt": network.attempt,
                "bound_factor": factor.used if factor else None,
                "unit_bound_factor": factor.unit if factor else None,
            },
            "loss": problem.loss.spec,
            "penalty": problem.penalty.spec,
            "reg": problem.penalty.reg,
            "method": result.method,
            "gossip": result.gossip,
            "steps": result.steps.as_json(),
            "iterations": result.iterations,
            "stop_reason": result.stop_reason.value,
            "objective": {
                "average": end.objective_average if end else None,
                "last": end.objective_last if end else None,
                "reference": result.reference.objective if result.reference else None,
                "zero": result.objective_at_zero,
            },
            "relative_error": {
                "average": end.relative_error_average if end else None,
                "last": end.relative_error_last if end else None,
            },
            "residual": {
                "average": end.residual_average if end else None,
                "last": end.residual_last if end else None,
            },
            "duality_gap": {
                "average": end.gap_average if end else None,
                "last": end.gap_last if end else None,
            },
            "better": result.better if end else None,
            "bound": end.bound if end else None,
            "bound_why_not": result.certificate.why_not or _too_early(outcome),
            "trace": [record.as_json() for record in result.trace],
            "cost": result.cost.as_json(result.iterations, result.effort),
            "compressed": problem.compressed,
            "schedule": result.schedule,
            TIMES: {
                "load": seconds["load"],
                "setup": seconds["setup"],
                "compile": seconds["compile"],
                "reference": seconds["reference"],
                "iterate": seconds["iterate"],
                "checkpoint": seconds["checkpoint"],
                "solve": seconds.get("solve"),
                "per_iteration_ms": 1e3 * seconds["iterate"] / max(result.iterations, 1),
            },
            "threads": result.threads,
            "version": __version__,
            "versions": versions(),
            "machine": machine(),
            "command": command,
            "decided_by": outcome.decided,
            "fingerprint": outcome.fingerprint,
            "tags": tags or {},
        }
    )


def _too_early(outcome: Outcome) -> str | None:
    promise = outcome.result.certificate
    if promise.kind == "sqrt-lipschitz" and outcome.result.iterations < 2.0 * promise.C:
        return f"the theorem speaks from iteration {math.ceil(2.0 * promise.C)} on"
    return None


def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    from importlib.metadata import version

    found = {name: version(name) for name in ("numba", "numpy", "scipy", "h5py")}
    return {"python": platform.python_version(), **found}


def machine() -> dict[str, Any]:
    """Where the numbers were computed."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
            processor = next(named, processor)
    except OSError:
        pass
    return {"system": platform.platform(), "processor": processor, "cores": os.cpu_count()}


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a run without its times: what two runs of the same thing have in common."""
    trace = [{name: value for name, value in record.items() if name != TRACE_TIMES} for record in report["trace"]]
    return {**{name: value for name, value in report.items() if name != TIMES}, "trace": trace}


def clean(value: Any) -> Any:
    """The same with None in the place of numbers that JSON has no word for."""
    if isinstance(value, dict):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def save_result(path: str | os.PathLike[str], outcome: Outcome, report: dict[str, Any], force: bool = False) -> None:
    """Write the result file: temporary file, checksums, sync, rename."""
    import h5py

    result = outcome.result
    with atomic_hdf5(path, force) as file:
        file.attrs["format"], file.attrs["format_version"] = FORMAT, FORMAT_VERSION
        for name in ("theta_average", "theta_last"):
            file.create_dataset(name, data=getattr(result, name), fletcher32=True)
        names = outcome.problem.feature_names
        if names is not None:
            file.create_dataset("feature_names", data=list(names), dtype=h5py.string_dtype())
        columns = list(report["trace"][0]) if report["trace"] else []
        for name in columns:
            values = [math.nan if record[name] is None else record[name] for record in report["trace"]]
            file.create_dataset(f"trace/{name}", data=np.array(values), fletcher32=True)
        file.create_dataset("run", data=json.dumps(report), dtype=h5py.string_dtype())


@dataclass(frozen=True, eq=False)
class StoredResult:
    """A result file that was read back."""

    theta_average: npt.NDArray[np.float64]
    theta_last: npt.NDArray[np.float64]
    run: dict[str, Any]


def read_result(path: str) -> StoredResult:
    """Read a file that `save_result` wrote; DataError where it is something else."""
    from fdglm_fast import hdf5_guard as guard
    from fdglm_fast.hdf5_heap import check_heaps

    guard.check_file(path)
    what = f"result '{printable(path)}'"
    with guard.no_plugins(), guard.open_file(path) as file, guard.reading(what):
        check_heaps(path)
        if file.attrs.get("format") != FORMAT:
            raise DataError(f"'{printable(path)}' is not a result of `fdglm solve`.")
        thetas = [_vector(guard, file, name, what) for name in ("theta_average", "theta_last")]
        text = guard.find(file["/"], "run")
        if text is None or text.shape != () or text.id.get_storage_size() > MOST_TEXT:
            raise DataError(f"{what} has no description of its run.")
        guard.check_dataset(text, what, False)
        try:
            run = json.loads(text.asstr()[()])
        except (ValueError, RecursionError) as error:
            raise DataError(f"{what} has a description that cannot be read.") from error
        if not isinstance(run, dict):
            raise DataError(f"{what} has a description that is none.")
    return StoredResult(thetas[0], thetas[1], run)


def _vector(guard: Any, file: Any, name: str, what: str) -> npt.NDArray[np.float64]:
    dataset = guard.find(file["/"], name)
    if dataset is None or len(dataset.shape) != 1 or dataset.dtype.kind != "f":
        raise DataError(f"{what} has no vector '{name}'.")
    guard.check_dataset(dataset, what, False)
    guard.check_storage(dataset, what, os.path.getsize(file.filename))
    return np.asarray(dataset[...], dtype=np.float64)
