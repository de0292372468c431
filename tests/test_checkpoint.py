"""A run that was cut off and resumed ends with the bits of one that was not."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fdglm_fast.checkpoint import Checkpoint, Keeper, read_checkpoint
from fdglm_fast.engine import KEPT
from fdglm_fast.errors import DataError, UsageError
from fdglm_fast.intervals import parse_interval
from fdglm_fast.network import Network, build_network
from fdglm_fast.problem import Problem
from fdglm_fast.solver import Options, Result, solve

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
    keeper = Keeper("unused", every=60.0, _last=0.0, _began=0.0)
    clock[0] = 61.0
    assert keeper.due()
    keeper.write(Checkpoint({}, 0, {}, [], 0.0))
    clock[0] = 599.0
    assert not keeper.due()  # 6 s were spent: another 6 s, and 6 s at the end, are 3 % of 600 s
    clock[0] = 601.0
    assert keeper.due()
    keeper.write(Checkpoint({}, 0, {}, [], 0.0))
    clock[0] = 799.0
    assert not keeper.due()
    clock[0] = 801.0
    assert keeper.due() and keeper.spent == 12.0


@pytest.mark.parametrize(("text", "seconds"), [("60", 60.0), ("60s", 60.0), ("5m", 300.0), ("2h", 7200.0), ("0", 0.0)])
def test_intervals(text: str, seconds: float) -> None:
    assert parse_interval(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "nan", "1d", "1e99"])
def test_wrong_intervals(text: str) -> None:
    with pytest.raises(UsageError):
        parse_interval(text)


def rewrite(path: Path, text: str, digest: str | None = None) -> None:
    """Put another description into a checkpoint, by default with the digest that belongs to it."""
    with h5py.File(path, "r+") as file:
        del file["about"]
        file.create_dataset("about", data=text, dtype=h5py.string_dtype())
        file.attrs["about_sha256"] = digest or hashlib.sha256(text.encode()).hexdigest()


def test_a_description_that_was_changed_is_noticed(tmp_path: Path) -> None:
    """A wrong iteration number would give a wrong average without a sign."""
    path = tmp_path / "state.h5"
    run(problem(), build_network("ring", 4), 20, checkpoint=str(path))
    with h5py.File(path) as file:
        text, digest = file["about"].asstr()[()], file.attrs["about_sha256"]
    assert '"iteration": 20' in text
    rewrite(path, text.replace('"iteration": 20', '"iteration": 21'), digest)
    with pytest.raises(DataError, match="not what was written"):
        read_checkpoint(str(path), KEPT)


HOSTILE = {
    "no JSON": "{",
    "a list": "[]",
    "deep": "[" * 100_000,
    "nothing": "{}",
    "no number": '{"belongs": {}, "iteration": "20", "seconds": 1, "trace": []}',
    "negative": '{"belongs": {}, "iteration": -1, "seconds": 1, "trace": []}',
    "trace of words": '{"belongs": {}, "iteration": 20, "seconds": 1, "trace": ["a"]}',
    "trace of others": '{"belongs": {}, "iteration": 20, "seconds": 1, "trace": [{"a": 1}]}',
    "belongs to a word": '{"belongs": "ab", "iteration": 20, "seconds": 1, "trace": []}',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_a_description_made_up_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "state.h5"
    run(problem(), build_network("ring", 4), 20, checkpoint=str(path))
    rewrite(path, text)
    with pytest.raises(DataError, match="description that cannot be read"):
        read_checkpoint(str(path), KEPT)


def test_arrays_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.h5"
    run(problem(), build_network("ring", 4), 20, checkpoint=str(path))
    with h5py.File(path, "r+") as file:
        shape = file["theta"].shape
        del file["theta"]
        file["theta"] = np.full(shape, b"x")
    with pytest.raises(DataError, match="'theta' holds no real numbers"):
        read_checkpoint(str(path), KEPT)


def test_a_failed_write_is_remembered_until_one_succeeds(tmp_path: Path) -> None:
    keeper = Keeper(str(tmp_path / "gone" / "state.h5"))
    state = Checkpoint({}, 0, {name: np.zeros(3) for name in KEPT}, [], 0.0)
    keeper.write(state)
    assert keeper.failure is not None and "does not exist" in keeper.failure
    (tmp_path / "gone").mkdir()
    keeper.write(state)
    assert keeper.failure is None and (tmp_path / "gone" / "state.h5").exists() and keeper.spent > 0
