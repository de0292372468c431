"""`solve`: steps, engine and certificate for a problem on a network, and what comes out of the run."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.run import Effort, RunCost, run_cost
from fdglm_fast.engine import Engine, bytes_per_iteration, set_threads
from fdglm_fast.errors import UsageError
from fdglm_fast.evaluate import Evaluator
from fdglm_fast.gossip import gossip
from fdglm_fast.identity import identity
from fdglm_fast.local_steps import LocalSteps, local_steps
from fdglm_fast.loop import Run
from fdglm_fast.network import Network, build_network
from fdglm_fast.norms import DIGITS, design_norm
from fdglm_fast.options import Options
from fdglm_fast.problem import Problem
from fdglm_fast.reference import Reference
from fdglm_fast.steps import StepSizes, choose_steps
from fdglm_fast.stopping import StopReason
from fdglm_fast.team import Team
from fdglm_fast.theory import Certificate, certificate
from fdglm_fast.trace import Record

Array = npt.NDArray[np.float64]
ROUNDED = {name: 10.0 ** (1 - digits) + 1e-9 for name, digits in DIGITS.items()}  # what rounding adds to ||X||


@dataclass(frozen=True, eq=False)
class Result:
    """What came out; coefficients in the order of the columns of X."""

    theta_average: Array
    theta_last: Array
    iterations: int
    stop_reason: StopReason
    trace: list[Record]
    method: str
    gossip: int
    steps: StepSizes | LocalSteps
    certificate: Certificate
    reference: Reference | None
    objective_at_zero: float
    cost: RunCost
    effort: Effort
    schedule: str
    threads: int
    seconds: dict[str, float]
    checkpoint_failure: str | None = None

    @property
    def better(self) -> str:
        """Which of the average and the last iterate has the smaller objective at the end."""
        end = self.trace[-1]
        return "average" if end.objective_average <= end.objective_last else "last"


def solve(
    problem: Problem,
    network: Network | None = None,
    *,
    reference: Reference | None = None,
    options: Options | None = None,
) -> Result:
    """Run the paper's iteration, or the fast method, for `problem` on `network` (which one agent does not need).

    `reference` is the centralised answer (`fdglm_fast.reference.solve_reference`), with which relative errors
    (L_t - L*)/(L_0 - L*) are reported and R is known. The iterates do not depend on what is recorded, on the number of
    threads, or on the schedule.
    """
    from threadpoolctl import threadpool_limits

    options = options or Options()
    options.check()
    # BLAS threads that spin after a call would take the cores from the kernels' threads. Numbers that overflow are
    # looked for where it matters, and need no warning from NumPy besides.
    with threadpool_limits(1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
        return solve_team(Team(problem), _network_for(problem, network), reference, options)


def solve_team(team: Team, network: Network, reference: Reference | None, options: Options) -> Result:
    """`solve` for the agents of a team; every process of it calls this, and all get the same result.

    On ranks the coefficients are those of the columns that are there, in agent order.
    """
    started = time.perf_counter()
    problem, own = team.whole, team.own
    threads = set_threads(options.threads, bytes_per_iteration(own))
    engine, promise = _engine(team, network, reference, options, threads)
    cost = run_cost(problem, network, options.method, options.gossip)
    run = Run(engine, Evaluator(own, engine.chi, team), options, reference, promise, cost, started)
    run.largest = engine.step_sizes.believed(problem.n)
    if options.checkpoint is not None or options.resume is not None:
        run.attach(identity(team, network, options.method, options.gossip, engine.step_sizes.identity()))
    setup = time.perf_counter() - started
    reason = run.loop()
    return Result(
        theta_average=team.in_user_order(run.good.average),
        theta_last=team.in_user_order(run.good.last),
        iterations=run.good.iteration,
        stop_reason=reason,
        trace=run.trace,
        method=options.method,
        gossip=options.gossip,
        steps=engine.step_sizes,
        certificate=promise,
        reference=reference,
        objective_at_zero=run.at_zero,
        cost=run.cost,
        effort=run.good.effort,
        schedule=engine.schedule,
        threads=threads,
        seconds={"setup": setup, "iterate": run.seconds, "checkpoint": run.checkpoint_seconds},
        checkpoint_failure=run.checkpoint_failure,
    )


def _engine(
    team: Team, network: Network, reference: Reference | None, options: Options, threads: int
) -> tuple[Engine, Certificate]:
    """The engine of the method that was asked for, and what a theorem says of it."""
    make, how = team.engine(options.method), {"schedule": options.schedule, "threads": threads}
    if options.method == "fast":
        talk, bounds = None, None
        if options.gossip > 1 and team.whole.agents > 1:
            talk = gossip(network, options.gossip)
            bounds = np.full(team.whole.agents, talk.largest)
        local = local_steps(team, network, options.steps.chi, bounds, options.primal_weight)
        why = "the paper's bound is of its own method; the residual certifies the answer of the fast one"
        return make(team.own, network, local, gossip=talk, **how), Certificate(None, why_not=why)
    steps = choose_steps(team.whole, network, options.steps, reference.norm if reference else None, team)
    return make(team.own, network, steps, **how), _certificate(team, network, steps, reference)


def _network_for(problem: Problem, network: Network | None) -> Network:
    if problem.agents == 1:
        return build_network("complete", 1)
    if network is None:
        raise UsageError(f"{problem.agents} agents need a network.")
    if network.agents != problem.agents:
        raise UsageError(f"the network has {network.agents} agents, the problem {problem.agents}.")
    return network


def _certificate(team: Team, network: Network, steps: StepSizes, reference: Reference | None) -> Certificate:
    problem, trusted = team.whole, None
    if reference is None:
        trusted = "the optimum is not known (--reference computes it)"
    elif reference.norm * (1.0 - 1e-9) > steps.R:
        trusted = f"R = {steps.R:.6g} is smaller than the norm of the optimum, {reference.norm:.6g}"
    elif steps.sigma * steps.tau * (steps.kappa / problem.n) ** 2 > 1.0 + 1e-9:
        trusted = "the steps do not keep sigma * tau * ||K||^2 <= 1"
    else:
        trusted = _wrong_constant(team, network, steps)
    constants = (steps.chi, steps.delta, steps.R)
    return certificate(problem.loss, problem.n, problem.agents, (steps.sigma, steps.tau), constants, trusted)


def _wrong_constant(team: Team, network: Network, steps: StepSizes) -> str | None:
    """Which of the constants that the user gave is no bound, if one is not."""
    given = [name for name, source in steps.sources.items() if source == "given"]
    if "chi" in given:
        norm = design_norm(team)
        if steps.chi < norm * (1.0 - ROUNDED[team.own.dtype.name]):
            return f"chi = {steps.chi:.6g} is smaller than ||X||, {norm:.6g}"
    if "D" in given and network.laplacian_norm * (1.0 - 1e-9) > steps.D:
        return f"D = {steps.D:.6g} is smaller than ||L||, {network.laplacian_norm:.6g}"
    gap = network.spectral_gap
    if "delta" in given and gap is not None and steps.delta is not None and steps.delta > gap * (1.0 + 1e-9):
        return f"delta = {steps.delta:.6g} is larger than the spectral gap, {gap:.6g}"
    return None
