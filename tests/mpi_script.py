"""What the tests of the MPI engine run on every rank: `mpiexec -n R python mpi_script.py TASK [JSON]`.

Every rank makes the same small problem, takes its own part of it, and solves; rank 0 prints JSON. Under one process and
the task `threads` the shared-memory engine does the same cases.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

import numpy as np

TASKS: dict[str, Any] = {}


def task(function: Any) -> Any:
    TASKS[function.__name__] = function
    return function


def world() -> Any:
    from fdglm_fast.mpi.start import world

    return world(int(os.environ.get("RANK_THREADS", "1")))


def make(case: dict[str, Any]) -> Any:
    from specimens import specimen

    from fdglm_fast.network import build_network

    network = build_network(case["graph"], case["agents"], case.get("seed", 3), case.get("weights", "unit"))
    shape = tuple(case.get("shape", (205, 3 * case["agents"] // 2)))
    owner = None
    if case.get("scattered"):
        owner = np.random.default_rng(5).permutation(np.arange(shape[1]) % case["agents"])
    dtype = np.dtype(case.get("dtype", "float64"))
    return specimen(case["loss"], case["penalty"], network, shape=shape, owner=owner, dtype=dtype)


def options_of(case: dict[str, Any], **more: Any) -> Any:
    from fdglm_fast.options import Given, Options

    if "record" in case:
        more |= {"record": case["record"], "tol": 1e-9}
    if case.get("method") == "fast":
        more = {"tol": 1e-13, "record": "every:9"} | more
        return Options(method="fast", iterations=case.get("iterations", 45), gossip=case.get("gossip", 1), **more)
    # A chi that is given would be checked, by as many reductions as it saves.
    given = Given(rule=case.get("rule", "theorem"), chi=case.get("chi"), R=case.get("R", 0.5), force="chi" in case)
    return Options(iterations=case.get("iterations", 7), steps=given, **{"record": "every:3"} | more)


def placed(case: dict[str, Any], specimen: Any, ranks: int) -> Any:
    from fdglm_fast.mpi.placement import Placement, place_agents

    if "placement" not in case:
        return place_agents(specimen.network, specimen.problem.partition.sizes, ranks)
    rng = np.random.default_rng(case["placement"])
    m = specimen.problem.agents
    rank = rng.permutation(np.concatenate([np.arange(ranks), rng.integers(0, ranks, m - ranks)]))
    ends = rank[specimen.network.edges]
    return Placement(rank, ranks, int((ends[:, 0] != ends[:, 1]).sum()))


def told(record: dict[str, Any], zero: float) -> dict[str, Any]:
    """A record without time, and without what ranks do not tell each other: residual and gap at a fit of zero."""
    for which in ("average", "last"):
        if record[f"objective_{which}"] == zero:
            record |= {f"residual_{which}": None, f"gap_{which}": None}
    return {**record, "seconds": 0}


def hashes(result: Any, theta: list[Any]) -> dict[str, str]:
    trace = [told(record.as_json(), result.objective_at_zero) for record in result.trace]
    parts = {"theta_average": theta[0].tobytes(), "theta_last": theta[1].tobytes(), "trace": repr(trace).encode()}
    parts["steps"] = repr(result.steps.as_json()).encode()
    return {name: hashlib.sha256(part).hexdigest()[:16] for name, part in parts.items()}


def solve_on(comm: Any, case: dict[str, Any], specimen: Any, **more: Any) -> tuple[Any, Any]:
    """(team, result with all coefficients at rank 0)."""
    from fdglm_fast.mpi.job import gather_coefficients
    from fdglm_fast.mpi.split import split
    from fdglm_fast.mpi.team import RankTeam
    from fdglm_fast.solver import solve_team

    placement = placed(case, specimen, comm.size)
    team = RankTeam(comm, placement, *split(specimen.problem, placement, comm.rank))
    with np.errstate(over="ignore", invalid="ignore"):
        result = solve_team(team, specimen.network, None, options_of(case, **more))
    return team, gather_coefficients(team, result)


@task
def bits(cases: list[dict[str, Any]]) -> Any:
    """Hashes of what each case gives; with `stretches` X is read, with `chunks` cut, as in large problems."""
    comm, found = world(), []
    from fdglm_fast.mpi.engine import FastRankEngine, RankEngine

    engines = (RankEngine, FastRankEngine)
    usual = [(engine.most_chunks, engine.chunk_bytes, engine.stretch_bytes) for engine in engines]
    RankEngine.stretch_widths = 0, 1 << 30  # what is read in stretches, once it is large
    for case in cases:
        for engine, (most, size, large) in zip(engines, usual, strict=True):
            engine.most_chunks, engine.chunk_bytes = (case["chunks"], 1) if "chunks" in case else (most, size)
            engine.stretch_bytes = 0 if case.get("stretches") else large
        _, result = solve_on(comm, case, make(case))
        found.append(hashes(result, [result.theta_average, result.theta_last]))
    return found if comm.rank == 0 else None


@task
def fails(rank: int) -> None:
    """One rank raises what nobody expected, while the others wait for it."""
    from fdglm_fast.mpi.start import guarded

    comm = world()
    with guarded(comm):
        if comm.rank == rank:
            raise RuntimeError("this rank has had enough")
        comm.Barrier()


@task
def fails_within(rank: int) -> None:
    """One rank's fourth exchange raises, in the middle of an iteration: below a kernel that cannot raise itself."""
    from fdglm_fast.mpi.exchange import Exchange
    from fdglm_fast.mpi.start import guarded

    comm, send, sent = world(), Exchange.start, []

    def start(self: Exchange, kind: str, c: int) -> None:
        sent.append(kind)
        if comm.rank == rank and len(sent) == 4:
            raise RuntimeError("this rank has had enough")
        send(self, kind, c)

    Exchange.start = start  # type: ignore[method-assign]
    with guarded(comm):
        case = {"graph": "ring", "agents": 6, "loss": "squared", "penalty": "none"}
        solve_on(comm, case, make(case))


@task
def spied(case: dict[str, Any]) -> Any:
    from mpi_spy import spied_solve

    return spied_solve(world(), case)


def main() -> None:
    name, text = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "null"
    answer = TASKS[name](json.loads(text))
    if answer is not None:
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
