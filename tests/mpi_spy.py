"""A communicator that keeps a copy of everything that is handed to it to be sent."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

SENDING = ("Allreduce", "Reduce", "Bcast", "bcast", "allreduce", "allgather", "gather")


class Spy:
    """Around a communicator: `heard` lists (method, payload) of every call that sends."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.heard: list[tuple[str, bytes]] = []
        self.messages: list[tuple[Any, list[int], list[int]]] = []

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._comm, name)
        if name == "Create_dist_graph_adjacent":
            return lambda sources, targets, **weights: SpyGraph(inner(sources, targets, **weights), targets, self)
        if name not in SENDING:
            assert name in ("rank", "size", "Barrier", "node_rank"), name
            return inner

        def call(value: Any, *others: Any) -> Any:
            payload = value.tobytes() if isinstance(value, np.ndarray) else pickle.dumps(value)
            self.heard.append((name, payload))
            return inner(value, *others)

        return call


class SpyGraph:
    """The graph of ranks: every start of a request is a message to each of `targets`."""

    def __init__(self, graph: Any, targets: list[int], spy: Spy) -> None:
        self._graph, self._targets, self._spy = graph, list(targets), spy

    def Neighbor_alltoallv_init(self, sent: list[Any], received: list[Any]) -> Any:
        request = self._graph.Neighbor_alltoallv_init(sent, received)
        return SpyRequest(request, sent, self._targets, self._spy)


class SpyRequest:
    def __init__(self, request: Any, sent: list[Any], targets: list[int], spy: Spy) -> None:
        self._request, self._sent, self._targets, self._spy = request, sent, targets, spy
        self.Wait = request.Wait

    def Start(self) -> None:
        buffer, counts, starts, _ = self._sent
        for target, count, start in zip(self._targets, counts, starts, strict=True):
            self._spy.messages.append((target, np.array(buffer[start : start + count])))
        self._request.Start()


def windows(array: Any, length: int = 4) -> set[bytes]:
    """The bytes of every run of so many numbers of a vector."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return {flat[i : i + length].tobytes() for i in range(len(flat) - length + 1)}


def allowed_rows(specimen: Any, result: Any, iterations: int) -> tuple[list[set[bytes]], list[set[bytes]]]:
    """The rows of lambda_j and of u_j on every tile and in every iteration, by agent, from the shared-memory engine."""
    from fdglm_fast.engine import Engine

    engine = Engine(specimen.problem, specimen.network, result.steps, threads=1)
    m = specimen.problem.agents
    lam: list[set[bytes]] = [set() for _ in range(m)]
    u: list[set[bytes]] = [set() for _ in range(m)]
    for t in range(iterations + 1):
        before = np.array(engine.state.v)
        for j in range(m):
            lam[j].update(row.tobytes() for row in engine.state.lam[:, j])
        if t < iterations:
            engine.advance(1)
            new = engine.state.v
            for j in range(m):
                u[j].update(row.tobytes() for row in (new[:, j] + new[:, j]) - before[:, j])
    return lam, u


def secrets_of(team: Any, specimen: Any, result: Any) -> dict[str, set[bytes]]:
    """What may not be in anything that this rank sends; coefficients are known at rank 0, which gathered them."""
    own, found = team.own, {"X": set(), "y": set(), "theta": set()}
    for c in range(own.d):
        found["X"] |= windows(own.tiles.X[:, c].reshape(-1)[: own.tiles.rows])
    if team.holds_first:
        found["y"] = windows(own.response)
    for theta in (result.theta_average, result.theta_last) if team.speaks else ():
        for j in team.members:
            block = theta[specimen.problem.partition.columns(int(j))]
            assert np.count_nonzero(block) == len(block) >= 4
            found["theta"].add(block.tobytes())
    return found


def spied_solve(comm: Any, case: dict[str, Any]) -> Any:
    """Solve with a spy in the place of the communicator; what each rank finds about what it sent."""
    from mpi_script import make, placed, solve_on

    specimen, spy = make(case), Spy(comm)
    team, result = solve_on(spy, case, specimen)
    told = comm.bcast(result.steps if comm.rank == 0 else None, 0)
    assert told == result.steps
    lam, u = allowed_rows(specimen, result, case["iterations"])
    placement, B = placed(case, specimen, comm.size), specimen.problem.tiles.X.shape[2]
    neighbours = {(int(a), int(b)) for i, j in specimen.network.edges for a, b in ((i, j), (j, i))}
    found = {"strange rows": 0, "rows": 0, "to strangers": 0, "bytes": 0}
    for target, message in spy.messages:
        found["bytes"] += message.nbytes
        for row in message.reshape(-1, B):
            found["rows"] += 1
            # agents of this rank whose lambda or u this row is; the zeros of the start are everybody's
            owners = [j for j in team.members if row.tobytes() in lam[j] or row.tobytes() in u[j]]
            found["strange rows"] += not owners
            there = placement.members(target)
            found["to strangers"] += not any((int(j), int(k)) in neighbours for j in owners for k in there)
    # The last call is the gathering of theta when the run is over; before it, no column, no coefficient, no y.
    assert spy.heard[-1][0] == "gather"
    payloads = [part for _, part in spy.heard[:-1]] + [message.tobytes() for _, message in spy.messages]
    leaks, secrets = {}, {}
    for name, words in secrets_of(team, specimen, result).items():
        leaks[name] = sum(any(word in payload for word in words) for payload in payloads)
        secrets[name] = len(words)
    every = comm.gather({**found, "leaks": leaks, "names": sorted(team.sent), "secrets": secrets}, 0)
    facts = team.facts()
    return {"ranks": every, "facts": facts} if comm.rank == 0 else None
