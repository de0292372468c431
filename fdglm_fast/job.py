"""A whole solve as one thing that can be described, run and described again: from a file to an outcome.

The command line and sweeps make a `Job`; `run` opens the file, builds the network, finds the reference where it is
asked for, compiles, solves, and keeps the times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fdglm_fast.losses import Loss, parse_loss
from fdglm_fast.penalties import Penalty, parse_penalty

if TYPE_CHECKING:
    from fdglm_fast.hdf5 import Source
    from fdglm_fast.network import Network
    from fdglm_fast.problem import Problem
    from fdglm_fast.reference import Reference
    from fdglm_fast.solve import Options, Result


@dataclass(frozen=True)
class Job:
    """What to solve: the file, the split, the network, the model. How to iterate is in `Options`."""

    data: str
    agents: int
    graph: str = "complete"
    weights: str = "unit"
    seed: int = 0
    x: str = "X"
    y: str = "y"
    loss: Loss = field(default_factory=lambda: parse_loss("squared"))
    penalty: Penalty = field(default_factory=lambda: parse_penalty("none"))
    dtype: str | None = None
    reference: bool = False
    compress: str = "auto"
    allow_filters: bool = False


@dataclass(frozen=True)
class Watch:
    """How a run talks to whoever started it: lines of text, and rows loaded so far out of all."""

    say: Callable[[str], None] = lambda line: None
    loading: Callable[[int, int], None] | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """A job, what it ran on, its result and the seconds that each part took."""

    job: Job
    problem: Problem
    network: Network
    result: Result
    seconds: dict[str, float]


def check_file(job: Job) -> None:
    """Open the data and look at it, without reading X: whatever is wrong with the file is known in a moment."""
    from fdglm_fast.hdf5 import open_source

    with open_source(job.data, job.x, job.y, job.allow_filters) as source:
        source.require_response()


def run(job: Job, options: Options, watch: Watch | None = None) -> Outcome:
    """Do the job."""
    from fdglm_fast.compress import compress, wanted
    from fdglm_fast.network import build_network

    watch = watch or Watch()
    options.check()
    network = build_network(job.graph, job.agents, job.seed, job.weights)
    began = time.perf_counter()
    problem, reference, seconds = _load(job, options, watch)
    if wanted(job.compress, problem):
        watch.say("compressing the samples to the triangular factor of [X y]")
        problem = compress(problem)
    from fdglm_fast.solve import solve

    seconds["load"] = time.perf_counter() - began - seconds["compile"] - seconds["reference"]
    result = solve(problem, network, reference=reference, options=options)
    return Outcome(job, problem, network, result, {**seconds, **result.seconds})


def _load(job: Job, options: Options, watch: Watch) -> tuple[Problem, Reference | None, dict[str, float]]:
    """The problem and, where asked for, its reference; and what compiling and the reference took."""
    from fdglm_fast.hdf5 import open_source

    with open_source(job.data, job.x, job.y, job.allow_filters) as source:
        from fdglm_fast.kernels.compile import prepare
        from fdglm_fast.load import chosen_dtype, load_problem

        kind = chosen_dtype(source, job.dtype)
        schedule = "agents" if options.schedule == "agents" else "tiles"
        compiling = prepare(kind, schedule, reference=job.reference, notify=watch.say)
        problem = load_problem(source, job.agents, job.loss, job.penalty, dtype=job.dtype, progress=watch.loading)
        began = time.perf_counter()
        reference = reference_for(source, problem, watch) if job.reference else None
        return problem, reference, {"compile": compiling, "reference": time.perf_counter() - began}


def reference_for(source: Source, problem: Problem, watch: Watch) -> Reference:
    """The centralised answer, from the cache beside the data file when it is known already."""
    from fdglm_fast.hdf5 import data_hash
    from fdglm_fast.reference import cached_reference, reference_key, solve_reference

    groups = source.groups()

    def compute() -> Reference:
        watch.say(f"solving the {problem.n} x {problem.d} problem centrally for reference")
        return solve_reference(problem.dense(), problem.response, problem.loss, problem.penalty, groups)

    key = reference_key(f"{data_hash(source)} {problem.dtype.name}", problem.loss, problem.penalty, groups)
    found = cached_reference(f"{source.path}.reference.h5", key, compute)
    if found.warning:
        watch.say(found.warning)
    return found.reference


def with_agents(job: Job, agents: int, graph: str, seed: int) -> Job:
    """The same job on another network."""
    return replace(job, agents=agents, graph=graph, seed=seed)
