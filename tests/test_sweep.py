"""`fdglm sweep`: the grid, what is saved, going on after a kill, failures, and several processes."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_tools import PATIENCE, Watched, command_line, environment, fdglm, snapshot, strict_json, write_h5

from fdglm_fast.errors import UsageError
from fdglm_fast.generate import generate
from fdglm_fast.job import Job, Outcome, run
from fdglm_fast.options import Given, Options
from fdglm_fast.result import StoredResult, read_result, without_times
from fdglm_fast.sweep import PAPER, Cell, Plan, grid
from fdglm_fast.sweep import Run as SweepRun
from fdglm_fast.sweep_run import SweepWatch, sweep

GRID = "--agents 1,4,6 --graph complete,star,er:0.6 --seeds 0,1 --iterations 30 --reference"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "d.h5"
    generate(path, 200, 24, seed=3)
    return path


def plan(data: Path, folder: Path, cells: list[Cell], **options: Any) -> Plan:
    chosen = {"iterations": 20, "record": "log:8", **options}
    return Plan(Job(str(data), 1), Options(**chosen), tuple(cells), str(folder))


def contents(folder: Path) -> dict[str, Any]:
    """Everything in a folder of results but the times: the JSON, and the bytes of both thetas."""
    found = {}
    for path in sorted(folder.iterdir()):
        stored = read_result(str(path))
        found[path.name] = (without_times(stored.run), stored.theta_average.tobytes(), stored.theta_last.tobytes())
    return found


# --- the grid -----------------------------------------------------------------------------------------------


def test_one_agent_and_networks_that_are_not_drawn_are_run_once() -> None:
    cells = grid([4, 1, 4], ["star", "er:0.5"], [0, 7])
    assert cells == [Cell(1), Cell(4, "star"), Cell(4, "er:0.5", 0), Cell(4, "er:0.5", 7)]
    assert len({cell.file_name for cell in cells}) == 4


def test_the_rules_of_the_paper() -> None:
    cells = grid(PAPER.agents, PAPER.graphs, PAPER.seeds, PAPER.least)
    sizes = {graph: sorted({cell.agents for cell in cells if cell.graph == graph}) for graph in PAPER.graphs}
    powers = [2**k for k in range(1, 10)]
    assert sizes["complete"] == sizes["star"] == powers
    assert sizes["lattice"] == powers[1:] and sizes["er:0.5"] == powers[2:]
    assert sizes["er:0.1"] == sizes["rgg"] == powers[4:] == [32, 64, 128, 256, 512]
    assert len(cells) == 1 + 9 + 9 + 8 + 3 * (7 + 5 + 5)
    assert PAPER.iterations == 5000 and PAPER.reference


def test_file_names_show_the_cell_and_never_meet() -> None:
    assert Cell(64, "er:0.1", 2).file_name == "m0064_er-0.1_seed2.h5"
    assert Cell(64, "star").file_name == "m0064_star.h5" and Cell(1).file_name == "m0001_single.h5"
    same = [Cell(4, "file:a/b.txt"), Cell(4, "file:a-b.txt"), Cell(4, "file:../x\n\x1b.txt")]
    assert len({cell.file_name for cell in same}) == 3
    assert all("/" not in cell.file_name and cell.file_name.isprintable() for cell in same)


def test_an_empty_grid_is_refused() -> None:
    with pytest.raises(UsageError, match="no runs"):
        grid([2, 4], ["er:0.1"], [0], PAPER.least)


# --- what is saved ------------------------------------------------------------------------------------------


def solved(data: Path, cell: Cell, compress: str) -> Outcome:
    return run(replace(cell.job(Job(str(data), 1)), compress=compress), Options(iterations=20, record="log:8"))


def stored(folder: Path, cell: Cell) -> StoredResult:
    return read_result(str(folder / cell.file_name))


def test_a_folder_has_room_for_both_methods(data: Path, tmp_path: Path) -> None:
    """The second sweep keeps the first one's runs, each is kept when it is repeated, and the report compares them."""
    line = ("sweep", data, "--agents 1,4 --graph star --reference --out", tmp_path / "runs")
    for method in ("paper", "fast", "fast --gossip 2", "paper --weights scaled", "paper", "fast"):
        assert fdglm(*line, f"--method {method}").code == 0
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    kinds = ("", "_fast", "_fast_gossip2", "_scaled")
    assert names == [f"{name}{kind}.h5" for name in ("m0001_single", "m0004_star") for kind in kinds]
    assert fdglm("report", tmp_path / "runs", "-o", tmp_path / "page.html").code == 0
    found = (tmp_path / "page_files").glob("*methods.csv")
    rows = [row for path in found for row in path.read_text(encoding="utf-8").splitlines()[1:]]
    for method in (",fast,", ',"fast, gossip 2",'):  # three targets; a single agent is in the study of either weights
        assert [sum(row.startswith(name) and method in row for row in rows) for name in ("star", "single")] == [3, 6]


def test_a_sweep_gives_what_solve_gives(data: Path, tmp_path: Path) -> None:
    cells = grid([1, 5], ["star", "rgg:0.7"], [4])
    wanted = plan(data, tmp_path / "off", cells)
    done = sweep(replace(wanted, job=replace(wanted.job, compress="off")))
    assert [each.status for each in done] == ["done"] * 3
    for cell in cells:
        alone = solved(data, cell, "off")
        assert stored(tmp_path / "off", cell).theta_average.tobytes() == alone.result.theta_average.tobytes()
        assert stored(tmp_path / "off", cell).run["steps"]["sources"]["chi"] == "computed"
    sweep(plan(data, tmp_path / "auto", cells))  # compressed, which is exact but for rounding
    for cell in cells:
        alone, found = solved(data, cell, "off"), stored(tmp_path / "auto", cell)
        assert found.run["compressed"] and not alone.problem.compressed
        np.testing.assert_allclose(found.theta_last, alone.result.theta_last, rtol=0, atol=1e-10)


def test_what_is_there_is_kept(data: Path, tmp_path: Path) -> None:
    cells = grid([1, 4], ["ring"], [0])
    wanted = plan(data, tmp_path, cells)
    sweep(wanted)
    before = snapshot(tmp_path)
    (tmp_path / ".m0004_ring.0123456789ab.tmp.h5").write_bytes(b"half")  # what a kill leaves behind
    started: list[Cell] = []
    more = replace(wanted, cells=(*cells, Cell(3, "ring")), options=replace(wanted.options, threads=1))
    done = sweep(more, SweepWatch(started=lambda place, cell: started.append(cell)))
    assert [each.status for each in done] == ["kept", "kept", "done"] and started == [Cell(3, "ring")]
    after = snapshot(tmp_path)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"m0003_ring.h5"}


def test_compression_without_effect_is_no_other_run(tmp_path: Path) -> None:
    """With fewer samples than features there is nothing to compress; asked for all the same, the result is kept."""
    generate(tmp_path / "d.h5", 9, 12, seed=1)
    wanted = plan(tmp_path / "d.h5", tmp_path / "runs", [Cell(2, "path")])
    wanted = replace(wanted, job=replace(wanted.job, compress="on"))
    assert [sweep(wanted)[0].status for _ in range(2)] == ["done", "kept"]


@pytest.mark.parametrize("change", ["options", "data", "damaged", "unfinished"])
def test_only_the_very_result_is_kept(data: Path, tmp_path: Path, change: str) -> None:
    cells = [Cell(4, "ring")]
    wanted = plan(data, tmp_path / "runs", cells)
    sweep(wanted)
    file = tmp_path / "runs" / cells[0].file_name
    again = wanted
    if change == "options":
        again = replace(wanted, options=replace(wanted.options, iterations=21))
    elif change == "data":
        generate(tmp_path / "other.h5", 200, 24, seed=4)
        again = replace(wanted, job=replace(wanted.job, data=str(tmp_path / "other.h5")))
    elif change == "damaged":
        file.write_bytes(file.read_bytes()[:1000])
    else:
        edit_run(file, stop_reason="interrupted")
    if change == "unfinished":
        assert sweep(again)[0].status == "done"
        return
    before = file.read_bytes()
    with pytest.raises(UsageError, match="something else"):
        sweep(again)
    assert file.read_bytes() == before
    assert sweep(again, force=True)[0].status == "done"


def edit_run(file: Path, **changes: Any) -> None:
    import h5py

    with h5py.File(file, "r+") as opened:
        changed = {**json.loads(opened["run"].asstr()[()]), **changes}
        del opened["run"]
        opened.create_dataset("run", data=json.dumps(changed), dtype=h5py.string_dtype())


def test_a_file_that_splits_its_columns_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    owner = np.array([2, 0, 1, 1, 2, 0])
    write_h5(tmp_path / "d.h5", X=rng.standard_normal((30, 6)), y=rng.standard_normal(30), partition=owner)
    done = sweep(plan(tmp_path / "d.h5", tmp_path / "runs", grid([1, 2, 3], ["path"], [0])))
    assert [each.status for each in done] == ["done", "failed", "done"]
    assert done[1].code == 2 and "3 agents" in (done[1].why or "")
    alone = solved(tmp_path / "d.h5", Cell(3, "path"), "auto")
    found = stored(tmp_path / "runs", Cell(3, "path"))
    np.testing.assert_allclose(found.theta_last, alone.result.theta_last, rtol=0, atol=1e-10)


# --- what goes wrong ----------------------------------------------------------------------------------------


def test_failed_runs_do_not_stop_the_rest(data: Path, tmp_path: Path) -> None:
    cells = [Cell(6, "hypercube"), Cell(8, "er:0.0001", 0), Cell(25, "star"), Cell(4, "star")]
    done = sweep(plan(data, tmp_path, cells))
    assert [(each.status, each.code) for each in done] == [("failed", 2), ("failed", 3), ("failed", 2), ("done", 0)]
    assert "disconnected in all 100 draws" in (done[1].why or "")
    assert [path.name for path in tmp_path.iterdir()] == ["m0004_star.h5"]


def test_a_run_that_breaks_down_is_not_saved(data: Path, tmp_path: Path) -> None:
    wild = Given(sigma=1e12, tau=1e12, force=True)
    done = sweep(plan(data, tmp_path, [Cell(3, "path")], steps=wild, iterations=400))
    assert (done[0].status, done[0].code) == ("failed", 5) and not list(tmp_path.iterdir())


def test_stopping_leaves_the_rest_open(data: Path, tmp_path: Path) -> None:
    ended: list[SweepRun] = []
    watch = SweepWatch(ended=lambda place, each: ended.append(each), stop=lambda: len(ended) == 2)
    done = sweep(plan(data, tmp_path, grid([1, 2, 3, 4], ["star"], [0])), watch)
    assert [each.status for each in done] == ["done", "done", "open", "open"]
    assert len(list(tmp_path.iterdir())) == 2


def test_two_sweeps_do_not_share_a_folder(data: Path, tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another sweep"):
            sweep(plan(data, tmp_path, [Cell(1)]))
    finally:
        os.close(handle)


def test_a_process_that_dies_takes_one_run_with_it(data: Path, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_one(place: int, iteration: int, point: object) -> None:
        if not killed:
            child = min(multiprocessing.active_children(), key=lambda each: each.pid or 0)
            killed.append(child.pid or 0)
            os.kill(killed[0], signal.SIGKILL)

    cells = grid([2, 3, 4, 5], ["star"], [0])
    wanted = plan(data, tmp_path, cells, iterations=8000, threads=1)
    done = sweep(wanted, SweepWatch(advanced=kill_one), processes=2)
    failed = [each for each in done if each.status == "failed"]
    assert len(failed) == 1 and "signal 9" in (failed[0].why or "") and failed[0].code == 1
    assert sum(each.status == "done" for each in done) == 3 and len(list(tmp_path.iterdir())) == 3
    assert not multiprocessing.active_children()


# --- the command, in processes of its own -------------------------------------------------------------------


def test_kill_and_go_on(data: Path, tmp_path: Path) -> None:
    """Killed in the middle, a sweep goes on and leaves the same as one that was let alone."""
    seeds = ",".join(str(seed) for seed in range(7))
    options = f"--agents 1,4,6 --graph star,er:0.6 --seeds {seeds} --iterations 2000 --reference --record log:30"
    runs = 1 + 2 * 8
    process = subprocess.Popen(
        command_line("sweep", data, options, "--out", tmp_path / "killed"), env=environment(), stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE
    while len(list((tmp_path / "killed").glob("m*.h5"))) < 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()
    first = snapshot(tmp_path / "killed")
    assert 3 <= len(first) < runs
    found = strict_json(fdglm("sweep", data, options, "--json --quiet", "--out", tmp_path / "killed").out)
    assert found["counts"]["kept"] >= 3 and found["counts"]["kept"] + found["counts"]["done"] == runs
    assert fdglm("sweep", data, options, "--jobs 2 --quiet", "--out", tmp_path / "whole").code == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert len(contents(tmp_path / "whole")) == runs


def test_the_command(data: Path, tmp_path: Path) -> None:
    done = fdglm("sweep", data, GRID, "--out", tmp_path / "runs", "--tag a=b")
    assert done.code == 0, done
    assert "9 runs done, 0 kept, 0 failed" in done.out
    assert "[9/9] m = 6, er:0.6, seed 1: relative error" in done.err
    again = fdglm("sweep", data, GRID, "--out", tmp_path / "runs", "--tag a=b --json")
    found = strict_json(again.out)
    assert again.code == 0 and found["counts"] == {"done": 0, "kept": 9, "failed": 0, "open": 0}
    one = next(each for each in found["runs"] if each["agents"] == 6 and each["graph"] == "star")
    kept = read_result(one["file"]).run
    assert kept["tags"] == {"a": "b"} and kept["relative_error"]["average"] == one["relative_error"]
    assert kept["command"].startswith(f"fdglm sweep {data} --agents 1,4,6 --graph complete,star,er:0.6 --seeds 0,1")
    assert "--out" not in kept["command"]


def test_bars_on_a_terminal(data: Path, tmp_path: Path) -> None:
    seen = Watched("sweep", data, "--agents 4 --graph star,path --iterations 3000", "--out", tmp_path / "runs")
    done = seen.finish()
    assert done.code == 0 and "2 runs done" in done.out
    assert "runs" in done.err and "m = 4, star" in done.err and "m = 4, path" in done.err


def test_the_command_tells_what_failed(data: Path, tmp_path: Path) -> None:
    done = fdglm("sweep", data, "--agents 3,6 --graph hypercube,star --iterations 5 --quiet", "--out", tmp_path / "r")
    assert done.code == 2 and done.out == ""
    assert done.err.count("power of two") == 2
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == ["m0003_star.h5", "m0006_star.h5"]


def test_ctrl_c(data: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command_line("sweep", data, "--agents 2,3,4 --graph star --iterations 100000000 --json", "--out", tmp_path),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "compressing" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(1.0)  # the norm of X is found, then the first run begins
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and not list(tmp_path.iterdir()), err
    assert not out or strict_json(out)["counts"]["open"] == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--graph star", "--agents is missing"),
        ("--agents 1,x", "--agents takes whole numbers"),
        ("--agents 0,2", "at least 1"),
        ("--agents 2 --graph stra", "did you mean 'star'"),
        ("--agents 2 --seeds 1.5", "--seeds takes whole numbers"),
        ("--agents 2 --loss logistik", "did you mean 'logistic'"),
        ("--agents 2 --record never", "--record takes"),
        ("--agents 2 --tag k", "KEY=VALUE"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_written(
    data: Path, tmp_path: Path, options: str, sentence: str
) -> None:
    done = fdglm("sweep", data, options, "--out", tmp_path / "runs")
    assert done.code == 2 and sentence in done.err and not (tmp_path / "runs").exists()


# --- solve --skip-existing ----------------------------------------------------------------------------------


def test_solve_skips_what_it_has_done(data: Path, tmp_path: Path) -> None:
    words = ("solve", data, "--agents 4 --graph er:0.7 --seed 2 --iterations 25 --skip-existing", "--out")
    first = fdglm(*words, tmp_path / "r.h5", "--json")
    before = snapshot(tmp_path)
    again = fdglm(*words, tmp_path / "r.h5", "--json --threads 1", "--trace", tmp_path / "t.csv")
    assert (first.code, again.code) == (0, 0) and "nothing was run" in again.err
    assert strict_json(again.out) == strict_json(first.out)
    trace = (tmp_path / "t.csv").read_text().splitlines()
    assert len(trace) == 1 + len(strict_json(first.out)["trace"]) and trace[0].startswith("iteration,")
    assert snapshot(tmp_path)["r.h5"] == before["r.h5"]
    edit_run(tmp_path / "r.h5", stop_reason="interrupted")
    redone = fdglm(*words, tmp_path / "r.h5", "--quiet")
    assert redone.code == 0 and read_result(str(tmp_path / "r.h5")).run["stop_reason"] == "iterations"
    other = fdglm(*words, tmp_path / "r.h5", "--loss huber:1")
    assert other.code == 2 and "something else" in other.err
    needs = fdglm("solve", data, "--agents 4 --skip-existing")
    assert needs.code == 2 and "--out" in needs.err


def test_a_skipped_solve_keeps_its_exit_code(data: Path, tmp_path: Path) -> None:
    words = ("solve", data, "--agents 2 --graph path --iterations 5 --tol 1e-9 --skip-existing --quiet", "--out")
    assert fdglm(*words, tmp_path / "r.h5").code == 4
    before = snapshot(tmp_path)
    assert fdglm(*words, tmp_path / "r.h5").code == 4
    assert snapshot(tmp_path) == before


def test_a_graph_file_counts_by_its_content(data: Path, tmp_path: Path) -> None:
    graph = tmp_path / "g.txt"
    graph.write_text("0 1\n1 2\n")
    words = (
        "solve",
        data,
        f"--agents 3 --graph file:{graph} --iterations 5 --skip-existing",
        "--out",
        tmp_path / "r.h5",
    )
    assert fdglm(*words, "--quiet").code == 0
    assert "nothing was run" in fdglm(*words).err
    graph.write_text("0 1\n0 2\n")
    assert fdglm(*words).code == 2
