"""The same bits whatever the threads, the schedule, what is recorded and who watches: sha256 of theta, lambda and v."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from specimens import LOSSES, PENALTIES, Specimen, specimen

from fdglm_fast import engine as engine_module
from fdglm_fast.engine import Engine
from fdglm_fast.halpern import FastEngine
from fdglm_fast.kernels.arrays import group_count, most_threads
from fdglm_fast.local_steps import local_steps
from fdglm_fast.neighbours import plan_neighbours
from fdglm_fast.network import Network, build_network
from fdglm_fast.solver import Options, solve
from fdglm_fast.steps import Given, choose_steps
from fdglm_fast.team import Team

ITERATIONS = 12
# Samples: several groups of two tiles each, the last group and the last tile incomplete.
SAMPLES = {np.float64: 3037, np.float32: 4507}
TYPES = pytest.mark.parametrize("dtype", list(SAMPLES), ids=["float64", "float32"])
two_threads = pytest.mark.skipif(most_threads() < 2, reason="this machine has one core")


class Hashes(NamedTuple):
    """What must not change."""

    theta_average: str
    theta_last: str
    lam: str
    v: str


def sha256(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Hashes]:
    """`solve`, with the engine it makes kept, so that lambda and v can be seen too."""
    engines: list[Engine] = []
    norms: dict[int, float] = {}

    class Kept(Engine):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            engines.append(self)

    monkeypatch.setattr("fdglm_fast.engine.Engine", Kept)  # where a team finds it

    def hashes(case: Specimen, iterations: int = ITERATIONS, **options: Any) -> Hashes:
        # With its constants given a solve runs few parallel loops beforehand; on a busy machine each can take long.
        chi = norms.setdefault(id(case.X), float(np.linalg.norm(case.X, 2)))
        steps = Given(chi=chi, R=0.1, force=True)
        result = solve(case.problem, case.network, options=Options(iterations=iterations, steps=steps, **options))
        state = engines[-1].state
        assert engines[-1].iteration == iterations
        assert (result.threads, result.schedule) == (options["threads"], options["schedule"])
        assert np.abs(result.theta_average).max() > 0 and np.isfinite(result.theta_last).all()
        return Hashes(*(sha256(a) for a in (result.theta_average, result.theta_last, state.lam, state.v)))

    return hashes


# Each differs from the first in what must not matter.
VARIANTS: dict[str, dict[str, Any]] = {
    "tiles, 1 thread": {"schedule": "tiles", "threads": 1, "record": f"every:{ITERATIONS}"},
    "tiles, 2 threads": {"schedule": "tiles", "threads": 2, "record": f"every:{ITERATIONS}"},
    "agents, 1 thread": {"schedule": "agents", "threads": 1, "record": f"every:{ITERATIONS}"},
    "agents, 2 threads": {"schedule": "agents", "threads": 2, "record": f"every:{ITERATIONS}"},
    "every iteration recorded": {"schedule": "tiles", "threads": 2, "record": "every:1"},
    "some recorded": {"schedule": "agents", "threads": 2, "record": "log:5"},
    "a tolerance that is not met": {"schedule": "tiles", "threads": 1, "record": "log:5", "tol": 1e-30},
    "watched": {"schedule": "tiles", "threads": 2, "record": "log:5", "progress": lambda iteration, point: None},
    "a time limit": {"schedule": "agents", "threads": 1, "record": "log:5", "time_limit": 1e6},
}


def assert_same_bits(run: Callable[..., Hashes], case: Specimen, names: list[str], folder: Path) -> Hashes:
    """The same hashes from every variant, and from a run that was cut in two."""
    first, *others = names
    expected = run(case, **VARIANTS[first])
    for name in others:
        assert run(case, **VARIANTS[name]) == expected, name
    half, state = VARIANTS[others[-1]], str(folder / "state.h5")
    run(case, ITERATIONS // 2, **{**half, "record": "log:5"}, checkpoint=state)
    assert run(case, **VARIANTS[first], resume=state) == expected, "resumed"
    return expected


@two_threads
@TYPES
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(loss: str, dtype: Any, run: Callable[..., Hashes], tmp_path: Path) -> None:
    case = specimen(loss, "l2", build_network("er:0.6", 7, seed=3), shape=(SAMPLES[dtype], 24), dtype=dtype)
    tiles = case.problem.tiles
    assert group_count(len(tiles.X)) > 8 and tiles.group > 1 and len(tiles.X) % tiles.group > 0
    assert_same_bits(run, case, list(VARIANTS), tmp_path)


@two_threads
@TYPES
@pytest.mark.parametrize("penalty", [name for name in PENALTIES if name != "l2"])
def test_penalties(penalty: str, dtype: Any, run: Callable[..., Hashes], tmp_path: Path) -> None:
    case = specimen("squared", penalty, build_network("star", 6), shape=(SAMPLES[dtype], 24), dtype=dtype)
    assert_same_bits(run, case, list(VARIANTS), tmp_path)


def weighted(network: Network, weights: Any) -> Network:
    return Network(network.agents, network.edges, np.asarray(weights, dtype=np.float64))


GRAPHS: dict[str, Callable[[], Network]] = {
    "rgg with shared sums": lambda: build_network("rgg:0.5", 24, seed=1),
    "complete": lambda: build_network("complete", 16),
    "er with complements": lambda: build_network("er:0.8", 24, seed=1),
    "star": lambda: build_network("star", 24),
    "metropolis": lambda: build_network("er:0.4", 16, seed=2, weights="metropolis"),
    "one weight": lambda: weighted(build_network("ring", 9), np.full(9, 0.3)),
    "path": lambda: build_network("path", 2),
}


@two_threads
@TYPES
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_way_of_adding_neighbours(graph: str, dtype: Any, run: Callable[..., Hashes], tmp_path: Path) -> None:
    network = GRAPHS[graph]()
    near = plan_neighbours(network, dtype).near
    assert (near.shared.size > 0) == (graph in ("rgg with shared sums", "complete", "er with complements"))
    assert bool(near.complement.any()) == (graph in ("complete", "er with complements"))
    assert (near.weights.size > 0) == (graph == "metropolis")
    case = specimen("logistic", "l2", network, shape=(SAMPLES[dtype], 31), dtype=dtype)
    assert_same_bits(run, case, list(VARIANTS)[:5], tmp_path)


@two_threads
@TYPES
def test_one_agent(dtype: Any, run: Callable[..., Hashes], tmp_path: Path) -> None:
    case = specimen("huber:0.7", "l1", build_network("complete", 1), shape=(SAMPLES[dtype], 24), dtype=dtype)
    assert_same_bits(run, case, list(VARIANTS), tmp_path)


@two_threads
def test_many_columns(run: Callable[..., Hashes], tmp_path: Path) -> None:
    """More columns than one thread sums up at a time, and blocks of them that the threads do not share evenly."""
    case = specimen("squared", "none", build_network("complete", 5), shape=(300, 1100))
    assert_same_bits(run, case, list(VARIANTS)[:5], tmp_path)


@two_threads
@pytest.mark.parametrize("slots", [1, 3])
def test_few_tiles_at_a_time(slots: int, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Hashes]) -> None:
    """The agents schedule with scratch for few of the 7 tiles goes over them in turns, the last turn a short one."""
    case = specimen("logistic", "l2", build_network("rgg:0.5", 24, seed=1), shape=(205, 24))
    expected = run(case, **VARIANTS["tiles, 1 thread"])
    sums = len(plan_neighbours(case.network, np.float64).near.part_start) - 1
    monkeypatch.setattr(engine_module, "SCRATCH_BYTES", slots * 32 * 8 * (24 + sums))
    for threads in (1, 2):
        assert run(case, **{**VARIANTS["agents, 1 thread"], "threads": threads}) == expected


def test_the_hashes_can_tell(run: Callable[..., Hashes]) -> None:
    """A change of one number by a billionth changes all four."""
    case = specimen("squared", "l2", build_network("ring", 5), shape=(40, 11))
    plain = {"schedule": "tiles", "threads": 1}
    before = run(case, **plain)
    assert run(case, **plain) == before
    case.problem.tiles.X[0, 0, 0] *= 1.0 + 1e-9
    assert all(a != b for a, b in zip(before, run(case, **plain), strict=True))


@pytest.mark.parametrize("method", ["paper", "fast"])
@TYPES
def test_x_in_stretches_or_with_the_rows(method: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large problems are read in stretches, and so is this one when it is told that it is large.

    Agents differ in their columns, and the stretches of the paper's method, three agents, do not divide them.
    """
    case = specimen("logistic", "l1", build_network("er:0.7", 7, seed=1), shape=(SAMPLES[dtype] // 4, 45), dtype=dtype)
    problem = case.problem
    given = Given(chi=float(np.linalg.norm(case.X, 2)), R=0.1)
    monkeypatch.setattr(Engine, "stretch_widths", (0, 45))
    monkeypatch.setattr(engine_module, "STRETCH", 21)

    def state(bytes_of_a_large_one: int) -> tuple[Engine, bytes]:
        monkeypatch.setattr(Engine, "stretch_bytes", bytes_of_a_large_one)
        monkeypatch.setattr(FastEngine, "stretch_bytes", bytes_of_a_large_one)
        if method == "fast":
            steps: Any = local_steps(Team(problem), case.network)
            engine: Engine = FastEngine(problem, case.network, steps, schedule="tiles", tally=True)
        else:
            steps = choose_steps(problem, case.network, given, None)
            engine = Engine(problem, case.network, steps, schedule="tiles", tally=True)
        engine.advance(77)
        kept = b"".join(np.ascontiguousarray(array).tobytes() for array in engine.snapshot().values())
        return engine, kept + b"".join(count.tobytes() for count in engine.executed().values())

    (small, one), (large, other) = state(1 << 40), state(0)
    assert (small._steps.stretch, large._steps.stretch) == (0, {"paper": 3, "fast": 7}[method])
    assert np.abs(small.last).max() > 0 and one == other
    assert method == "paper" or getattr(large.effort, "restarts", 0) >= 1
