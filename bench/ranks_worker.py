"""What one rank measures: `mpiexec -n R python -m fdglm_bench.ranks_worker JSON`, or without mpiexec on threads.

Rank 0 prints one JSON object: the best time of an iteration over several blocks, split into computing, handing over to
MPI (exchange) and waiting for others, each the mean over the ranks in that block; how fast all threads or ranks
together read from memory before it; between two ranks the latency and the bandwidth of MPI; and the best time of an
iteration of the fast method, in blocks that alternate with those of the paper's.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

SEED = 0
ROWS_AT_A_TIME = 256
READS = 3  # of X, to see how fast the memory is
# Nothing of ours is imported up here: how many threads Numba has is settled before it is imported.


def _draw(asked: dict[str, Any], columns: Any, first: bool) -> Any:
    """Tiles of some columns of a standard normal X; every rank draws the same numbers and keeps its own."""
    from fdglm_fast.kernels.pack import pack
    from fdglm_fast.mpi.split import own_tiles

    n, d = asked["samples"], asked["features"]
    rng, tiles = np.random.default_rng(SEED), own_tiles(n, len(columns), asked["dtype"], first)
    for start in range(0, n, ROWS_AT_A_TIME):
        part = rng.standard_normal((min(ROWS_AT_A_TIME, n - start), d)).astype(asked["dtype"])
        pack(part, start, columns, tiles.X)
    tiles.y.reshape(-1)[: len(tiles.y) and n] = np.random.default_rng(SEED + 1).standard_normal(len(tiles.y) and n)
    return tiles


def _place(asked: dict[str, Any], ranks: int) -> tuple[Any, Any, Any]:
    """Network, placement, and the problem without its data."""
    from fdglm_fast.losses import parse_loss
    from fdglm_fast.mpi.placement import place_agents
    from fdglm_fast.mpi.split import without_data
    from fdglm_fast.network import build_network
    from fdglm_fast.partition import contiguous
    from fdglm_fast.penalties import parse_penalty

    network = build_network(asked["graph"], asked["agents"], 0)
    partition = contiguous(asked["features"], asked["agents"])
    model = parse_loss("squared"), parse_penalty("none")
    whole = without_data(asked["samples"], partition, asked["dtype"], *model)
    return network, place_agents(network, partition.sizes, ranks), whole


def _part(asked: dict[str, Any], whole: Any, placement: Any, rank: int) -> Any:
    from fdglm_fast.mpi.split import own_columns, own_partition

    members = placement.members(rank)
    tiles = _draw(asked, own_columns(whole.partition, members), rank == placement.first_rank)
    return replace(whole, tiles=tiles, partition=own_partition(whole.partition, members))


def _steps(asked: dict[str, Any], team: Any, network: Any) -> Any:
    """The theorem's steps, with a bound on the norm of a normal matrix."""
    from fdglm_fast.steps import Given, choose_steps

    chi = math.sqrt(asked["samples"]) + math.sqrt(asked["features"]) + 6.0
    return choose_steps(team.whole, network, Given(chi=chi, R=1.0), None, team)


def _begin(engine: Any) -> None:
    """Start from a lambda of ordinary size: far from agent 1 the first iterations hold numbers too small to be fast."""
    from fdglm_bench.data import ordinary_duals

    state = engine.snapshot()
    tiles, agents, B = state["lam"].shape
    ordinary = ordinary_duals((tiles * agents, B)).reshape(tiles, agents, B)
    engine.restore(0, {**state, "lam": ordinary.astype(state["lam"].dtype)})
    engine.advance(2)


def _begin_fast(engine: Any) -> None:
    """Up to the first restart, which loads its kernels and touches the memory of the anchors."""
    from fdglm_fast.kernels.period import CHECK

    while engine.effort.restarts == 0:
        engine.advance(CHECK)


def on_threads(asked: dict[str, Any]) -> dict[str, Any]:
    from fdglm_bench.bandwidth import Bandwidth
    from fdglm_bench.data import normal_local_steps
    from fdglm_fast.engine import Engine, set_threads
    from fdglm_fast.halpern import FastEngine
    from fdglm_fast.kernels.compile import prepare
    from fdglm_fast.team import Team

    prepare(asked["dtype"], "tiles")
    network, placement, whole = _place(asked, 1)
    threads = set_threads(None, 1 << 40)
    team = Team(_part(asked, whole, placement, 0))
    engine = Engine(team.own, network, _steps(asked, team, network), threads=threads)
    _begin(engine)
    steps = normal_local_steps(asked["samples"], asked["features"], asked["features"], network)
    fast = FastEngine(team.own, network, steps, team=team, threads=threads)
    _begin_fast(fast)
    meter, blocks = Bandwidth(team.own.tiles.X), []
    for _ in range(asked["blocks"]):
        block = {"memory_gb_s": meter.measure(READS) / 1e9, "iteration_ms": 1e3 * _timed(engine, asked["iterations"])}
        blocks.append({**block, "fast_ms": 1e3 * _timed(fast, asked["iterations"])})
    return {**_best(blocks), "threads": engine.threads}


def _best(blocks: list[dict[str, float]]) -> dict[str, float]:
    """The quickest block of the paper's method, with the fast one's best time and the median of the blocks' ratios."""
    ratios = [block["fast_ms"] / block["iteration_ms"] for block in blocks]
    best = min(blocks, key=lambda block: block["iteration_ms"])
    return {**best, "fast_ms": min(block["fast_ms"] for block in blocks), "fast_times_paper": median(ratios)}


def on_ranks(comm: Any, asked: dict[str, Any]) -> dict[str, Any]:
    from fdglm_bench.bandwidth import Bandwidth
    from fdglm_bench.data import normal_local_steps
    from fdglm_fast.engine import set_threads
    from fdglm_fast.kernels.compile import prepare
    from fdglm_fast.mpi.engine import FastRankEngine, RankEngine
    from fdglm_fast.mpi.team import RankTeam

    for turn in (0, 1):  # one rank compiles, the others load
        if (comm.node_rank > 0) == turn:
            prepare(asked["dtype"], "mpi")
        comm.Barrier()
    network, placement, whole = _place(asked, comm.size)
    team = RankTeam(comm, placement, whole, _part(asked, whole, placement, comm.rank))
    threads = set_threads(None, 1 << 40)
    engine = RankEngine(team.own, network, _steps(asked, team, network), team=team, threads=threads)
    _begin(engine)
    facts = team.facts()  # of the paper's engine; the next one takes its place
    steps = normal_local_steps(asked["samples"], asked["features"], team.own.d, network)
    fast = FastRankEngine(team.own, network, steps, team=team, threads=threads)
    _begin_fast(fast)
    meter = Bandwidth(team.own.tiles.X)
    blocks = [_block(comm, engine, fast, meter, asked["iterations"]) for _ in range(asked["blocks"])]
    kept = ("cut_edges", "bytes_per_iteration", "model_bytes_per_iteration")
    chunks = {"chunks": len(engine._chunks), "persistent": engine.exchange.persistent}
    return {**_best(blocks), "threads": threads, **chunks, **{name: facts[name] for name in kept}, **_link(comm)}


def _timed(engine: Any, count: int) -> float:
    began = time.perf_counter()
    engine.advance(count)
    return (time.perf_counter() - began) / count


def _block(comm: Any, engine: Any, fast: Any, meter: Any, count: int) -> dict[str, float]:
    """A few iterations of either method, and how fast all ranks together read from memory just before."""
    exchange = engine.exchange
    comm.Barrier()
    memory = comm.allreduce(meter.measure(READS))
    before = dict(exchange.seconds)
    comm.Barrier()
    seconds = _timed(engine, count)
    parts = {name: (exchange.seconds[name] - before[name]) / count for name in before}
    comm.Barrier()
    of_fast = _timed(fast, count)
    every = comm.allgather({"iteration": seconds, "compute": seconds - sum(parts.values()), "fast": of_fast, **parts})
    means = {f"{name}_ms": 1e3 * float(np.mean([one[name] for one in every])) for name in ("compute", *parts)}
    slowest = {f"{name}_ms": 1e3 * max(one[name] for one in every) for name in ("iteration", "fast")}
    return {**slowest, **means, "memory_gb_s": memory / 1e9}


def _link(comm: Any, count: int = 50) -> dict[str, float | None]:
    """Seconds of a small message and bytes a second of a large one, there and back between ranks 0 and 1."""
    if comm.size == 1:
        return {"latency_us": None, "bandwidth_gb": None}
    found = []
    for size in (8, 4 << 20):
        buffer = np.zeros(size, np.uint8)
        comm.Barrier()
        began = time.perf_counter()
        for _ in range(count):
            if comm.rank == 0:
                comm.Send(buffer, 1)
                comm.Recv(buffer, 1)
            elif comm.rank == 1:
                comm.Recv(buffer, 0)
                comm.Send(buffer, 0)
        found.append((time.perf_counter() - began) / (2 * count))
    found = comm.bcast(found, 0)
    return {"latency_us": 1e6 * found[0], "bandwidth_gb": (4 << 20) / found[1] / 1e9}


def main() -> None:
    asked = json.loads(sys.argv[1])
    if asked["ranks"] is None:
        print(json.dumps(on_threads(asked)))
        return
    from fdglm_fast.mpi.start import guarded, world

    comm = world()
    with guarded(comm):
        answer = on_ranks(comm, asked)
    if comm.rank == 0:
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
