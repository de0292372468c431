"""Faults of the machine around a run: full disks, read-only folders, files that others hold, little memory.

Each ends with a sentence and a documented exit code, nothing half-written, and the old result still there.
"""

from __future__ import annotations

import resource
import shlex
import shutil
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from cli_tools import FDGLM, PATIENCE, Finished, command_line, environment, fdglm, snapshot, strict_json, write_problem

from fdglm_fast.checkpoint import read_checkpoint
from fdglm_fast.engine import KEPT

USAGE, DATA = 2, 3
ARGUMENTS = "--agents 2 --iterations 20"


def limited(limit: int, size: int, *arguments: object, cwd: Path) -> Finished:
    """`fdglm` in a process with a resource limit."""
    done = subprocess.run(
        command_line(*arguments),
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        preexec_fn=lambda: resource.setrlimit(limit, (size, size)),
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def in_namespace(folder: Path, options: str, script: str) -> Finished:
    """A shell script with a file system of its own mounted on `folder`; skips where mounting is not allowed."""
    mount = f"mount -t tmpfs -o {options} tmpfs {shlex.quote(str(folder))}"
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("mounting in a namespace is not allowed here")
    words = [unshare, "-rm", "sh", "-c", f"{mount} && {script}"]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A problem and a result of it."""
    write_problem(tmp_path / "p.h5")
    assert fdglm("solve", tmp_path / "p.h5", ARGUMENTS, "--quiet --out", tmp_path / "r.h5").code == 0
    return tmp_path


# --- a full disk ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["--out r.h5", "--trace t.csv"])
def test_a_result_that_does_not_fit_on_the_disk(folder: Path, output: str) -> None:
    """The old result stays, the numbers are printed all the same, and no temporary file is left."""
    before = snapshot(folder)
    words = ["solve", "p.h5", ARGUMENTS, "--record every:1 --json --force", output]
    done = limited(resource.RLIMIT_FSIZE, 1000, *words, cwd=folder)
    assert done.code == USAGE and strict_json(done.out)["iterations"] == 20
    assert done.err.count("\n") == 1 and "cannot be written: File too large." in done.err
    assert snapshot(folder) == before


def test_a_full_disk(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    solve = f"{shlex.quote(FDGLM)} solve {folder}/p.h5 {ARGUMENTS} --json --force --out {disk}/r.h5"
    script = (
        f"cp {folder}/r.h5 {disk}/r.h5 && dd if=/dev/zero of={disk}/rest bs=4096 2>/dev/null; "
        f"{solve}; code=$?; cmp {folder}/r.h5 {disk}/r.h5 && ls -A {disk} >&2; exit $code"
    )
    done = in_namespace(disk, "size=256k", script)
    assert done.code == USAGE and strict_json(done.out)["iterations"] == 20
    assert "cannot be written: No space left on device.\nr.h5\nrest\n" in done.err


def test_a_checkpoint_that_does_not_fit_does_not_end_the_run(folder: Path) -> None:
    """The run goes on and its result is written; the checkpoint before stays, and the exit code tells."""
    words = ["solve", "p.h5", "--agents 2 --graph path --json"]
    assert fdglm(*words, "--iterations 20 --checkpoint state.h5", cwd=folder).code == 0
    before = (folder / "state.h5").read_bytes()
    more = "--iterations 400 --record every:400 --resume state.h5 --checkpoint-every 0s"
    done = limited(resource.RLIMIT_FSIZE, 4000, *words, more, cwd=folder)
    assert done.code == USAGE and strict_json(done.out)["iterations"] == 400
    assert "the last checkpoint is missing: 'state.h5' cannot be written: File too large." in done.err
    assert (folder / "state.h5").read_bytes() == before and read_checkpoint(
        str(folder / "state.h5"), KEPT
    ).iteration == 20
    assert sorted(path.name for path in folder.iterdir()) == ["p.h5", "r.h5", "state.h5"]


# --- folders and files ------------------------------------------------------------------------------------


def test_a_read_only_file_system(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    done = in_namespace(disk, "ro", f"{shlex.quote(FDGLM)} solve {folder}/p.h5 {ARGUMENTS} --out {disk}/r.h5")
    assert done.code == USAGE and done.out == "" and done.err.count("\n") == 1 and "is read-only" in done.err


def test_data_on_a_read_only_file_system_are_no_obstacle(folder: Path) -> None:
    """The reference cannot be cached beside them, which is said, and the run goes on."""
    disk = folder / "disk"
    disk.mkdir()
    mount = f"mount -o remount,ro {disk}"
    solve = f"{shlex.quote(FDGLM)} solve {disk}/p.h5 {ARGUMENTS} --reference --json"
    done = in_namespace(disk, "size=1m", f"cp {folder}/p.h5 {disk} && {mount} && {solve}")
    assert done.code == 0 and strict_json(done.out)["objective"]["reference"] is not None
    assert "the reference was not cached" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize("command", ["info p.h5", f"solve p.h5 {ARGUMENTS} --out new.h5", "predict r.h5 p.h5"])
def test_a_file_that_another_process_writes(folder: Path, command: str) -> None:
    script = "import h5py, sys; f = h5py.File('p.h5', 'r+'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "open\n"
        done = fdglm(*command.split(), cwd=folder)
        writer.communicate("")
    assert done.code == DATA and done.out == "" and "is being written by another program" in done.err
    assert not (folder / "new.h5").exists()


def test_a_result_that_another_process_reads_is_replaced(folder: Path) -> None:
    """The reader keeps the old file; who opens it now gets the new one."""
    with h5py.File(folder / "r.h5") as old:
        words = ["solve", "p.h5", "--agents 2 --iterations 30 --quiet --force --out r.h5"]
        assert fdglm(*words, cwd=folder) == (0, "", "")
        with h5py.File(folder / "r.h5") as new:
            assert not np.array_equal(old["theta_last"][...], new["theta_last"][...])


def test_a_file_that_changes_between_the_looks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written to while a run reads it: the modification is noticed at the end of the reading."""
    from fdglm_fast import hdf5
    from fdglm_fast.errors import DataError
    from fdglm_fast.job import Job, run
    from fdglm_fast.options import Options

    read = hdf5.Source._read_raw

    def disturbed(source: hdf5.Source, *arguments: Any) -> np.ndarray:
        block = read(source, *arguments)
        with open(folder / "p.h5", "r+b") as file:
            file.seek(0, 2)
            file.write(b"more")
        return block

    monkeypatch.setattr(hdf5.Source, "_read_raw", disturbed)
    with pytest.raises(DataError, match="changed while it was read"):
        run(Job(str(folder / "p.h5"), 2), Options(iterations=2))


# --- memory -----------------------------------------------------------------------------------------------


def large_problem(path: Path, n: int = 1_000_000, d: int = 250, rows: int = 10_000) -> None:
    """A gigabyte of zeros (float32) in a file of a megabyte: one compressed chunk, written again and again."""
    chunk = zlib.compress(bytes(4 * rows * d), 1)
    with h5py.File(path, "w") as file:
        X = file.create_dataset("X", (n, d), "f4", chunks=(rows, d), compression="gzip")
        for start in range(0, n, rows):
            X.id.write_direct_chunk((start, 0), chunk)
        file.create_dataset("y", data=np.zeros(n, "f4"), compression="gzip")


@pytest.mark.parametrize(("method", "needed"), [("paper", "2.9"), ("fast", "4.8")])
def test_a_solve_that_does_not_fit_into_memory(tmp_path: Path, method: str, needed: str) -> None:
    large_problem(tmp_path / "p.h5")
    words = ["solve", "p.h5", f"--agents 250 --out r.h5 --method {method}"]
    done = limited(resource.RLIMIT_AS, 3 << 30, *words, cwd=tmp_path)
    said = [line for line in done.err.splitlines() if not line.startswith("fdglm: compiling")]
    assert done.code == DATA and len(said) == 1, done.err
    assert "a solve of 1000000 x 250 float32 with 250 agents" in said[0] and "fewer agents" in said[0]
    assert f"needs {needed} GiB of memory, but only" in said[0]
    assert [path.name for path in tmp_path.iterdir()] == ["p.h5"]


# --- pipes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["predict r.h5 p.h5", "info p.h5", f"solve p.h5 {ARGUMENTS} --json"])
def test_a_reader_that_has_gone(folder: Path, arguments: str) -> None:
    """Nobody is left to be told: no traceback, and the exit code that a shell gives to a broken pipe."""
    with subprocess.Popen(
        [FDGLM, *arguments.split()],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 128 + signal.SIGPIPE and "Traceback" not in said and "Exception" not in said
