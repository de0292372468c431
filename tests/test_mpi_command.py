"""`fdglm solve --engine mpi` as a user runs it: launching, files of agents, failing, stopping, going on."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from cli_tools import PATIENCE, Finished, coefficients, environment, fdglm, strict_json, write_h5, write_problem
from mpi_tools import MPIEXEC, Marked, run_ranks

from fdglm_fast.mpi.launch import _Ear, _Watch

COMMON = ("--agents 6 --graph ring --radius 1 --chi 20 --penalty l1 --reg 0.01 --loss huber:0.7 --record every:40",)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mpi") / "data.h5"
    write_problem(path, n=200, d=13)
    return path


def on_ranks(data: object, ranks: int, *arguments: object) -> Finished:
    return fdglm("solve", data, *COMMON, *arguments, f"--engine mpi --ranks {ranks}")


def test_launched_by_itself_or_by_mpiexec_it_gives_the_bits_of_threads(data: Path, tmp_path: Path) -> None:
    outs = [tmp_path / f"{name}.h5" for name in ("threads", "ranks", "mpiexec")]
    more = ("--iterations 60 --json",)
    runs = [fdglm("solve", data, *COMMON, *more, "--out", outs[0]), on_ranks(data, 2, *more, "--out", outs[1])]
    words = [word for text in (*COMMON, *more) for word in text.split()]
    command = [MPIEXEC, "-n", "3", sys.executable, "-m", "fdglm_cli.main", "solve", str(data), *words]
    done = subprocess.run(
        [*command, "--out", str(outs[2]), "--engine", "mpi"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    runs.append(Finished(done.returncode, done.stdout, done.stderr))
    assert [run.code for run in runs] == [0, 0, 0], runs
    reports = [strict_json(run.out) for run in runs]  # one object: only one rank prints
    for which in ("average", "last"):
        assert len({coefficients(out, which).tobytes() for out in outs}) == 1
    for report in reports:
        for record in report["trace"]:
            record["seconds"] = None
    assert reports[0]["trace"] == reports[1]["trace"] == reports[2]["trace"]
    assert [report.get("mpi", {}).get("ranks") for report in reports] == [None, 2, 3]
    facts = reports[1]["mpi"]
    assert facts["cut_edges"] == 2 and sorted(facts["columns"]) == [6, 7]
    # a ring in two: each rank sends two rows of 200 samples, padded to 224, of lambda and of u
    assert facts["bytes_per_iteration"] == 2 * 2 * 2 * 224 * 8
    assert facts["model_bytes_per_iteration"] == 2 * 4 * 200 * 8
    assert facts["bytes_sent"]["u"] == 60 * facts["bytes_per_iteration"] // 2


def test_a_file_an_agent(data: Path, tmp_path: Path) -> None:
    """Columns, coefficients and y stay with their agents, and the bits are those of one file; R is estimated."""
    made = "--samples 90 --features 8 --seed 3 --agents 4 --split"
    done = fdglm("generate", tmp_path / "all.h5", made, tmp_path / "a-{j}.h5")
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "a-1.h5") as first, h5py.File(tmp_path / "a-2.h5") as second:
        assert set(first) == {"X", "y"} and set(second) == {"X"}
    options = "--agents 4 --graph path --iterations 30"
    whole = fdglm("solve", tmp_path / "all.h5", options, "--out", tmp_path / "all-result.h5")
    files = ("--local-data", tmp_path / "a-{j}.h5", "--out", tmp_path / "r-{j}.h5")
    split = fdglm("solve", options, "--engine mpi --ranks 2", *files)
    assert (whole.code, split.code) == (0, 0), split.err
    parts = [coefficients(tmp_path / f"r-{j}.h5") for j in (1, 2, 3, 4)]
    assert np.concatenate(parts).tobytes() == coefficients(tmp_path / "all-result.h5").tobytes()


def test_what_one_rank_finds_wrong_is_said_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for j in (1, 2, 3, 4):
        X = rng.standard_normal((30, 2))
        X[5, 1] = np.nan if j == 3 else 0.0
        write_h5(tmp_path / f"a-{j}.h5", X=X, **({"y": X[:, 0]} if j == 1 else {}))
    options = ("--agents 4 --graph ring --engine mpi --ranks 2", "--local-data", tmp_path / "a-{j}.h5")
    done = fdglm("solve", *options)
    assert done.code == 3 and done.err.count("\n") == 1, done
    assert "a-3.h5" in done.err and "not finite: nan in row 5, column 1" in done.err
    os.unlink(tmp_path / "a-2.h5")
    done = fdglm("solve", *options)
    assert done.code == 3 and done.err.count("\n") == 1 and "the data of agent 2, does not exist" in done.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--ranks 2", "--ranks is for --engine mpi"),
        ("--engine mpi --ranks 7", "7 ranks for 6 agents"),
        ("--engine mpi --compress on", "--compress on needs all columns in one place"),
        ("--engine mpi --schedule agents", "--schedule agents is for --engine threads"),
        ("--engine mpi --local-data a-{j}.h5", "either one FILE.h5 or"),
        ("--engine mpi --skip-existing --out x.h5", "--skip-existing has to read all the data"),
    ],
)
def test_options_that_do_not_go_together(options: str, sentence: str, data: Path) -> None:
    done = fdglm("solve", data, "--agents 6 --graph ring", options)
    assert done.code == 2 and sentence in done.err and done.err.count("\n") == 1


def test_local_data_have_no_reference() -> None:
    done = fdglm("solve", "--agents 6 --graph ring --engine mpi --local-data a-{j}.h5 --reference")
    assert done.code == 2 and "--reference needs all columns" in done.err


def test_a_fit_of_zero_is_not_certified_on_ranks(data: Path) -> None:
    """That needs loss'(0) at every agent, which would give y away; one process has it, and one rank."""
    options = "--agents 6 --graph ring --penalty l1 --reg 100 --iterations 60 --record every:30 --tol 1e-6 --json"
    alone, one, two = (
        fdglm("solve", data, options, more) for more in ("--quiet", *(f"--engine mpi --ranks {r}" for r in (1, 2)))
    )
    assert (alone.code, one.code, two.code) == (0, 0, 4), (alone.err, one.err, two.err)
    known, same, unknown = (strict_json(done.out) for done in (alone, one, two))
    assert known["residual"] == same["residual"] == {"average": 0.0, "last": 0.0}
    assert (known["iterations"], unknown["iterations"]) == (30, 60)
    assert unknown["residual"] == {"average": None, "last": None} == unknown["duality_gap"]
    assert unknown["objective"] == known["objective"] and known["objective"]["last"] == known["objective"]["zero"]


def test_without_mpi4py_it_says_what_to_install(data: Path, tmp_path: Path) -> None:
    """A folder on the path in which mpi4py cannot be found stands for a machine without it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u, sys\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'mpi4py' else find(name, *rest)\n"
        "sys.modules['mpi4py'] = None\n"
    )
    for more in ("--engine mpi", "--engine mpi --ranks 2"):
        done = fdglm("solve", data, "--agents 6 --graph ring", more, PYTHONPATH=str(tmp_path))
        assert done.code == 2 and "pip install 'fdglm[mpich]'" in done.err, done


@pytest.mark.parametrize("where", ["fails", "fails_within"])
def test_a_rank_that_raises_ends_the_job(where: str) -> None:
    done = run_ranks(3, where, "1")
    assert done.code != 0
    assert "fdglm: error: rank 1: RuntimeError: this rank has had enough" in done.err


def test_a_killed_rank_ends_the_job_within_ten_seconds(data: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.h5"
    words = [word for text in COMMON for word in text.split()]
    command = [str(Path(sys.executable).with_name("fdglm")), "solve", str(data), *words, "--iterations", "30000000"]
    run = Marked([*command, "--engine", "mpi", "--ranks", "2", "--checkpoint", str(state), "--checkpoint-every", "0.2"])
    wait_for(state, run)
    os.kill(run.rank(1), signal.SIGKILL)
    done = run.finish(10.0)
    assert done.code == 137 and "rank 1 (process" in done.err and "was killed" in done.err, done


OPEN_MPI_KILLED = """\
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
mpiexec noticed that process rank 1 with PID 0 on node here exited on signal 9 (Killed).
"""
OPEN_MPI_ABORT = """\
fdglm: error: rank 1: why
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
with errorcode 2.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
[here:117] 1 more process has sent help message help-mpi-api.txt / mpi-abort
[here:117] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error messages
"""


@pytest.mark.parametrize(
    ("text", "killed", "passed_on"),
    [(OPEN_MPI_KILLED, (0, "here"), ""), (OPEN_MPI_ABORT, None, "fdglm: error: rank 1: why\n")],
    ids=["killed", "abort"],
)
def test_what_open_mpi_says(text: str, killed: tuple[int, str] | None, passed_on: str) -> None:
    """As Open MPI 4.1.4 said it."""
    told = io.StringIO()
    ear = _Ear(io.StringIO(text), told, _Watch())
    ear.thread.join()
    assert ear.killed == killed and told.getvalue() == passed_on


def wait_for(path: Path, run: Marked) -> None:
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert run.process.poll() is None and time.monotonic() < deadline, run.process.communicate()
        time.sleep(0.05)


def test_stopped_and_gone_on_with_elsewhere(data: Path, tmp_path: Path) -> None:
    """SIGTERM to the launcher: all ranks stop together, write their parts, and any engine goes on from them."""
    state, whole = tmp_path / "state.h5", tmp_path / "whole.h5"
    words = [word for text in COMMON for word in text.split()]
    command = [str(Path(sys.executable).with_name("fdglm")), "solve", str(data), *words, "--iterations", "30000000"]
    keep = ["--checkpoint", str(state), "--checkpoint-every", "0.1", "--json"]
    run = Marked([*command, "--engine", "mpi", "--ranks", "2", *keep])
    wait_for(state, run)
    run.process.send_signal(signal.SIGTERM)
    done = run.finish()
    assert done.code == 130, done
    reached = strict_json(done.out)["iterations"]
    assert strict_json(done.out)["stop_reason"] == "interrupted" and reached > 0
    assert len(list(tmp_path.glob("state.h5.*.part"))) == 2  # those of earlier checkpoints are gone
    more = f"--iterations {reached + 50}"
    assert fdglm("solve", data, *COMMON, more, "--out", whole).code == 0
    three, one = tmp_path / "three.h5", tmp_path / "one.h5"
    kept = tmp_path / "kept.h5"
    done = on_ranks(data, 3, more, "--resume", state, "--checkpoint", kept, "--out", three)
    assert done.code == 0, done.err
    assert fdglm("solve", data, *COMMON, more, "--resume", state, "--out", one).code == 0
    assert list(tmp_path.glob("state.h5.*.part")) == []  # replaced by the one file of one process
    # a checkpoint of one process, gone on with on ranks
    back = tmp_path / "back.h5"
    more = f"--iterations {reached + 80}"
    assert on_ranks(data, 2, more, "--resume", state, "--out", back).code == 0
    assert fdglm("solve", data, *COMMON, more, "--force", "--out", whole.with_name("longer.h5")).code == 0
    for which in ("average", "last"):
        assert coefficients(three, which).tobytes() == coefficients(whole, which).tobytes()
        assert coefficients(one, which).tobytes() == coefficients(whole, which).tobytes()
        assert coefficients(back, which).tobytes() == coefficients(tmp_path / "longer.h5", which).tobytes()


def test_a_lost_part_is_a_sentence(data: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.h5"
    assert on_ranks(data, 2, "--iterations 20", "--checkpoint", state).code == 0
    next(iter(sorted(tmp_path.glob("state.h5.*.part")))).unlink()
    done = on_ranks(data, 2, "--iterations 40", "--resume", state)
    assert done.code == 3 and ".part" in done.err and done.err.count("\n") == 1, done


def test_doctor() -> None:
    report = strict_json(fdglm("doctor", "--json --no-bandwidth").out)
    assert report["mpi"]["library"].startswith("MPICH") and report["mpi"]["mpiexec"] == MPIEXEC
    assert report["cache"]["writable"] and report["threads"]["threading_layer"]
    assert report["faults"] == [] and report["packages"]["numba"]
    done = fdglm("doctor")
    assert done.code == 0 and "GB/s with 1" in done.out and "MPICH" in done.out


def test_doctor_sees_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = fdglm("doctor", "--json --no-bandwidth", NUMBA_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert done.code == 1
    report = strict_json(done.out)
    assert not report["cache"]["writable"] and "every run will compile" in report["faults"][0]


def test_bench_of_ranks() -> None:
    report = strict_json(fdglm("bench", "--ranks 1,2 --quick --samples 512 --features 64 --json").out)
    assert [row["ranks"] for row in report["rows"]] == [None, 1, 2]
    assert all(len(row["rounds"]) == 1 and row["memory_gb_s"] > 0.0 for row in report["rows"])
    assert all(row["fast_ms"] > 0.0 and row["fast_times_paper"] > 0.0 for row in report["rows"])
    assert report["case"]["graph"] == "rgg" and report["case"]["agents"] == 64
    for row in report["rows"][1:]:
        parts = row["compute_ms"] + row["exchange_ms"] + row["wait_ms"]
        assert 0.0 < parts <= row["iteration_ms"] * (1.0 + 1e-9)
    if report["cores"] >= 2:
        assert report["model"]["is_a_model"] and report["model"]["points"][-1]["ranks"] == 1000
