"""A whole solve as one thing that can be described, run and described again: from a file to an outcome.

The command line and sweeps make a `Job`; `run` opens the file, builds the network, finds the reference where it is
asked for, compiles, solves, and keeps the times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fdglm_fast.compress import check_choice, compress, wanted
from fdglm_fast.errors import UsageError
from fdglm_fast.losses import Loss, parse_loss
from fdglm_fast.memory import require_memory, state_bytes
from fdglm_fast.partition import assign, group_numbers, merged
from fdglm_fast.penalties import GROUP_L2, Penalty, parse_penalty

if TYPE_CHECKING:
    from fdglm_fast.best_scale import BoundFactors
    from fdglm_fast.hdf5 import Source
    from fdglm_fast.network import Network
    from fdglm_fast.options import Options
    from fdglm_fast.problem import Problem
    from fdglm_fast.reference import Reference
    from fdglm_fast.solver import Result


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
    decided: dict[str, Any] = field(default_factory=dict)
    data_hash: str | None = None
    fingerprint: str | None = None
    bound_factors: BoundFactors | None = None


def check(job: Job, options: Options) -> Network:
    """The job's network, after all the checks that need neither the compiler nor X: what is wrong is told at once."""
    from fdglm_fast.hdf5 import open_source
    from fdglm_fast.network import unscaled_network

    options.check()
    check_weights(job, options)
    check_choice(job.compress, job.loss)
    with open_source(job.data, job.x, job.y, job.allow_filters) as source:
        partition = assign(source.d, job.agents, source.partition_owner())
        if job.penalty.code == GROUP_L2:
            group_numbers(source.groups(), partition)
        job.loss.prepare_response(source.require_response())
    return unscaled_network(job.graph, job.agents, job.seed, job.weights)


def check_weights(job: Job, options: Options) -> None:
    """D and delta belong to weights that the user knows, and fitted ones are not known before the data are."""
    from fdglm_fast.network import FITTED

    steps = options.steps
    if job.weights in FITTED and (steps.D is not None or steps.delta is not None):
        raise UsageError(
            f"--weights {job.weights} scales the network: --laplacian-norm and --spectral-gap cannot be given."
        )


@dataclass(frozen=True, eq=False)
class Loaded:
    """Data in memory, ready for any number of runs on different networks.

    `split_by_file` says that the file itself assigns the columns to agents; `data_hash` is None unless asked for.
    """

    problem: Problem
    reference: Reference | None
    data_hash: str | None
    split_by_file: bool
    seconds: dict[str, float]
    compressed: bool = False

    def split(self, agents: int, method: str) -> Problem:
        """The problem for another number of agents, on the same tiles."""
        if agents == self.problem.agents:
            return self.problem
        if self.split_by_file and agents == 1:
            return replace(self.problem, partition=merged(self.problem.partition))
        if self.split_by_file:
            raise UsageError(
                f"the file assigns its columns to {self.problem.agents} agents, so that they cannot be {agents}."
            )
        split = self.problem.with_agents(agents)
        rows, itemsize = split.tiles.rows, split.dtype.itemsize
        needed = state_bytes(rows, agents, itemsize, method)
        require_memory(needed, f"the state of {agents} agents with {rows} samples each")
        return split


def run(job: Job, options: Options, watch: Watch | None = None, hashed: bool = False) -> Outcome:
    """Do the job; `hashed` gives the outcome a fingerprint, for which the data are read once more."""
    watch = watch or Watch()
    network = check(job, options)
    return run_loaded(load(job, options, watch, hashed=hashed), job, options, network, watch)


def load(
    job: Job, options: Options, watch: Watch | None = None, *, hashed: bool = False, sweep: bool = False
) -> Loaded:
    """Read the data, compile, find the reference and compress, as the job asks; in a sweep, find ||X|| for all runs."""
    from threadpoolctl import threadpool_limits

    from fdglm_fast.norms import design_norm
    from fdglm_fast.team import Team

    watch = watch or Watch()
    began = time.perf_counter()
    loaded = _load(job, options, watch, hashed)
    problem = loaded.problem
    # One thread of BLAS: its sums are in the same order then, wherever and whenever this is done again.
    with threadpool_limits(1, user_api="blas"):
        compressed = wanted(job.compress, problem, sweep)
        if compressed:
            watch.say("compressing the samples to the triangular factor of [X y]")
            problem = compress(problem)
        if sweep and options.steps.chi is None:
            problem = replace(problem, norm=design_norm(Team(problem)))
    apart = loaded.seconds["compile"] + loaded.seconds["reference"]
    seconds = {**loaded.seconds, "load": time.perf_counter() - began - apart}
    return replace(loaded, problem=problem, seconds=seconds, compressed=compressed)


def run_loaded(
    loaded: Loaded, job: Job, options: Options, network: Network | None = None, watch: Watch | None = None
) -> Outcome:
    """Do a job whose data are loaded already; it may differ from the job they were loaded for in its network."""
    from fdglm_fast.best_scale import bound_factors
    from fdglm_fast.engine import planned_schedule
    from fdglm_fast.fingerprint import deciding_options, fingerprint
    from fdglm_fast.kernels.compile import prepare
    from fdglm_fast.network import unscaled_network
    from fdglm_fast.solver import solve

    watch = watch or Watch()
    if network is None:
        network = unscaled_network(job.graph, job.agents, job.seed, job.weights)
    problem = loaded.split(job.agents, options.method)
    planned = planned_schedule(problem, options.schedule, options.threads)
    compiling = prepare(problem.dtype, planned, notify=watch.say)  # where auto is not what was guessed
    began = time.perf_counter()
    problem, network = fit_weights(problem, network, job, options)
    result = solve(problem, network, reference=loaded.reference, options=options)
    seconds = {**loaded.seconds, **result.seconds, "solve": time.perf_counter() - began}
    seconds["compile"] += compiling
    decided = deciding_options(job, options, problem.dtype.name, loaded.compressed)
    mark = None if loaded.data_hash is None else fingerprint(decided, loaded.data_hash)
    factors = bound_factors(network, result.steps.chi)
    return Outcome(job, problem, network, result, seconds, decided, loaded.data_hash, mark, factors)


def fit_weights(problem: Problem, network: Network, job: Job, options: Options) -> tuple[Problem, Network]:
    """The network scaled for chi where its weights ask for that, and the problem with ||X|| where it was computed."""
    from threadpoolctl import threadpool_limits

    from fdglm_fast.network import FITTED
    from fdglm_fast.norms import design_norm
    from fdglm_fast.team import Team

    if job.weights not in FITTED or job.agents == 1:
        return problem, network
    chi = options.steps.chi
    if chi is None:
        if problem.norm is None:
            with threadpool_limits(1, user_api="blas"):
                problem = replace(problem, norm=design_norm(Team(problem)))
        chi = problem.norm
    assert chi is not None
    return problem, network.scaled_for(chi)


def _load(job: Job, options: Options, watch: Watch, hashed: bool) -> Loaded:
    """The problem and, where asked for, its reference and its hash; and what compiling and the reference took."""
    from fdglm_fast.hdf5 import data_hash, open_source

    with open_source(job.data, job.x, job.y, job.allow_filters) as source:
        from fdglm_fast.kernels.compile import prepare
        from fdglm_fast.load import chosen_dtype, load_problem

        kind = chosen_dtype(source, job.dtype)
        schedule = "agents" if options.schedule == "agents" else "tiles"
        compiling = prepare(kind, schedule, reference=job.reference, notify=watch.say)
        how: Any = {"dtype": job.dtype, "progress": watch.loading, "method": options.method}
        problem = load_problem(source, job.agents, job.loss, job.penalty, **how)
        content = data_hash(source) if hashed or job.reference else None
        began = time.perf_counter()
        reference = reference_for(source, problem, watch, content) if content and job.reference else None
        seconds = {"compile": compiling, "reference": time.perf_counter() - began}
        return Loaded(problem, reference, content, source.partition_owner() is not None, seconds)


def reference_for(source: Source, problem: Problem, watch: Watch, content: str) -> Reference:
    """The centralised answer, from the cache beside the data file when it is known already; `content` is its hash."""
    from fdglm_fast.reference import cached_reference, reference_key, solve_reference

    groups = source.groups()

    def compute() -> Reference:
        watch.say(f"solving the {problem.n} x {problem.d} problem centrally for reference")
        return solve_reference(problem.dense(), problem.response, problem.loss, problem.penalty, groups)

    key = reference_key(f"{content} {problem.dtype.name}", problem.loss, problem.penalty, groups)
    found = cached_reference(f"{source.path}.reference.h5", key, compute)
    if found.warning:
        watch.say(found.warning)
    return found.reference


def with_agents(job: Job, agents: int, graph: str, seed: int) -> Job:
    """The same job on another network."""
    return replace(job, agents=agents, graph=graph, seed=seed)
