"""The loop: advance the agents, measure at the record points, stop for a reason."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdglm_fast.engine import Engine, bytes_per_iteration, set_threads
from fdglm_fast.errors import UsageError
from fdglm_fast.evaluate import Evaluator, Point
from fdglm_fast.network import Network, build_network
from fdglm_fast.norms import block_norms
from fdglm_fast.options import Options
from fdglm_fast.problem import Problem
from fdglm_fast.reference import Reference
from fdglm_fast.steps import StepSizes, choose_steps
from fdglm_fast.stopping import CHECK_EVERY, FINITE_EVERY, StopReason
from fdglm_fast.theory import Certificate, certificate
from fdglm_fast.trace import Record, record_points

Array = npt.NDArray[np.float64]
CALL_SECONDS = 0.15  # how long a call of the kernels may take when somebody is watching the clock


@dataclass(frozen=True, eq=False)
class Result:
    """What came out; coefficients in the order of the columns of X."""

    theta_average: Array
    theta_last: Array
    iterations: int
    stop_reason: StopReason
    trace: list[Record]
    steps: StepSizes
    certificate: Certificate
    reference: Reference | None
    objective_at_zero: float
    schedule: str
    threads: int
    seconds: dict[str, float]

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
    """Run the paper's iteration for `problem` on `network` (which one agent does not need).

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
        return _solve(problem, _network_for(problem, network), reference, options)


def _solve(problem: Problem, network: Network, reference: Reference | None, options: Options) -> Result:
    started = time.perf_counter()
    threads = set_threads(options.threads, bytes_per_iteration(problem))
    steps = choose_steps(problem, network, options.steps, reference.norm if reference else None)
    engine = Engine(problem, network, steps, schedule=options.schedule, threads=threads)
    promise = _certificate(problem, network, steps, reference)
    run = _Run(engine, Evaluator(problem, steps.chi), options, reference, promise, started)
    setup = time.perf_counter() - started
    reason = run.loop()
    return Result(
        theta_average=problem.in_user_order(run.good.average),
        theta_last=problem.in_user_order(run.good.last),
        iterations=run.good.iteration,
        stop_reason=reason,
        trace=run.trace,
        steps=steps,
        certificate=promise,
        reference=reference,
        objective_at_zero=run.at_zero,
        schedule=engine.schedule,
        threads=threads,
        seconds={"setup": setup, "iterate": run.seconds},
    )


def _network_for(problem: Problem, network: Network | None) -> Network:
    if problem.agents == 1:
        return build_network("complete", 1)
    if network is None:
        raise UsageError(f"{problem.agents} agents need a network.")
    if network.agents != problem.agents:
        raise UsageError(f"the network has {network.agents} agents, the problem {problem.agents}.")
    return network


def _certificate(problem: Problem, network: Network, steps: StepSizes, reference: Reference | None) -> Certificate:
    trusted = None
    if reference is None:
        trusted = "the optimum is not known (--reference computes it)"
    elif reference.norm * (1.0 - 1e-9) > steps.R:
        trusted = f"R = {steps.R:.6g} is smaller than the norm of the optimum, {reference.norm:.6g}"
    elif steps.sigma * steps.tau * (steps.kappa / problem.n) ** 2 > 1.0 + 1e-9:
        trusted = "the steps do not keep sigma * tau * ||K||^2 <= 1"
    else:
        trusted = _wrong_constant(problem, network, steps)
    constants = (steps.chi, steps.delta, steps.R)
    return certificate(problem.loss, problem.n, problem.agents, (steps.sigma, steps.tau), constants, trusted)


def _wrong_constant(problem: Problem, network: Network, steps: StepSizes) -> str | None:
    """Which of the constants that the user gave is no bound, if one is not."""
    given = [name for name, source in steps.sources.items() if source == "given"]
    if "chi" in given:
        norm = float(block_norms(problem.tiles, np.array([0, problem.d]))[0])
        if steps.chi < norm * (1.0 - 1e-9):
            return f"chi = {steps.chi:.6g} is smaller than ||X||, {norm:.6g}"
    if "D" in given and steps.D < network.laplacian_norm * (1.0 - 1e-9):
        return f"D = {steps.D:.6g} is smaller than ||L||, {network.laplacian_norm:.6g}"
    gap = network.spectral_gap
    if "delta" in given and gap is not None and steps.delta is not None and steps.delta > gap * (1.0 + 1e-9):
        return f"delta = {steps.delta:.6g} is larger than the spectral gap, {gap:.6g}"
    return None


@dataclass(frozen=True, eq=False)
class _Seen:
    """What is measured and reported of a state; theta in agent order, duals where the loss needs them."""

    iteration: int
    average: Array
    last: Array
    duals: list[Array] | None


class _Run:
    """One run in progress."""

    def __init__(
        self,
        engine: Engine,
        evaluator: Evaluator,
        options: Options,
        reference: Reference | None,
        promise: Certificate,
        started: float,
    ) -> None:
        self.engine, self.evaluator, self.options = engine, evaluator, options
        self.reference, self.promise, self.started = reference, promise, started
        self.trace: list[Record] = []
        self.seconds = 0.0
        self.at_zero = evaluator.objective_at_zero()
        self._points = record_points(options.record, options.iterations)
        self.good = self._recorded = self._look()

    def _look(self) -> _Seen:
        engine = self.engine
        duals = None if engine.problem.loss.smooth else engine.duals()
        return _Seen(engine.iteration, engine.average, engine.last, duals)

    def loop(self) -> StopReason:
        """Run until there is a reason to stop, and see to it that the trace ends with the state that is reported."""
        reason = self._until_reason()
        if reason is not StopReason.NOT_FINITE and self._is_sound():
            return reason
        self._fall_back()
        return StopReason.NOT_FINITE

    def _until_reason(self) -> StopReason:
        """Again and again: advance to the next point of interest, look, measure."""
        while True:
            self._advance(self._next() - self.engine.iteration)
            if not self.engine.is_finite():
                return StopReason.NOT_FINITE
            self.good = self._look()
            now = self.engine.iteration
            point = None
            due = self._points[bisect_left(self._points, now)] == now
            if due or (self.options.tol is not None and now % CHECK_EVERY == 0):
                point = self._measure(record=due)
                if self.options.tol is not None and point.residual <= self.options.tol:
                    return self._end(StopReason.TOLERANCE)
            if self.options.progress:
                self.options.progress(now, point)
            if now >= self.options.iterations:
                return StopReason.ITERATIONS
            if self.options.interrupted and self.options.interrupted():
                return self._end(StopReason.INTERRUPTED)
            limit = self.options.time_limit
            if limit is not None and time.perf_counter() - self.started >= limit:
                return self._end(StopReason.TIME)

    def _end(self, reason: StopReason) -> StopReason:
        """A run that ends between two record points ends with a record of its own."""
        if not self.trace or self.trace[-1].iteration != self.engine.iteration:
            self._measure(record=True)
        return reason

    def _is_sound(self) -> bool:
        """Whether the objective is a number in the last record, as it may not be of huge but finite iterates."""
        end = self.trace[-1]
        return math.isfinite(end.objective_average) or math.isfinite(end.objective_last)

    def _fall_back(self) -> None:
        """Report the last finite iterates, or those of the last record with an objective that is a number."""
        if not self.trace or self.trace[-1].iteration < self.good.iteration:
            self._measure(record=True)
        while self.trace and not self._is_sound():
            self.trace.pop()
        if not self.trace or self.trace[-1].iteration < self.good.iteration:
            self.good = self._recorded

    def _next(self) -> int:
        """The iteration to stop at next: a record, a check, or as far as the clock allows."""
        now = self.engine.iteration
        ahead = [now + FINITE_EVERY, self._points[bisect_right(self._points, now)]]
        if self.options.tol is not None:
            ahead.append(now - now % CHECK_EVERY + CHECK_EVERY)
        if self.options.progress or self.options.interrupted or self.options.time_limit is not None:
            rate = self.seconds / now if now else CALL_SECONDS
            ahead.append(now + max(1, int(CALL_SECONDS / max(rate, 1e-9))))
        return min(ahead)

    def _advance(self, count: int) -> None:
        before = time.perf_counter()
        self.engine.advance(count)
        self.seconds += time.perf_counter() - before

    def _measure(self, record: bool) -> Point:
        """Measure the average and the last iterate; the one with the smaller residual is returned."""
        seen = self.good
        average, last = self.evaluator.measure([seen.average, seen.last], seen.duals)
        if record:
            self.trace.append(self._record(average, last))
            self._recorded = seen if self._is_sound() else self._recorded
        return average if average.residual <= last.residual else last

    def _record(self, average: Point, last: Point) -> Record:
        best = self.reference.objective if self.reference else None

        def error(point: Point) -> float | None:
            if best is None or self.at_zero <= best:
                return None
            return (point.objective - best) / (self.at_zero - best)

        return Record(
            iteration=self.good.iteration,
            objective_average=average.objective,
            objective_last=last.objective,
            relative_error_average=error(average),
            relative_error_last=error(last),
            residual_average=average.residual,
            residual_last=last.residual,
            gap_average=average.gap,
            gap_last=last.gap,
            bound=None if best is None else self.promise.gap(self.good.iteration, best),
            seconds=self.seconds,
        )
