"""Results that nobody computed: runs with errors of one's choice, for the tests of reports."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fdglm_fast.cost.model import normalized_cost
from fdglm_fast.network import build_network
from fdglm_fast.runs import Run

TIMES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 5000]


@cache
def graph_facts(graph: str | None, agents: int, seed: int) -> dict[str, Any]:
    """`graph` in the JSON of a run."""
    network = build_network(graph or "complete", agents, seed)
    return {
        "spec": graph,
        "weights": "unit" if graph else None,
        "seed": seed if graph else None,
        "edges": len(network.edges),
        "max_degree": network.max_degree,
        "laplacian_norm": network.laplacian_norm,
        "spectral_gap": network.spectral_gap,
        "attempt": network.attempt,
    }


def made_report(
    graph: str | None, agents: int, final: float, *, seed: int = 0, n: int = 16384, d: int = 2048, **changes: Any
) -> dict[str, Any]:
    """The JSON of a run whose log10 error is a straight line in log t from 0 at t = 1 to `final` at t = 5000."""
    share = np.log(TIMES) / np.log(5000.0)
    errors = 10.0 ** (final * share)
    trace = [
        {
            "iteration": t,
            "objective_average": 1.0 + float(error),
            "objective_last": 1.0 + float(error) / 2.0,
            "relative_error_average": float(error),
            "relative_error_last": float(error) / 2.0,
            "residual_average": float(np.sqrt(error)),
            "residual_last": float(np.sqrt(error)) / 2.0,
            "gap_average": None,
            "gap_last": None,
            "bound": 4.0 * float(error),
            "seconds": 0.001 * t,
        }
        for t, error in zip(TIMES, errors, strict=True)
    ]
    report = {
        "data": {"path": "data.h5", "n": n, "d": d, "dtype": "float64", "hash": "ab" * 32},
        "agents": agents,
        "graph": dict(graph_facts(graph, agents, seed)),
        "loss": "squared",
        "penalty": "none",
        "reg": 0.0,
        "method": "paper",
        "steps": {"rule": "theorem"},
        "iterations": 5000,
        "stop_reason": "iterations",
        "objective": {"average": 1.0, "last": 1.0, "reference": 1.0, "zero": 2.0},
        "relative_error": {"average": float(errors[-1]), "last": float(errors[-1]) / 2.0},
        "residual": {"average": float(np.sqrt(errors[-1])), "last": 0.0},
        "bound": 4.0 * float(errors[-1]),
        "bound_why_not": None,
        "trace": trace,
        "compressed": True,
        "time": {"iterate": 5.0, "per_iteration_ms": 1.0, "solve": 6.0},
        "threads": 2,
        "version": "0.1.0",
        "versions": {"python": "3.11", "numpy": "2.0"},
        "machine": {"system": "Linux", "processor": "made up", "cores": 2},
        "command": "fdglm sweep data.h5 --paper",
        "tags": {},
    }
    return {**report, **changes}


FAST_UNITS = 0.75  # of the paper's operations, in a made-up run by another method


def fast_report(graph: str | None, agents: int, final: float, *, end: int = 512, **more: Any) -> dict[str, Any]:
    """The JSON of a run by the method `fast` that has `final` after `end` iterations, where it stops.

    It states its own cost: one exchange an iteration, half the paper's bytes, and FAST_UNITS of its operations.
    """
    report = made_report(graph, agents, final * np.log(5000.0) / np.log(end), **more)
    report["trace"] = [record for record in report["trace"] if record["iteration"] <= end]
    for record in report["trace"]:
        record["bound"] = None
        for name in ("objective", "relative_error", "residual"):
            record[f"{name}_last"] = record[f"{name}_average"]
    data, facts = report["data"], report["graph"]
    units = FAST_UNITS * normalized_cost(data["n"], data["d"], agents, facts["max_degree"] if agents > 1 else 0)
    cost = {
        "normalized_ops_total": units * end,
        "exchanges_per_iteration": 1,
        "rounds_per_iteration": 2 if agents > 1 else 0,
        "exchanges": end if agents > 1 else 0,
        "bytes_total": 2 * facts["edges"] * data["n"] * 8 * end,
    }
    changed = {"method": "fast", "steps": {"rule": "fast"}, "iterations": end, "stop_reason": "tolerance"}
    return {**report, **changed, "bound": None, "bound_why_not": "the theorem is about another method", "cost": cost}


def fast_run(graph: str | None, agents: int, final: float, **more: Any) -> Run:
    return Run(f"fast_m{agents}_{graph}_{more.get('seed', 0)}.h5", fast_report(graph, agents, final, **more))


def made_run(graph: str | None, agents: int, final: float, **more: Any) -> Run:
    seed = more.get("seed", 0)
    return Run(f"m{agents}_{graph}_{seed}.h5", made_report(graph, agents, final, **more))


def write_result(path: Path, report: dict[str, Any]) -> None:
    """A result file with that JSON; its coefficients are of no interest."""
    with h5py.File(path, "w") as file:
        file.attrs["format"], file.attrs["format_version"] = "fdglm-result", 1
        for name in ("theta_average", "theta_last"):
            file.create_dataset(name, data=np.zeros(4))
        file.create_dataset("run", data=json.dumps(report), dtype=h5py.string_dtype())


def write_folder(folder: Path, runs: list[Run]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for k, run in enumerate(runs):
        write_result(folder / f"{k:03d}.h5", run.report)


# What makes every claim of the paper hold: log10 errors after 5000 iterations, by network and size.
PAPER_ERRORS: dict[str, dict[int, float]] = {
    "complete": {2: -6.0, 32: -6.5, 64: -6.7, 128: -6.6, 256: -6.4, 512: -6.0},
    "star": {2: -6.0, 32: -2.0, 64: -1.0, 128: -0.5, 256: -0.1, 512: -0.05},
    "er:0.5": {32: -4.5, 64: -5.0, 128: -5.5, 256: -5.2, 512: -5.0},
    "er:0.1": {32: -1.0, 64: -2.0, 128: -3.0, 256: -3.6, 512: -3.4},
    "lattice": {32: -2.0, 64: -1.5, 128: -1.0, 256: -0.7, 512: -0.5},
    "rgg": {32: -1.2, 64: -2.1, 128: -2.9, 256: -3.3, 512: -3.1},
}
SINGLE_ERROR = -7.36


def paper_runs(errors: dict[str, dict[int, float]] | None = None, seeds: tuple[int, ...] = (0, 1, 2)) -> list[Run]:
    """One agent and all networks of `errors`; the seeds of random networks are 0.01 apart."""
    runs = [made_run(None, 1, SINGLE_ERROR)]
    for graph, values in (errors or PAPER_ERRORS).items():
        for m, final in values.items():
            for seed in seeds if graph.startswith(("er", "rgg")) else (0,):
                apart = 0.01 * (seed - 1) if graph.startswith(("er", "rgg")) else 0.0
                runs.append(made_run(graph, m, final + apart, seed=seed))
    return runs
