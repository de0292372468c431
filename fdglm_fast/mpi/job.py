"""A whole solve on the ranks of MPI: from files to an outcome, as `fdglm_fast.job` has it for one process."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fdglm_fast.best_scale import bound_factors
from fdglm_fast.job import Job, Outcome, Watch, check_weights, reference_for
from fdglm_fast.mpi.layout import local_files, one_file, open_job
from fdglm_fast.mpi.placement import place_agents
from fdglm_fast.mpi.read import read_part
from fdglm_fast.mpi.split import own_columns
from fdglm_fast.mpi.team import RankTeam, together
from fdglm_fast.network import FITTED, Network, unscaled_network
from fdglm_fast.norms import design_norm

if TYPE_CHECKING:
    from fdglm_fast.options import Options
    from fdglm_fast.reference import Reference
    from fdglm_fast.solver import Result


@dataclass(frozen=True, eq=False)
class RankOutcome:
    """The outcome as rank 0 reports it, what is said about the ranks, and the team that holds the agents.

    With one file the coefficients of all agents are gathered at rank 0 when the run is over; with a file an agent they
    stay where they are: `own` has those of this rank.
    """

    outcome: Outcome
    facts: dict[str, Any]
    team: RankTeam
    own: Result

    def by_agent(self) -> list[tuple[int, Outcome]]:
        """The agents of this rank, numbered from 1, each with an outcome that has its own coefficients only."""
        ends = self.team.own.partition.offsets
        found = []
        for here, j in enumerate(self.team.members):
            part = slice(ends[here], ends[here + 1])
            result = replace(self.own, theta_average=self.own.theta_average[part], theta_last=self.own.theta_last[part])
            found.append((int(j) + 1, replace(self.outcome, result=result)))
        return found


def run_ranks(job: Job, options: Options, comm: Any, watch: Watch, pattern: str | None = None) -> RankOutcome:
    """Do the job with every rank of `comm`; all call this."""
    began = time.perf_counter()
    network = together(comm, lambda: _network(job, options))
    if pattern is None:
        layout = together(comm, lambda: one_file(job))
    else:
        layout = local_files(job, pattern, comm)
    allowed = None if layout.allowed is None or layout.allowed.all() else layout.allowed
    # Eigenvectors may differ between processors: one rank decides.
    sizes = layout.partition.sizes
    placement = together(comm, lambda: place_agents(network, sizes, comm.size, allowed) if comm.rank == 0 else None)
    placement = comm.bcast(placement, 0)
    compiling = _compile(comm, layout.dtype, watch)
    loading = watch.loading if comm.rank == 0 else None
    whole, own = together(comm, lambda: read_part(job, layout, placement, comm.rank, pattern, options.method, loading))
    began_reference = time.perf_counter()
    reference = together(comm, lambda: _reference(job, comm.rank, watch))
    reference = comm.bcast(None if reference is None else replace(reference, theta=np.zeros(0)), 0)
    solving = time.perf_counter()
    team = RankTeam(comm, placement, whole, own)
    network = _scaled(team, network, job, options)
    result = _solve(team, network, reference, options)
    seconds = {
        **result.seconds,
        "load": began_reference - began - compiling,
        "compile": compiling,
        "reference": solving - began_reference,
        "solve": time.perf_counter() - solving,
    }
    gathered = result if pattern is not None else gather_coefficients(team, result)
    facts = {**team.facts(), "local_data": pattern is not None}
    outcome = Outcome(job, whole, network, gathered, seconds, bound_factors=bound_factors(network, result.steps.chi))
    return RankOutcome(outcome, facts, team, result)


def _network(job: Job, options: Options) -> Network:
    """The network, before its weights are scaled for the data."""
    check_weights(job, options)
    return unscaled_network(job.graph, job.agents, job.seed, job.weights)


def _scaled(team: RankTeam, network: Network, job: Job, options: Options) -> Network:
    """The network with the weights that the job asks for; fitted ones need ||X||."""
    from threadpoolctl import threadpool_limits

    if job.weights not in FITTED or job.agents == 1:
        return network
    with threadpool_limits(1, user_api="blas"):
        return network.scaled_for(options.steps.chi or design_norm(team))


def _solve(team: RankTeam, network: Any, reference: Reference | None, options: Options) -> Result:
    from threadpoolctl import threadpool_limits

    from fdglm_fast.solver import solve_team

    with threadpool_limits(1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
        return solve_team(team, network, reference, options)


def _compile(comm: Any, dtype: Any, watch: Watch) -> float:
    """One rank of each machine fills the cache of compiled kernels, then the others load them."""
    from fdglm_fast.kernels.compile import prepare

    began = time.perf_counter()
    if comm.node_rank == 0:
        prepare(dtype, "mpi", notify=watch.say if comm.rank == 0 else None)
    comm.Barrier()
    if comm.node_rank > 0:
        prepare(dtype, "mpi")
    comm.Barrier()
    return time.perf_counter() - began


def _reference(job: Job, rank: int, watch: Watch) -> Reference | None:
    """The centralised answer, which rank 0 computes from the whole file, as --reference asks."""
    if not job.reference or rank > 0:
        return None
    from fdglm_fast.hdf5 import data_hash
    from fdglm_fast.load import load_problem

    with open_job(job) as source:
        problem = load_problem(source, job.agents, job.loss, job.penalty, dtype=job.dtype)
        return reference_for(source, problem, watch, data_hash(source))


def gather_coefficients(team: RankTeam, result: Result) -> Result:
    """All coefficients at rank 0, in the order of the columns of the file; nothing elsewhere."""
    both = np.stack([result.theta_average, result.theta_last])
    theta = np.zeros((2, team.whole.d))
    for members, values in team.comm.gather((team.members, both), 0) or []:
        theta[:, own_columns(team.whole.partition, members)] = values
    team.sent["theta, when the run is over"] += 0 if team.speaks else both.nbytes
    return replace(result, theta_average=theta[0], theta_last=theta[1])
