"""Runs that are killed with SIGKILL, again and again, and resumed, end with the bits of the run that was never killed.

Real processes of the command line. The moments are drawn from a seed: anywhere from the start of the process, soon
after a checkpoint was seen, or while a temporary file is being written.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from cli_tools import PATIENCE, command_line, environment, fdglm, write_problem

from fdglm_fast.files import atomic_text

RUNS = 15  # of each type
KILLS = 2  # at most, of one run
AT_ONCE = 2
OPTIONS = "--agents 4 --graph ring --loss logistic --penalty l1 --reg 0.001 --threads 1 --schedule tiles"
LENGTH = "--iterations 24000 --record every:800"
STATE = "state.h5"


def start(folder: Path, dtype: str) -> subprocess.Popen[bytes]:
    """Begin the run, or go on with it where there is a checkpoint."""
    kept = "--resume" if (folder / STATE).exists() else "--checkpoint"
    words = [OPTIONS, LENGTH, "--dtype", dtype, kept, STATE, "--checkpoint-every 0.01s --quiet --out result.h5"]
    return subprocess.Popen(
        command_line("solve", folder.parent / "problem.h5", *words),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def wait_for_moment(process: subprocess.Popen[bytes], folder: Path, rng: random.Random) -> str:
    """Until the moment to kill has come, or the process has ended; what the moment was."""
    kind = rng.choice(["any time", "after a checkpoint", "while writing", "while writing"])
    began, delay = time.monotonic(), rng.uniform(0.0, 2.5 if kind == "any time" else 0.3)
    before, seen = stamp(folder), kind == "any time"
    while process.poll() is None:
        if kind == "while writing":
            if any(name.startswith(".") for name in os.listdir(folder)) and rng.random() < 0.2:
                return kind
            continue
        if not seen and stamp(folder) != before:
            began, seen = time.monotonic(), True
        if seen and time.monotonic() - began >= delay:
            return kind
        time.sleep(0.0005)
    return "ended"


def stamp(folder: Path) -> int:
    try:
        return (folder / STATE).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def killed_run(number: int, dtype: str, root: Path) -> list[str]:
    """One run to its end, killed on the way; the moments of the kills."""
    rng, folder = random.Random(f"{dtype} {number}"), root / f"{dtype}-{number}"
    folder.mkdir()
    moments: list[str] = []
    for _ in range(rng.randint(1, KILLS)):
        if (folder / "result.h5").exists():
            break
        process = start(folder, dtype)
        moment = wait_for_moment(process, folder, rng)
        process.send_signal(signal.SIGKILL)
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode in (0, -signal.SIGKILL) and said == b"", said
        moments += [moment] if process.returncode else []
    if not (folder / "result.h5").exists():
        process = start(folder, dtype)
        said, _ = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (0, b"")
    return moments


def bits(path: Path) -> dict[str, bytes]:
    """Coefficients and trace of a result, byte by byte, without the times."""
    found: dict[str, bytes] = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and name not in ("run", "trace/seconds"):
            found[name] = np.asarray(item[...]).tobytes()

    with h5py.File(path) as file:
        file.visititems(keep)
    return found


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_killed_runs_end_with_the_same_bits(dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_problem(tmp_path / "problem.h5", n=300, d=24, labels="binary")
    whole = ["--dtype", dtype, "--quiet", "--out", tmp_path / "whole.h5"]
    assert fdglm("solve", tmp_path / "problem.h5", OPTIONS, LENGTH, *whole) == (0, "", "")
    expected = bits(tmp_path / "whole.h5")
    assert {"theta_average", "theta_last", "trace/residual_last"} <= expected.keys()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        moments = list(pool.map(lambda number: killed_run(number, dtype, tmp_path), range(RUNS)))
    for number in range(RUNS):
        assert bits(tmp_path / f"{dtype}-{number}" / "result.h5") == expected, (number, moments[number])
    kills = [moment for each in moments for moment in each]
    with capsys.disabled():
        print(f"\n{RUNS} runs of {dtype}, {len(kills)} kills ({kills.count('while writing')} while writing): same bits")
    assert sum(bool(each) for each in moments) >= RUNS - 2 and "while writing" in kills


def test_what_a_kill_leaves_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    """A temporary file whose writer is gone is removed; one that is being written is not, nor what only looks alike."""
    abandoned, other = tmp_path / ".a.0123456789ab.tmp.txt", tmp_path / ".b.0123456789ab.tmp.txt"
    for path in (abandoned, other, tmp_path / ".a.short.tmp.txt"):
        path.write_text("half")
    with atomic_text(tmp_path / "a.txt") as outer:
        outer.write("one")
        assert not abandoned.exists()
        (living,) = [p for p in tmp_path.glob(".a.*.tmp.txt") if len(p.name) == len(abandoned.name)]
        with atomic_text(tmp_path / "a.txt") as inner:
            inner.write("two")
            assert living.exists()
        (tmp_path / "a.txt").unlink()
    assert (tmp_path / "a.txt").read_text() == "one"
    assert sorted(p.name for p in tmp_path.iterdir()) == [".a.short.tmp.txt", other.name, "a.txt"]
