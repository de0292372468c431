"""The loop of a run: advance the agents to the next point of interest, look, measure, stop for a reason."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.checkpoint import Checkpoint, Keeper, read_checkpoint
from fdglm_fast.cost.run import Effort, RunCost
from fdglm_fast.engine import Engine
from fdglm_fast.errors import UsageError
from fdglm_fast.evaluate import Evaluator, Point
from fdglm_fast.files import printable
from fdglm_fast.options import Options
from fdglm_fast.reference import Reference
from fdglm_fast.stopping import BREAKDOWNS, CHECK_EVERY, FINITE_EVERY, StopReason
from fdglm_fast.theory import Certificate
from fdglm_fast.trace import Record, record_points

Array = npt.NDArray[np.float64]
CALL_SECONDS = 0.15  # how long a call of the kernels may take when somebody is watching the clock


@dataclass(frozen=True, eq=False)
class _Seen:
    """What is measured and reported of a state; theta in agent order, duals where the loss needs them."""

    iteration: int
    average: Array
    last: Array
    duals: list[Array] | None
    effort: Effort


class Run:
    """One run in progress."""

    def __init__(
        self,
        engine: Engine,
        evaluator: Evaluator,
        options: Options,
        reference: Reference | None,
        promise: Certificate,
        cost: RunCost,
        started: float,
    ) -> None:
        self.engine, self.evaluator, self.options, self.team = engine, evaluator, options, evaluator.team
        self.reference, self.promise, self.cost, self.started = reference, promise, cost, started
        self.trace: list[Record] = []
        self.seconds = 0.0
        self._tolerance = options.tolerance
        self.largest = math.inf  # entry of theta that is believed
        self._keeper: Keeper | None = None
        self.at_zero = evaluator.objective_at_zero()
        self._points = record_points(options.record, options.iterations)
        self.good = self._recorded = self._look()

    def attach(self, belongs: dict[str, Any]) -> None:
        """Go on from a checkpoint, and keep one, where the options ask for it; `belongs` tells whose it is."""
        self._belongs, path = belongs, self.options.resume
        if self.options.checkpoint is not None:
            self._keeper = Keeper(self.options.checkpoint, self.options.checkpoint_every, self.team)
        if path is None:
            return
        found = self.team.together(lambda: self._read(path))
        self.engine.restore(found.iteration, found.arrays)
        self.trace, self.seconds = [Record.from_json(values) for values in found.trace], found.seconds
        self.good = self._recorded = self._look()

    def _read(self, path: str) -> Checkpoint:
        mine = self.engine.snapshot()
        found = read_checkpoint(path, mine, self.team.members)
        found.check(self._belongs, {name: array.shape for name, array in mine.items()}, path)
        if found.iteration > self.options.iterations:
            raise UsageError(
                f"checkpoint '{printable(path)}' is at iteration {found.iteration}, beyond --iterations "
                f"{self.options.iterations}."
            )
        return found

    def _save(self) -> None:
        """Write the checkpoint. A record that was taken only because the run ended is not part of it."""
        assert self._keeper is not None
        trace = [record.as_json() for record in self.trace if self._is_due(record.iteration)]
        state = self.engine.snapshot()
        columns = self.team.whole.partition.sizes.tolist()
        self._keeper.write(Checkpoint(self._belongs, self.engine.iteration, state, trace, self.seconds, columns))

    @property
    def checkpoint_failure(self) -> str | None:
        """Why the last checkpoint could not be written, if it could not."""
        return self._keeper.failure if self._keeper else None

    @property
    def checkpoint_seconds(self) -> float:
        """What writing checkpoints has taken."""
        return self._keeper.spent if self._keeper else 0.0

    def _is_due(self, iteration: int) -> bool:
        return self._points[bisect_left(self._points, iteration)] == iteration

    def _look(self) -> _Seen:
        engine = self.engine
        duals = None if engine.problem.loss.smooth else engine.duals()
        return _Seen(engine.iteration, engine.average, engine.last, duals, engine.effort)

    def loop(self) -> StopReason:
        """Run until there is a reason to stop, and see to it that the trace ends with the state that is reported."""
        reason = self._until_reason()
        if reason not in BREAKDOWNS and self._is_sound():
            if self._keeper:
                self._save()
            return reason
        self._fall_back()
        return reason if reason in BREAKDOWNS else StopReason.NOT_FINITE

    def _until_reason(self) -> StopReason:
        """Again and again: advance to the next point of interest, look, measure."""
        if self.engine.iteration >= self.options.iterations:
            return self._end(StopReason.ITERATIONS)
        while True:
            self._advance(self._next() - self.engine.iteration)
            if not self.engine.is_finite():
                return StopReason.NOT_FINITE
            if np.abs(self.engine.state.theta).max() > self.largest:
                return StopReason.DIVERGED
            self.good = self._look()
            now = self.engine.iteration
            point = None
            due = self._is_due(now)
            if due or (self._tolerance is not None and now % CHECK_EVERY == 0):
                point = self._measure(record=due)
                if self._tolerance is not None and point.residual <= self._tolerance:
                    return self._end(StopReason.TOLERANCE)
            if self.options.progress:
                self.options.progress(now, point)
            if now >= self.options.iterations:
                return StopReason.ITERATIONS
            if self._keeper and self.team.decide("checkpoint due", self._keeper.due()):
                self._save()
            if self.options.interrupted and self.team.anyone("interrupted", self.options.interrupted()):
                return self._end(StopReason.INTERRUPTED)
            limit = self.options.time_limit
            if limit is not None and self.team.decide("time is up", time.perf_counter() - self.started >= limit):
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
        if self._tolerance is not None:
            ahead.append(now - now % CHECK_EVERY + CHECK_EVERY)
        watched = self._keeper or self.options.progress or self.options.interrupted
        if watched or self.options.time_limit is not None:
            rate = self.seconds / now if now else CALL_SECONDS
            ahead.append(now + max(1, int(CALL_SECONDS / max(rate, 1e-9))))
        return self.team.decide("next look", min(ahead))

    def _advance(self, count: int) -> None:
        before = time.perf_counter()
        self.engine.advance(count)
        self.seconds += time.perf_counter() - before

    def _measure(self, record: bool) -> Point:
        """Measure the average and the last iterate; the one with the smaller residual is returned."""
        average, last = self._points_at(self.good)
        if record:
            self.trace.append(self._record(average, last))
            self._recorded = self.good if self._is_sound() else self._recorded
        return last if last.residual < average.residual else average  # also where that of the last is not known

    def _points_at(self, seen: _Seen) -> tuple[Point, Point]:
        """The average and the last iterate, measured; the fast method has only one of them."""
        if self.engine.anchored:
            last = self.evaluator.measure([seen.last], seen.duals and seen.duals[:1])[0]
            return last, last
        average, last = self.evaluator.measure([seen.average, seen.last], seen.duals)
        return average, last

    def _record(self, average: Point, last: Point) -> Record:
        best = self.reference.objective if self.reference else None

        def error(point: Point) -> float | None:
            if best is None or not best < self.at_zero < math.inf:  # infinite: a box without 0
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
            ops_per_agent=self.cost.normalized_ops(self.good.effort),
            bytes_sent=self.cost.bytes_sent(self.good.effort),
        )
