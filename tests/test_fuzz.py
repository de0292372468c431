"""Thousands of broken files against the command line, each in a process of its own.

Every one ends with a documented exit code within its time limit, without a traceback or a signal; what is refused
leaves no file behind, and what is accepted leaves whole results. The counts by exit code are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fuzz_worker
import h5py
import mutants
import numpy as np
import pytest
from cli_tools import environment, fdglm, strict_json, write_h5

HDF5_FILES, GRAPH_FILES = 2000, 500
STARTED_PLAINLY = 24  # of each kind, besides, by a `fdglm` that was not forked
WORKERS = 2
DOCUMENTED = {0, 2, 3, 4, 5}
SAID = {"fdglm: compressing the samples to the triangular factor of [X y]"}  # on the way, before a fault is found
TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sound files that mutants are made from."""
    folder = tmp_path_factory.mktemp("bases")
    mutants.write_bases(folder)
    rng = np.random.default_rng(0)
    write_h5(folder / "wide.h5", X=rng.standard_normal((30, 9)), y=rng.standard_normal(30))
    made = ["--checkpoint", folder / "checkpoint.h5", "--out", folder / "result.h5"]
    ring = "--agents 3 --graph ring --iterations 3 --threads 1 --quiet"
    assert fdglm("solve", folder / "plain.h5", ring, *made) == (0, "", "")
    reference = "--agents 2 --reference --iterations 3 --threads 1 --quiet"
    assert fdglm("solve", folder / "plain.h5", reference) == (0, "", "")
    assert (folder / "plain.h5.reference.h5").exists()
    return folder


def run_workers(kind: str, count: int, bases: Path) -> list[dict[str, Any]]:
    """The reports on mutants 0 to count - 1."""
    script = [sys.executable, str(TESTS / "fuzz_worker.py"), kind]
    # One thread of Numba's own pool, which survives a fork.
    quiet = environment(NUMBA_NUM_THREADS="1", NUMBA_THREADING_LAYER="workqueue", OPENBLAS_NUM_THREADS="1")
    outputs = [bases / f"{kind}.{k}.jsonl" for k in range(WORKERS)]
    with ExitStack() as stack:
        workers = [
            subprocess.Popen(
                [*script, str(k), str(count), str(WORKERS), str(bases)],
                env=quiet,
                stdout=stack.enter_context(open(out, "w")),
            )
            for k, out in enumerate(outputs)
        ]
        assert [worker.wait(timeout=1500) for worker in workers] == [0] * WORKERS
    return [json.loads(line) for out in outputs for line in out.read_text().splitlines()]


def faults(report: dict[str, Any], there: set[str]) -> list[str]:
    """What is wrong with how a run ended; `there` are the files that it found."""
    found = []
    if report["code"] not in DOCUMENTED:
        found.append(f"exit code {report['code']}")
    if "Traceback" in report["err"] or "Warning" in report["err"] or "\x1b" in report["err"]:
        found.append("a traceback, a warning or a control character")
    told = [line for line in report["err"].splitlines() if line not in SAID]
    if report["code"] in (2, 3) and not (len(told) == 1 and told[0].startswith("fdglm: error: ")):
        found.append("not one sentence")
    left = set(report["files"]) - there
    if left and report["code"] in (2, 3):
        found.append(f"left {sorted(left)}")
    if any(name.startswith(".") for name in left):
        found.append("left a temporary file")
    if report["code"] == 0 and "--json" in report["words"]:
        strict_json(report["out"])
    return found


def check(reports: list[dict[str, Any]], there: set[str]) -> Counter[int]:
    """The counts by exit code, after every report was found in order."""
    wrong = {report["number"]: (faults(report, there), report) for report in reports if faults(report, there)}
    assert not wrong, next(iter(wrong.values()))
    return Counter(report["code"] for report in reports)


def announce(capsys: pytest.CaptureFixture[str], what: str, codes: Counter[int]) -> None:
    counts = ", ".join(f"exit code {code}: {count}" for code, count in sorted(codes.items()))
    with capsys.disabled():
        print(f"\n{codes.total()} {what}: {counts}; no crash")


HDF5_THERE = {"broken.h5", "plain.h5", "plain.h5.reference.h5"}
GRAPH_THERE = {"graph.txt", "graph.graphml"}


def test_mutated_hdf5_files(bases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = run_workers("hdf5", HDF5_FILES, bases)
    codes = check(reports, HDF5_THERE)
    announce(capsys, "mutated HDF5 files", codes)
    assert codes.total() == HDF5_FILES and codes[0] > 200 and codes[3] > 800
    commands = Counter(report["words"][0] for report in reports)
    assert min(commands[name] for name in ("info", "solve", "predict")) > 200


def test_mutated_graph_files(bases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = run_workers("graph", GRAPH_FILES, bases)
    codes = check(reports, GRAPH_THERE)
    announce(capsys, "mutated graph files", codes)
    assert codes.total() == GRAPH_FILES and codes[0] > 20 and codes[3] > 200


@pytest.mark.parametrize("kind", ["hdf5", "graph"])
def test_mutated_files_and_an_ordinary_start(kind: str, bases: Path, tmp_path: Path) -> None:
    """Without the fork: the installed script, its own imports, its own kernels."""
    there = HDF5_THERE if kind == "hdf5" else GRAPH_THERE
    for number in range(10**6, 10**6 + STARTED_PLAINLY):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = fuzz_worker.CALLS[kind](number, bases, folder)
        done = fdglm(*words, cwd=folder)
        left = sorted(os.listdir(folder))
        report = {"number": number, "words": words, "code": done.code, "out": done.out, "err": done.err, "files": left}
        check([report], there)


def test_the_judge_sees_what_is_wrong() -> None:
    good = {"number": 0, "words": [], "code": 3, "out": "", "err": "fdglm: error: no.\n", "files": ["broken.h5"]}
    assert check([good], HDF5_THERE) == {3: 1}
    for change in (
        {"code": 1},
        {"code": -11},
        {"err": "Traceback (most recent call last)\n"},
        {"err": "fdglm: error: no.\nand more\n"},
        {"files": ["broken.h5", "result.h5"]},
        {"code": 0, "files": [".result.h5.tmp"]},
    ):
        with pytest.raises(AssertionError):
            check([{**good, **change}], HDF5_THERE)


def test_mutants_are_reproducible_and_differ(bases: Path, tmp_path: Path) -> None:
    contents = []
    for number in range(1, 30, 3):  # those made by bytes
        for _ in range(2):
            mutants.hdf5_mutant(number, bases / "plain.h5", tmp_path / "m.h5")
            contents.append((tmp_path / "m.h5").read_bytes())
    assert contents[::2] == contents[1::2] and len(set(contents)) > 8
    with h5py.File(bases / "plain.h5") as file:
        assert file["X"].shape == (mutants.ROWS, mutants.COLUMNS)
