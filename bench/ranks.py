"""Ranks of MPI against threads on this machine, and a model of many more ranks made of the measured terms.

Each measurement is a process (or R of them) of its own, in turn, best of several rounds. The fast method is timed
beside the paper's, in blocks that alternate. The model is of weak scaling:
every rank has as many samples, columns and agents as a rank had at the largest R with a core for each rank, and the
agents are a lattice with diagonals, cut into blocks. A rank then has up to 8 neighbours and sends a row for each agent
on the edge of its block:

    t(R) = compute + 2 chunks neighbours(R) latency + 2 rows(R) n itemsize / bandwidth      nothing overlapped
    t(R) = max(compute, the rest)                                                           all overlapped
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

from fdglm_bench.cases import DTYPES, Axes
from fdglm_fast.errors import UsageError
from fdglm_fast.mpi.launch import find_mpiexec

MODEL_RANKS = (1, 2, 4, 9, 16, 64, 256, 1000)
COLUMNS = (
    "engine",
    "ranks",
    "threads\neach",
    "iteration\nms",
    "compute\nms",
    "exchange\nms",
    "wait\nms",
    "times\nthreads",
    "median of\nrounds",
    "fast\nms",
    "times\npaper",
    "memory\nGB/s",
    "sent\nMB",
)
MODEL_COLUMNS = (
    "ranks",
    "agents",
    "neighbours",
    "rows\nsent",
    "exchange\nms",
    "iteration\nms",
    "overlapped\nms",
    "efficiency",
)
KEPT = ("iteration_ms", "fast_ms", "fast_times_paper", "memory_gb_s")  # of every round
SLOWEST = 600.0  # seconds for one measurement


def the_case(axes: Axes, features: int) -> dict[str, Any]:
    """The one case that ranks are measured on: 64 agents on rgg, f64, unless --cases says otherwise."""
    chosen = [axes.agents or (min(64, features),), axes.graph or ("rgg",), axes.dtype or ("f64",)]
    if axes.threads or any(len(values) > 1 for values in chosen):
        raise UsageError("with --ranks, --cases may name one m, one graph and one dtype.")
    (agents,), (graph,), (dtype,) = chosen
    return {"agents": agents, "graph": graph, "dtype": DTYPES[dtype]}


def parse_ranks(text: str, agents: int) -> list[int]:
    """'1,2,4' as numbers."""
    words = text.split(",")
    if not all(word.isdecimal() and 1 <= int(word) <= agents for word in words):
        raise UsageError(f"--ranks takes numbers from 1 to {agents} with commas between them, not '{text}'.")
    return [int(word) for word in words]


def measure_ranks(asked: dict[str, Any], ranks: list[int], rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The rows `threads` and one for each number of ranks, interleaved, over `rounds`; and the model."""
    found: dict[int | None, list[dict[str, Any]]] = {each: [] for each in (None, *ranks)}
    for number in range(1, rounds + 1):
        for each, measured in found.items():
            measured.append({"ranks": each, **_measure({**asked, "ranks": each})})
            name, ms, memory = _name(each), measured[-1]["iteration_ms"], measured[-1]["memory_gb_s"]
            say(f"round {number}/{rounds}  {name}: {ms:.3g} ms an iteration, memory {memory:.0f} GB/s")
    rows = [compare(measured, found[None]) for measured in found.values()]
    return {"case": asked, "cores": _cores(), "rows": rows, "model": weak_scaling(asked, rows)}


def _name(ranks: int | None) -> str:
    return "threads" if ranks is None else f"{ranks} ranks"


def compare(measured: list[dict[str, Any]], threads: list[dict[str, Any]]) -> dict[str, Any]:
    """The best round, against the best of threads; and the rounds, each against the threads of the same one.

    The fast method's time is its own best; its ratio the median of the rounds', each the median of its blocks'.
    """
    best, base = (min(some, key=lambda one: one["iteration_ms"]) for some in (measured, threads))
    times = [one["iteration_ms"] / other["iteration_ms"] for one, other in zip(measured, threads, strict=True)]
    rounds = [{name: one[name] for name in KEPT} for one in measured]
    return {
        **best,
        "fast_ms": min(one["fast_ms"] for one in measured),
        "fast_times_paper": median(one["fast_times_paper"] for one in measured),
        "times_threads": best["iteration_ms"] / base["iteration_ms"],
        "times_threads_median": median(times),
        "rounds": rounds,
    }


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _measure(asked: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "fdglm_bench.ranks_worker", json.dumps(asked)]
    if asked["ranks"] is not None:
        command = [find_mpiexec(), "-n", str(asked["ranks"]), *command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SLOWEST)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UsageError(f"a measurement with {asked['ranks']} ranks failed: {last}")
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def weak_scaling(asked: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Modelled times for up to 1,000 ranks; None where no measurement with two ranks or more had a core for each."""
    fair = [row for row in rows if row["ranks"] is not None and 2 <= row["ranks"] <= _cores()]
    if not fair:
        return None
    base = max(fair, key=lambda row: row["ranks"])
    agents = asked["agents"] // base["ranks"]
    row_bytes = asked["samples"] * (8 if asked["dtype"] == "float64" else 4)
    terms = {"compute_ms": base["compute_ms"], "latency_us": base["latency_us"], "bandwidth_gb": base["bandwidth_gb"]}
    points = []
    for ranks in MODEL_RANKS:
        neighbours, sent = block_surface(ranks, agents)
        latency = 1e-3 * 2 * base["chunks"] * neighbours * base["latency_us"]
        moving = 1e3 * 2 * sent * row_bytes / (1e9 * base["bandwidth_gb"])
        compute = base["compute_ms"]
        points.append(
            {
                "ranks": ranks,
                "agents": agents * ranks,
                "neighbours": neighbours,
                "rows_sent": sent,
                "exchange_ms": latency + moving,
                "iteration_ms": compute + latency + moving,
                "iteration_overlapped_ms": max(compute, latency + moving),
                "efficiency": compute / (compute + latency + moving),
            }
        )
    return {
        "is_a_model": True,
        "from_ranks": base["ranks"],
        "agents_per_rank": agents,
        "terms": terms,
        "points": points,
    }


def block_surface(ranks: int, agents: int) -> tuple[int, int]:
    """(neighbouring ranks, rows sent) of an inner rank, its agents a square block of a lattice with diagonals."""
    height = max(k for k in range(1, math.isqrt(ranks) + 1) if ranks % k == 0)
    up, across = min(height, 3) - 1, min(ranks // height, 3) - 1
    side = math.ceil(math.sqrt(agents))
    return up + across + up * across, side * (up + across) + up * across


def print_ranks(report: dict[str, Any]) -> None:
    """The measurements and the model as two tables."""
    from rich.console import Console

    from fdglm_bench.table import WIDTH, plain_table

    console = Console(highlight=False, markup=False)
    console = Console(width=max(console.width, WIDTH), highlight=False, markup=False)
    case = report["case"]
    size = f"n = {case['samples']}, d = {case['features']}, {case['agents']} agents on {case['graph']}, {case['dtype']}"
    console.print(f"{size}; {report['cores']} cores\n")
    console.print(plain_table(COLUMNS, [_cells(row) for row in report["rows"]]))
    model = report["model"]
    if model is None:
        console.print("\nno model: no measurement with two ranks or more had a core for each rank")
        return
    console.print(
        f"\nA MODEL, not a measurement: weak scaling, {model['agents_per_rank']} agents a rank on a lattice\n"
    )
    console.print(plain_table(MODEL_COLUMNS, [_model_cells(point) for point in model["points"]]))


def _cells(row: dict[str, Any]) -> list[str]:
    def ms(name: str) -> str:
        return f"{row[name]:.2f}" if name in row else ""

    head = ["threads", ""] if row["ranks"] is None else ["mpi", str(row["ranks"])]
    times = [ms(name) for name in ("iteration_ms", "compute_ms", "exchange_ms", "wait_ms")]
    sent = f"{row['bytes_per_iteration'] / 1e6:.2f}" if "bytes_per_iteration" in row else ""
    against = [f"{row[name]:.2f}" for name in ("times_threads", "times_threads_median", "fast_ms", "fast_times_paper")]
    return [*head, str(row["threads"]), *times, *against, f"{row['memory_gb_s']:.0f}", sent]


def _model_cells(point: dict[str, Any]) -> list[str]:
    whole = [str(point[name]) for name in ("ranks", "agents", "neighbours", "rows_sent")]
    times = [f"{point[name]:.3f}" for name in ("exchange_ms", "iteration_ms", "iteration_overlapped_ms")]
    return [*whole, *times, f"{point['efficiency']:.3f}"]
