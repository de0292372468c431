"""How `fdglm solve` ends: tolerance, time, signals, breakdown; and what a terminal sees meanwhile."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from cli_tools import SAMPLE, Watched, coefficients, fdglm, solve, strict_json, write_problem

FOREVER = "--iterations 1000000000"
RING = "--agents 4 --graph ring"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAMPLE, tmp_path / "sample.h5"))


# --- tolerance and time -----------------------------------------------------------------------------------


def test_tolerance_reached(sample: Path) -> None:
    report = solve(sample, RING, "--tol 1e-3", code=0)
    assert report["stop_reason"] == "tolerance" and report["iterations"] < 5000
    assert min(report["residual"].values()) <= 1e-3
    assert report["trace"][-1]["iteration"] == report["iterations"]


def test_tolerance_not_reached(sample: Path, tmp_path: Path) -> None:
    done = fdglm("solve", sample, RING, "--tol 1e-9 --iterations 60 --json", "--out", tmp_path / "r.h5")
    assert done.code == 4 and done.err == "fdglm: error: stopped before the tolerance was reached.\n"
    report = strict_json(done.out)
    assert report["stop_reason"] == "iterations" and min(report["residual"].values()) > 1e-9
    assert coefficients(tmp_path / "r.h5").any()


def test_time_limit(sample: Path) -> None:
    report = solve(sample, RING, FOREVER, "--time-limit 0.2")
    assert report["stop_reason"] == "time-limit" and 0 < report["iterations"] < 10**9
    assert report["trace"][-1]["iteration"] == report["iterations"]
    assert solve(sample, RING, FOREVER, "--time-limit 0.2 --tol 1e-30", code=4)["stop_reason"] == "time-limit"


# --- signals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_run_with_what_was_reached(sample: Path, tmp_path: Path, number: signal.Signals) -> None:
    outputs = ["--out", tmp_path / "r.h5", "--trace", tmp_path / "t.csv"]
    run = Watched("solve", sample, RING, FOREVER, "--json", *outputs)
    run.wait_for("it/s")
    run.process.send_signal(number)
    done = run.finish()
    report = strict_json(done.out)
    assert done.code == 130 and report["stop_reason"] == "interrupted"
    assert report["iterations"] == report["trace"][-1]["iteration"] > 0
    assert np.isfinite(coefficients(tmp_path / "r.h5")).all() and (tmp_path / "t.csv").exists()
    assert report["objective"]["average"] < report["objective"]["zero"]


def test_signal_ends_a_run_with_a_summary(sample: Path) -> None:
    run = Watched("solve", sample, RING, FOREVER)
    run.wait_for("it/s")
    run.process.send_signal(signal.SIGINT)
    done = run.finish()
    assert done.code == 130 and "interrupted after" in done.out and "Traceback" not in done.err


def test_second_signal_stops_at_once(sample: Path, tmp_path: Path) -> None:
    run = Watched("solve", sample, RING, FOREVER, "--json", "--out", tmp_path / "r.h5")
    run.wait_for("it/s")
    run.process.send_signal(signal.SIGSTOP)  # so that both are there when it looks
    run.process.send_signal(signal.SIGINT)
    run.process.send_signal(signal.SIGTERM)
    run.process.send_signal(signal.SIGCONT)
    done = run.finish()
    assert done.code == 130 and done.out == "" and "fdglm: interrupted" in done.err and "Traceback" not in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["sample.h5"]


def test_signal_before_the_first_iteration_stops_at_once(sample: Path, tmp_path: Path) -> None:
    """While kernels are compiled for half a minute there is nothing to be saved, and nothing to wait for."""
    run = Watched("solve", sample, RING, "--json", XDG_CACHE_HOME=str(tmp_path / "cache"))
    run.wait_for("compiling kernels")
    run.process.send_signal(signal.SIGINT)
    done = run.finish()
    assert done.code == 130 and done.out == "" and "fdglm: interrupted" in done.err and "Traceback" not in done.err


# --- breakdown --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_breakdown_reports_the_last_good_state(sample: Path, tmp_path: Path, loss: str, dtype: str) -> None:
    arguments = [RING, "--sigma 1000 --tau 1000 --force-steps --record every:1", "--loss", loss, "--dtype", dtype]
    done = fdglm("solve", sample, *arguments, "--json", "--out", tmp_path / "r.h5")
    report = strict_json(done.out)
    assert done.code == 5 and report["stop_reason"] == "diverged"
    assert done.err.count("\n") == 1 and f"iteration {report['iterations']} " in done.err
    assert "grow without bound" in done.err and "--steps theorem" in done.err
    assert report["trace"][-1]["iteration"] == report["iterations"] > 0
    assert report["objective"]["average"] > report["objective"]["zero"]  # a number, if a large one
    assert np.abs(coefficients(tmp_path / "r.h5", "last")).max() <= 1e8 * report["steps"]["R"]


def test_steps_that_diverge_are_noticed_long_before_they_overflow(sample: Path, tmp_path: Path) -> None:
    good = solve(sample, RING, "--iterations 1")["steps"]
    forced = f"--sigma {good['sigma']} --tau {6.0 * good['tau']} --force-steps --iterations 4000"
    report = solve(sample, RING, forced, "--out", tmp_path / "r.h5", code=5)
    assert report["stop_reason"] == "diverged" and 0 < report["iterations"] < 4000
    assert np.abs(coefficients(tmp_path / "r.h5", "last")).max() <= 1e8 * report["steps"]["R"]


def test_iterates_that_are_not_finite(sample: Path) -> None:
    """A first step out of the finite numbers; the state before it is all there is."""
    report = solve(sample, RING, "--sigma 1e300 --tau 1e300 --force-steps --iterations 50", code=5)
    assert report["stop_reason"] == "not-finite" and report["iterations"] <= 1
    assert np.isfinite(report["objective"]["average"])


def test_breakdown_before_anything_was_recorded(tmp_path: Path) -> None:
    write_problem(tmp_path / "p.h5")
    arguments = "--agents 2 --sigma 1e200 --tau 1e200 --force-steps --record every:1000"
    report = solve(tmp_path / "p.h5", arguments, "--out", tmp_path / "r.h5", code=5)
    assert report["iterations"] <= 1 and len(report["trace"]) == 1
    assert report["objective"]["last"] == pytest.approx(report["objective"]["zero"])


# --- the terminal -----------------------------------------------------------------------------------------


def visible(screen: str) -> str:
    """What was printed, without the codes that move the cursor and colour."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)


def test_progress_on_a_terminal(sample: Path) -> None:
    done = Watched("solve", sample, RING, FOREVER, "--time-limit 1.5", "--json", columns=80).finish()
    assert done.code == 0 and strict_json(done.out)["stop_reason"] == "time-limit"
    lines = [line for line in re.split(r"[\r\n]+", visible(done.err)) if "it/s" in line]
    assert lines and all("/1000000000 " in line and "objective" in line and "residual" in line for line in lines)
    assert re.search(r"\d+ it/s (\d+:\d\d:\d\d|-:--:--)", lines[-1])
    assert done.err.endswith("\x1b[2K") or "\x1b[1A\x1b[2K" in done.err[-40:]  # the bar is taken away


def test_quiet_on_a_terminal(sample: Path) -> None:
    assert Watched("solve", sample, RING, "--iterations 300 --quiet").finish() == (0, "", "")


def test_no_progress_in_a_pipe(sample: Path) -> None:
    done = fdglm("solve", sample, RING, FOREVER, "--time-limit 0.5 --json")
    assert done.code == 0 and done.err == ""
