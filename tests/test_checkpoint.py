"""A run that was cut off and resumed ends with the bits of one that was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fdglm_fast.checkpoint import Checkpoint, Keeper, read_checkpoint
from fdglm_fast.engine import KEPT
from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.intervals import parse_interval
from fdglm_fast.network import Network, build_network
from fdglm_fast.problem import Problem
from fdglm_fast.solve import Options, Result, solve

ITERATIONS = 60


def problem(dtype: Any = np.float64, loss: str = "squared", seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((70, 9)).astype(dtype)
    y = np.sign(rng.standard_normal(70)) if loss == "logistic" else X @ rng.standard_normal(9)
    return Problem.from_arrays(X, y, agents=4, loss=loss, penalty="l1", reg=0.01)


def run(case: Problem, network: Network, iterations: int = ITERATIONS, **options: Any) -> Result:
    return solve(case, network, options=Options(iterations=iterations, record="every:7", **options))


@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_resumed_run_has_the_same_bits(loss: str, dtype: Any, tmp_path: Path) -> None:
    case, network, path = problem(dtype, loss), build_network("ring", 4), str(tmp_path / "state.h5")
    whole = run(case, network)
    asked = iter(range(10**6))
    cut = run(case, network, checkpoint=path, interrupted=lambda: next(asked) >= 3)
    assert 0 < cut.iterations < ITERATIONS
    resumed = run(case, network, resume=path)
    assert resumed.theta_average.tobytes() == whole.theta_average.tobytes()
    assert resumed.theta_last.tobytes() == whole.theta_last.tobytes()
    untimed = [[{**record.as_json(), "seconds": 0} for record in each.trace] for each in (whole, resumed)]
    assert untimed[0] == untimed[1]


def test_iterations_may_be_raised(tmp_path: Path) -> None:
    case, network, path = problem(), build_network("star", 4), str(tmp_path / "state.h5")
    run(case, network, 20, checkpoint=path)
    resumed = run(case, network, resume=path)
    assert resumed.iterations == ITERATIONS
    assert resumed.theta_last.tobytes() == run(case, network).theta_last.tobytes()
    with pytest.raises(UsageError, match="at iteration 20, beyond --iterations 10"):
        run(case, network, 10, resume=path)


def test_another_run_is_refused_by_name(tmp_path: Path) -> None:
    case, network, path = problem(), build_network("ring", 4), str(tmp_path / "state.h5")
    run(case, network, 20, checkpoint=path)
    with pytest.raises(DataError, match="belongs to another data"):
        run(problem(seed=1), network, resume=path)
    with pytest.raises(DataError, match="belongs to another graph"):
        run(case, build_network("star", 4), resume=path)
    with pytest.raises(DataError, match="belongs to another loss"):
        run(
            Problem.from_tiles(case.tiles, case.response, case.partition, "huber:1", case.penalty), network, resume=path
        )


def test_damaged_checkpoint_is_a_sentence(tmp_path: Path) -> None:
    case, network, path = problem(), build_network("ring", 4), tmp_path / "state.h5"
    run(case, network, 20, checkpoint=str(path))
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(DataError):
        read_checkpoint(str(path), KEPT)


def test_slow_writing_stretches_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("fdglm_fast.checkpoint.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(
        "fdglm_fast.checkpoint.write_checkpoint", lambda path, state: clock.__setitem__(0, clock[0] + 6.0)
    )
    keeper = Keeper("unused", every=60.0, _last=0.0)
    clock[0] = 61.0
    assert keeper.due()
    keeper.write(Checkpoint({}, 0, {}, [], 0.0))
    written = clock[0]
    clock[0] = written + 193.0
    assert not keeper.due()  # 6 s of writing allow no more than 3 % of the time: 194 s between
    clock[0] = written + 195.0
    assert keeper.due()


@pytest.mark.parametrize(("text", "seconds"), [("60", 60.0), ("60s", 60.0), ("5m", 300.0), ("2h", 7200.0), ("0", 0.0)])
def test_intervals(text: str, seconds: float) -> None:
    assert parse_interval(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "nan", "1d", "1e99"])
def test_wrong_intervals(text: str) -> None:
    with pytest.raises(UsageError):
        parse_interval(text)
