"""A communicator that keeps a copy of everything that is handed to it to be sent, and who looks through the copies."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fdglm_fast.kernels.course import T
from fdglm_fast.kernels.period import DUE
from fdglm_fast.team import Team

SENDING = ("Allreduce", "Reduce", "Bcast", "bcast", "allreduce", "allgather", "gather")
RUN = 8  # numbers in a row that would give something away
ALIKE = 1e-9  # 1 - |cos|: an affine function of a secret to four digits and more


class Spy:
    """Around a communicator: `heard` lists (method, value) of every call that sends, `messages` the exchanges."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.heard: list[tuple[str, Any]] = []
        self.messages: list[tuple[int, Any]] = []

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._comm, name)
        if name == "Create_dist_graph_adjacent":
            return lambda sources, targets, **weights: SpyGraph(inner(sources, targets, **weights), targets, self)
        if name not in SENDING:
            assert name in ("rank", "size", "Barrier", "node_rank"), name
            return inner

        def call(value: Any, *others: Any) -> Any:
            self.heard.append((name, pickle.loads(pickle.dumps(value))))
            return inner(value, *others)

        return call


class SpyGraph:
    """The graph of ranks: every start of a request is a message to each of `targets`."""

    def __init__(self, graph: Any, targets: list[int], spy: Spy) -> None:
        self._graph, self._targets, self._spy = graph, list(targets), spy

    def Neighbor_alltoallv_init(self, sent: list[Any], received: list[Any]) -> Any:
        request = self._graph.Neighbor_alltoallv_init(sent, received)
        return SpyRequest(request, partial(self._note, sent))

    def Ineighbor_alltoallv(self, sent: list[Any], received: list[Any]) -> Any:
        self._note(sent)
        return self._graph.Ineighbor_alltoallv(sent, received)

    def _note(self, sent: list[Any]) -> None:
        buffer, counts, starts, _ = sent
        for target, count, start in zip(self._targets, counts, starts, strict=True):
            self._spy.messages.append((target, np.array(buffer[start : start + count])))


class SpyRequest:
    def __init__(self, request: Any, note: Any) -> None:
        self._request, self._note = request, note
        self.Wait = request.Wait

    def Start(self) -> None:
        self._note()
        self._request.Start()


# ------------------------------------------------------------------------------------ what gives something away


def arrays_in(value: Any) -> list[Any]:
    """The arrays of numbers in whatever was sent, flat and in double precision."""
    if isinstance(value, np.ndarray):
        return [value.reshape(-1).astype(np.float64)] if value.dtype.kind in "iuf" else []
    if isinstance(value, dict):
        return arrays_in([*value.keys(), *value.values()])
    if isinstance(value, (list, tuple)):
        single = [float(one) for one in value if isinstance(one, (int, float))]
        parts = [each for one in value if not isinstance(one, (int, float)) for each in arrays_in(one)]
        return [np.array(single), *parts]
    if is_dataclass(value):
        return arrays_in([getattr(value, field.name) for field in fields(value)])
    assert value is None or isinstance(value, (bool, int, float, str, np.generic)), type(value)
    return []


def directions(runs: Any) -> Any:
    """Runs of numbers without their means, of length one: the same for all affine functions of a run, up to sign."""
    runs = runs - runs.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(runs, axis=1)
    return runs[norms > 0.0] / norms[norms > 0.0, np.newaxis]


def secret_runs(vectors: Any) -> Any:
    """The runs of `RUN` numbers that the vectors are made of."""
    return directions(np.array([one[i : i + RUN] for one in vectors for i in range(0, len(one) - RUN + 1, RUN)]))


def count_alike(array: Any, secrets: Any) -> int:
    """How many runs of `array`, wherever they begin, are an affine function of a secret run."""
    if array.size < RUN or not len(secrets):
        return 0
    alike = np.abs(directions(np.lib.stride_tricks.sliding_window_view(array, RUN)) @ secrets.T) > 1.0 - ALIKE
    return int(alike.any(axis=1).sum())


# ----------------------------------------------------------------------------------------- what may be sent


class Witness(Team):
    """All agents in this process; it notes every lambda_j, u_j and theta that the method has."""

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        self.rows: list[set[bytes]] = [set() for _ in range(problem.agents)]
        self.theta: list[Any] = []

    def note(self, rows: Any) -> None:
        for j, seen in enumerate(self.rows[: rows.shape[1]]):
            seen.update(row.tobytes() for row in rows[:, j])

    def engine(self, method: str) -> Any:
        base: Any = super().engine(method)
        base = base.func if isinstance(base, partial) else base
        note, theta = self.note, self.theta

        class Noting(base):
            """With a slot of scratch for every tile, as the agents schedule has, u of all tiles is there to be read."""

            def advance(self, count: int) -> None:
                for _ in range(count):
                    note(self.state.lam)
                    if self.anchored and self.period.due:
                        self.rehearse()
                    super().advance(1)
                    self.note_vectors()
                    note(self.state.lam)
                    theta.extend([self.last, self.average, np.array(self.state.theta)])

            def rehearse(self) -> None:
                """A restart leaves neither p nor u: the same step without it shows u, and dp is made from its parts."""
                before = {name: array.copy() for name, array in self.snapshot().items()}
                state = self.state
                note(state.v + self._course.numbers[T] * (state.lam - state.common) - state.p_anchor)
                self._course.period[DUE] = 0.0
                super().advance(1)
                self.note_vectors()
                self.restore(self.iteration - 1, before)

            def note_vectors(self) -> None:
                note(self.state.u)
                note(self.state.front[:, 1:])  # what agent 1 sends when it knows its neighbours' vectors

        return partial(Noting, team=self)


def witness(specimen: Any, options: Any) -> Witness:
    from fdglm_fast.solver import solve_team

    team = Witness(specimen.problem)
    solve_team(team, specimen.network, None, replace(options, schedule="agents", threads=1))
    return team


def spied_solve(comm: Any, case: dict[str, Any]) -> Any:
    """Solve from files with a spy in the place of the communicator; what each rank finds about what it sent."""
    from mpi_script import make, options_of

    from fdglm_fast.job import Job, Watch
    from fdglm_fast.mpi.job import run_ranks

    specimen, options, spy = make(case), options_of(case, threads=1), Spy(comm)
    problem = specimen.problem
    job = Job(case["file"], case["agents"], case["graph"], seed=3, loss=problem.loss, penalty=problem.penalty)
    found = run_ranks(job, options, spy, Watch(), case.get("pattern"))
    spy.heard, heard = [], spy.heard
    team, seen = found.team, witness(specimen, options)
    if "pattern" not in case:  # the coefficients, when the run is over: the last but the counting of what was sent
        gathered = [k for k, (name, _) in enumerate(heard) if name == "gather"]
        assert len(gathered) == 1
        heard = heard[: gathered[0]]
    secrets = {
        "X": secret_runs(team.own.tiles.X.transpose(1, 0, 2).reshape(team.own.d, -1)[:, : team.own.n]),
        "y": secret_runs([specimen.y]),
        "theta": secret_runs([theta[problem.partition.columns(int(j))] for theta in seen.theta for j in team.members]),
    }
    leaks: Counter[str] = Counter()
    for name, runs in secrets.items():
        leaks[f"{name}, measured"] = sum(count_alike(each, runs) for _, one in heard for each in arrays_in(one))
        leaks[f"{name}, exchanged"] = sum(count_alike(message, runs) for _, message in spy.messages)
    every = comm.gather(
        {
            **_rows(spy, team, seen, specimen),
            "leaks": leaks,
            "names": sorted(team.sent),
            "secrets": {name: len(runs) for name, runs in secrets.items()},
        },
        0,
    )
    return {"ranks": every, "facts": found.facts} if comm.rank == 0 else None


def _rows(spy: Spy, team: Any, seen: Witness, specimen: Any) -> dict[str, int]:
    """Whose rows the exchanges were made of, and whether they went to a rank with a neighbour of theirs."""
    B, placement = specimen.problem.tiles.X.shape[2], team.placement
    neighbours = {(int(a), int(b)) for i, j in specimen.network.edges for a, b in ((i, j), (j, i))}
    found = {"strange rows": 0, "rows": 0, "to strangers": 0, "bytes": 0}
    for target, message in spy.messages:
        found["bytes"] += message.nbytes
        for row in message.reshape(-1, B):
            found["rows"] += 1
            # agents of this rank whose lambda or u this row is; the zeros of the start are everybody's
            owners = [j for j in team.members if row.tobytes() in seen.rows[j]]
            found["strange rows"] += not owners
            there = placement.members(target)
            found["to strangers"] += not any((int(j), int(k)) in neighbours for j in owners for k in there)
    return found
