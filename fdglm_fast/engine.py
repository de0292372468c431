"""The shared-memory engine: the state of all agents in one process, advanced by the fused kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fdglm_fast.cost.run import Effort
from fdglm_fast.errors import unknown_name
from fdglm_fast.kernels.arrays import State, Steps, aligned_zeros, group_count, most_threads
from fdglm_fast.kernels.columns import STRETCH
from fdglm_fast.kernels.course import Course, steady
from fdglm_fast.kernels.tally import PHASES
from fdglm_fast.neighbours import Plan, plan_neighbours
from fdglm_fast.network import Network
from fdglm_fast.options import SCHEDULES, check_threads
from fdglm_fast.problem import Problem

SCRATCH_BYTES = 4 << 20  # what the agents schedule may use for u: more tiles at a time, but still in cache
BYTES_A_THREAD = 1 << 20  # of an iteration: below it a second thread is not worth waking
KEPT = ("theta", "theta_out", "g", "v", "lam", "lam_out")  # of the state; the rest is scratch
Array = npt.NDArray[np.float64]


def set_threads(threads: int | None, work: int) -> int:
    """Use that many threads and say how many they are; by default all, but no more than `work` bytes keep busy.

    Waking a thread costs more than a small problem's iteration does, above all on a machine that others use too.
    """
    import numba

    most = most_threads()
    check_threads(threads, most)
    chosen = threads or max(1, min(most, work // BYTES_A_THREAD))
    numba.set_num_threads(chosen)
    return chosen


def bytes_per_iteration(problem: Problem) -> int:
    """What an iteration moves: X read once, lambda and v read and written, itemsize (n d + 4 n m)."""
    m = problem.agents if problem.agents > 1 else 0
    return int(problem.dtype.itemsize * problem.tiles.rows * (problem.d + 4 * m))


def choose_schedule(schedule: str, agents: int, groups: int, threads: int) -> str:
    """auto: tiles, unless there are too few groups of tiles to keep every thread busy and enough agents that do."""
    if schedule not in SCHEDULES:
        raise unknown_name("schedule", schedule, SCHEDULES)
    if schedule != "auto":
        return schedule
    return "agents" if groups < threads <= agents else "tiles"


def planned_schedule(problem: Problem, schedule: str, threads: int | None) -> str:
    """The schedule that a solve of `problem` will take, so that its kernels can be compiled ahead."""
    groups = group_count(problem.tiles.X.shape[0])
    return choose_schedule(schedule, problem.agents, groups, set_threads(threads, bytes_per_iteration(problem)))


class Engine:
    """All agents' state after `iteration` iterations of the paper's method; theta in agent order."""

    kept: tuple[str, ...] = KEPT
    anchored = False  # whether the state has an anchor (see `fdglm_fast.halpern`)
    stretch_bytes = 128 << 20  # of an iteration, from which on X comes from the memory, and may be read in stretches
    stretch_widths = 8, 64  # columns of an agent in the mean, for which it is then faster

    def __init__(
        self,
        problem: Problem,
        network: Network,
        steps: Any,
        *,
        schedule: str = "auto",
        threads: int = 1,
        tally: bool = False,
        team: Any = None,
    ) -> None:
        """`team` is who holds the agents, where an engine has to know (see `fdglm_fast.team`)."""
        from fdglm_fast.kernels.iterate import iterate_agents, iterate_tiles

        self.problem, self.iteration, self.threads, self.team = problem, 0, threads, team
        self.step_sizes, self.chi = steps, steps.chi
        tiles, d = problem.tiles.X.shape[0], problem.d
        groups = group_count(tiles)
        self.schedule = choose_schedule(schedule, problem.agents, groups, threads)
        self._kernel = iterate_tiles if self.schedule == "tiles" else iterate_agents
        self._plan = self._make_plan(network)
        self._model = problem.model()
        self._steps = self._kernel_steps(steps)
        self._course = self._make_course(steps)
        counted = np.zeros((most_threads(), len(PHASES), problem.agents), np.int64) if tally else None
        self.state = self._allocate(tiles, d, groups)._replace(tally=counted)

    def _whole_plan(self, network: Network) -> Plan:
        """How all agents' sums over neighbours are formed."""
        return plan_neighbours(network, self.problem.dtype)

    def _make_plan(self, network: Network) -> Plan:
        """Those of the agents that are here."""
        return self._whole_plan(network)

    def _kernel_steps(self, steps: Any) -> Steps:
        """The steps as the kernels take them."""
        problem = self.problem
        t = steps.tau / problem.n * self._plan.scale**2
        sigma = np.full(problem.agents, steps.sigma / problem.n, problem.dtype)
        none = np.zeros(0, problem.dtype)
        number = problem.dtype.type
        return Steps(
            tau=steps.tau,
            t=number(t),
            agents=np.arange(problem.agents),
            s=sigma,
            first=number(steps.sigma / problem.n),
            fast=False,
            gain=number(0),
            pull=number(0),
            scale=np.zeros(0),
            mix=none,
            hears=none > 0,
            joined=none,
            shift=number(0),
            stretch=self._stretch(),
        )

    def _stretch(self) -> int:
        """Of how many agents X is read at a time, 0 if it goes with each agent's rows (see `kernels/columns.py`)."""
        large = bytes_per_iteration(self.problem) > self.stretch_bytes
        return self._longest_stretch() if large and self.schedule == "tiles" else 0

    def _longest_stretch(self) -> int:
        least, most = self.stretch_widths
        agents, width = self.problem.agents, self.problem.d / self.problem.agents
        return max(1, int(STRETCH / width)) if agents == 1 or least <= width <= most else 0

    def _make_course(self, steps: Any) -> Course:
        """How they change from iteration to iteration."""
        return steady(self.problem.dtype)

    def _allocate(self, tiles: int, d: int, groups: int) -> State:
        problem, dtype = self.problem, self.problem.dtype
        m, B = problem.agents, problem.tiles.X.shape[2]
        sums = len(self._plan.near.part_start) - 1
        most = most_threads()
        slots = most
        if self.schedule == "agents":
            row = B * dtype.itemsize * (m + sums)
            slots = max(most, min(tiles, SCRATCH_BYTES // row))
        several = m if m > 1 else 0
        anchors = int(self.anchored)
        return State(
            theta=np.zeros(d),
            theta_out=np.zeros(d),
            g=np.zeros(d),
            v=aligned_zeros((tiles, several, B), dtype),
            lam=aligned_zeros((tiles, m, B), dtype),
            lam_out=aligned_zeros((tiles, B), np.float64),
            theta_anchor=np.zeros(d * anchors),
            p_anchor=aligned_zeros((tiles, several * anchors, B), dtype),
            lam_anchor=aligned_zeros((tiles, m * anchors, B), dtype),
            common=aligned_zeros((tiles, anchors, B), dtype),
            w=aligned_zeros((d,), dtype),
            partial=aligned_zeros((groups, d), np.float64),
            u=aligned_zeros((slots, several, B), dtype),
            q=aligned_zeros((slots, several, B), dtype),
            front=aligned_zeros((slots, 2, B), dtype),
            pool=aligned_zeros((slots, sums, B), dtype),
            line=aligned_zeros((most, 1, B), dtype),
            moves=np.zeros((groups, m * anchors, 3)),
        )

    def advance(self, count: int) -> None:
        """`count` iterations of all agents."""
        self._kernel(count, *self._shared(self._course))
        self.iteration += count

    def _shared(self, course: Course) -> tuple[Any, ...]:
        """What the kernels take last."""
        offsets = self.problem.partition.offsets
        return self.problem.tiles, offsets, self._plan.near, self._model, self._steps, course, self.state

    @property
    def last(self) -> Array:
        """theta_t, a copy."""
        return np.array(self.state.theta)

    @property
    def average(self) -> Array:
        """The ergodic average (theta_1 + ... + theta_t)/t."""
        return np.asarray(self.state.theta_out / max(self.iteration, 1))

    def duals(self) -> list[Array]:
        """Agent 1's lambda: its average and its last value, in tiles."""
        return [self.state.lam_out / max(self.iteration, 1), self.state.lam[:, 0].astype(np.float64)]

    def snapshot(self) -> dict[str, npt.NDArray[np.generic]]:
        """The arrays that the next iteration depends on; not copies."""
        return {name: getattr(self.state, name) for name in self.kept}

    def restore(self, iteration: int, arrays: dict[str, npt.NDArray[np.generic]]) -> None:
        """Go on from a snapshot of the same problem."""
        for name in self.kept:
            getattr(self.state, name)[...] = arrays[name]
        self.iteration = iteration

    @property
    def effort(self) -> Effort:
        """What has been done so far, for the cost model."""
        return Effort(self.iteration)

    def executed(self) -> dict[str, npt.NDArray[np.int64]]:
        """Operations so far, by phase and agent, of an engine made with `tally`."""
        total = self.state.tally.sum(axis=0)
        return {phase: total[k] for k, phase in enumerate(PHASES)}

    def is_finite(self) -> bool:
        """Whether the iterates are numbers. A lambda that is not spoils theta in the next iteration."""
        return bool(np.isfinite(self.state.theta_out.sum()) and np.isfinite(self.state.g.sum()))
