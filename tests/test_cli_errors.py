"""Bad input ends with one sentence and its exit code, never a traceback, and leaves every file as it was."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from cli_tools import fdglm, snapshot, write_h5, write_problem

USAGE, DATA = 2, 3
SOLVE = "solve good.h5 --agents 2"


class Case(NamedTuple):
    """A command line, what it must end with, and words that its sentence must have."""

    command: str
    code: int
    words: tuple[str, ...]


def case(command: str, code: int, *words: str) -> Case:
    return Case(command, code, words)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files, each of them wrong in one way, except good.h5."""
    folder = tmp_path_factory.mktemp("zoo")
    X, y = write_problem(folder / "good.h5")
    labels, counts = (y > 0).astype(float), np.floor(np.abs(y))
    (folder / "text.h5").write_text("no data here\n" * 100)
    (folder / "cut.h5").write_bytes((folder / "good.h5").read_bytes()[:1500])
    (folder / "folder").mkdir()
    write_h5(folder / "no_y.h5", X=X, why=y)
    write_h5(folder / "cube.h5", X=X[:, :, np.newaxis], y=y)
    write_h5(folder / "rows.h5", X=X, y=y[:-1])
    write_h5(folder / "strings.h5", X=X.astype("S"), y=y)
    write_h5(folder / "complex.h5", X=X + 0j, y=y)
    wrong, inf = X.copy(), y.copy()
    wrong[3, 2], wrong[31, 4], inf[7] = np.nan, -np.inf, np.inf
    write_h5(folder / "nan.h5", X=wrong, y=y)
    write_h5(folder / "inf_y.h5", X=X, y=inf)
    write_h5(folder / "large.h5", X=X * 1e60, y=y)
    write_h5(folder / "classes.h5", X=X, y=np.where(np.arange(40) == 5, 2.0, labels))
    write_h5(folder / "one_class.h5", X=X, y=np.ones(40))
    write_h5(folder / "negative.h5", X=X, y=np.where(np.arange(40) == 6, -3.0, counts))
    write_h5(folder / "idle.h5", X=X, y=y, partition=np.array([0, 0, 2, 2, 0, 2]))
    write_h5(folder / "astride.h5", X=X, y=y, groups=np.array([0, 0, 1, 1, 2, 2]))
    (folder / "apart.txt").write_text("0 1\n2 3\n")
    (folder / "beyond.txt").write_text("0 1\n1 9\n")
    (folder / "old.h5").write_text("keep me")
    (folder / "old.csv").write_text("keep me")
    return folder


FILES = {
    "missing file": case("solve none.h5 --agents 2", DATA, "'none.h5' does not exist"),
    "folder": case("solve folder --agents 2", DATA, "is a folder"),
    "not HDF5": case("solve text.h5 --agents 2", DATA, "is not an HDF5 file"),
    "truncated": case("solve cut.h5 --agents 2", DATA, "'cut.h5'", "truncated"),
    "missing group": case("solve good.h5::/deep --agents 2", DATA, "no group '/deep'"),
    "missing X": case(SOLVE + " --x XX", DATA, "no dataset 'XX'", "did you mean 'X'?"),
    "missing y": case("solve no_y.h5 --agents 2", DATA, "no dataset 'y'", "did you mean 'why'?"),
    "X of rank 3": case("solve cube.h5 --agents 2", DATA, "two dimensions", "not 3"),
    "X and y disagree": case("solve rows.h5 --agents 2", DATA, "40 rows", "39 entries"),
    "strings": case("solve strings.h5 --agents 2", DATA, "real numbers, not strings"),
    "complex": case("solve complex.h5 --agents 2", DATA, "real numbers, not complex"),
    "NaN in X": case("solve nan.h5 --agents 2", DATA, "2 values", "nan", "row 3, column 2"),
    "infinity in y": case("solve inf_y.h5 --agents 2", DATA, "'y'", "inf", "row 7"),
    "too large for float32": case("solve large.h5 --agents 2 --dtype f32", DATA, "too large for float32", "row 0"),
    "three classes": case("solve classes.h5 --agents 2 --loss logistic", DATA, "0 and 1", "y[5] is 2"),
    "one class": case("solve one_class.h5 --agents 2 --loss hinge", DATA, "two classes", "every label in y is 1"),
    "real labels": case(SOLVE + " --loss squared-hinge", DATA, "needs labels", "y[0]"),
    "negative counts": case("solve negative.h5 --agents 2 --loss poisson", DATA, "counts", "y[6] is -3"),
    "idle agent": case("solve idle.h5 --agents 3", DATA, "without a column: 1."),
    "group astride": case(
        "solve astride.h5 --agents 2 --penalty group-l2 --reg 1", DATA, "group 1", "inside one agent"
    ),
    "info of nothing": case("info none.h5", DATA, "does not exist"),
    "info of no method": case("info good.h5 --method quick", USAGE, "unknown method 'quick'", "fast"),
}

GRAPHS = {
    "unknown graph": case(SOLVE + " --graph lattise", USAGE, "unknown graph 'lattise'", "'lattice'"),
    "er:2": case(SOLVE + " --graph er:2", USAGE, "probability in (0, 1]", "'2'"),
    "rgg:0": case(SOLVE + " --graph rgg:0", USAGE, "positive radius"),
    "regular:99": case("solve good.h5 --agents 6 --graph regular:99", USAGE, "6 agents", "99 neighbours"),
    "hypercube of 6": case("solve good.h5 --agents 6 --graph hypercube", USAGE, "power of two"),
    "missing graph file": case(SOLVE + " --graph file:none.txt", DATA, "'none.txt'", "No such file"),
    "disconnected": case("solve good.h5 --agents 4 --graph file:apart.txt", DATA, "2 components", "(0, 1)", "(2, 3)"),
    "vertex out of range": case(SOLVE + " --graph file:beyond.txt", DATA, "line 2", "from 0 to 1"),
    "no weights": case("solve good.h5 --agents 4 --graph file:apart.txt --weights file", DATA, "no weights"),
    "unknown weights": case(SOLVE + " --weights metropolitan", USAGE, "'metropolis'"),
    "weights of no file": case(SOLVE + " --weights file", USAGE, "need a graph from a file"),
}

NAMES = {
    "unknown command": case("slove good.h5", USAGE, "unknown command 'slove'", "'solve'"),
    "unknown option": case(SOLVE + " --iteration-count 3", USAGE, "--iteration-count"),
    "no agents": case("solve good.h5", USAGE, "--agents"),
    "unknown loss": case(SOLVE + " --loss squarred", USAGE, "unknown loss 'squarred'", "'squared'"),
    "unknown penalty": case(SOLVE + " --penalty elastic", USAGE, "unknown penalty 'elastic'", "'elastic-net'"),
    "unknown steps": case(SOLVE + " --steps theorm", USAGE, "unknown step rule 'theorm'", "'theorem'"),
    "unknown schedule": case(SOLVE + " --schedule tile", USAGE, "unknown schedule 'tile'", "'tiles'"),
    "unknown compression": case(SOLVE + " --compress maybe", USAGE, "unknown compression 'maybe'", "auto, off, on"),
    "unknown type": case(SOLVE + " --dtype f16", USAGE, "'f16'", "'f32'"),
    "unknown record rule": case(SOLVE + " --record often", USAGE, "log:K or every:K", "'often'"),
}

RANGES = {
    "no agent": case("solve good.h5 --agents 0", USAGE, "--agents"),
    "too many agents": case("solve good.h5 --agents 7", USAGE, "more agents (7) than features (6)"),
    "primal weight 0": case(SOLVE + " --method fast --primal-weight 0", USAGE, "primal weight", "positive"),
    "primal weight of paper": case(SOLVE + " --primal-weight 1", USAGE, "--primal-weight is for --method fast"),
    "huber:-1": case(SOLVE + " --loss huber:-1", USAGE, "must be positive", "-1"),
    "quantile:1.5": case(SOLVE + " --loss quantile:1.5", USAGE, "(0, 1)", "1.5"),
    "box:2:1": case(SOLVE + " --penalty box:2:1", USAGE, "LO <= HI", "2 > 1"),
    "elastic-net:2": case(SOLVE + " --penalty elastic-net:2 --reg 1", USAGE, "[0, 1]"),
    "negative reg": case(SOLVE + " --penalty l1 --reg -1", USAGE, "weight", "-1"),
    "reg without penalty": case(SOLVE + " --reg 1", USAGE, "'none' has no weight"),
    "no groups": case(SOLVE + " --penalty group-l2 --reg 1", USAGE, "`groups`"),
    "zero tolerance": case(SOLVE + " --tol 0", USAGE, "tolerance must be a positive number"),
    "endless tolerance": case(SOLVE + " --tol inf", USAGE, "tolerance must be a positive number, not inf"),
    "chi of the fast method": case(SOLVE + " --method fast --chi 9", USAGE, "chi belongs to --method paper"),
    "endless gossip": case(
        "solve good.h5 --agents 6 --graph path --method fast --gossip 2000", USAGE, "--gossip 2000", "fewer rounds"
    ),
    "negative time": case(SOLVE + " --time-limit -1", USAGE, "time limit must be positive"),
    "every:0": case(SOLVE + " --record every:0", USAGE, "K >= 1"),
    "every:2 squared": case(SOLVE + " --record every:²", USAGE, "K >= 1"),
    "a trace too long": case(SOLVE + " --record every:1 --iterations 1000000000", USAGE, "1000000 records"),
    "too many threads": case(SOLVE + " --threads 100000", USAGE, "--threads", "not 100000"),
    "sigma alone": case(SOLVE + " --sigma 1", USAGE, "together"),
    "steps too long": case(SOLVE + " --sigma 1000 --tau 1000", USAGE, "sigma * tau", "--force-steps"),
    "chi too small": case(SOLVE + " --chi 1", USAGE, "--chi 1 is smaller than ||X||, 8.2", "--force-steps"),
    "D too small": case(
        SOLVE + " --laplacian-norm 1.9", USAGE, "--laplacian-norm 1.9 is smaller than ||L||, 2,", "--force-steps"
    ),
    "compressed huber": case(SOLVE + " --loss huber:1 --compress on", USAGE, "squared loss only"),
    "a tag without value": case(SOLVE + " --tag fine", USAGE, "KEY=VALUE"),
    "sparsity": case("generate new.h5 --samples 5 --features 2 --sparsity 3", USAGE, "3"),
}

OUTPUTS = {
    "out exists": case(SOLVE + " --out old.h5", USAGE, "'old.h5' exists", "--force"),
    "trace exists": case(SOLVE + " --trace old.csv", USAGE, "'old.csv' exists", "--force"),
    "generate exists": case("generate old.h5 --samples 5 --features 2", USAGE, "'old.h5' exists"),
    "plot exists": case("graph --agents 3 --graph ring --plot old.csv", USAGE, "old.csv"),
    "out in no folder": case(SOLVE + " --out gone/r.h5", USAGE, "'gone/r.h5'", "does not exist"),
    "out below a file": case(SOLVE + " --out old.csv/r.h5", USAGE, "'old.csv/r.h5' cannot be written"),
    "out is a folder": case(SOLVE + " --out folder --force", USAGE, "not a regular file"),
    "out is the data": case(SOLVE + " --out ./good.h5 --force", USAGE, "it is an input"),
    "out is the trace": case(SOLVE + " --out new.h5 --trace ./new.h5", USAGE, "output already"),
    "out is the graph": case(
        "solve good.h5 --agents 4 --graph file:apart.txt --trace apart.txt --force", USAGE, "it is an input"
    ),
}


def check(zoo: Path, wanted: Case) -> None:
    before = snapshot(zoo)
    done = fdglm(*wanted.command.split(" "), cwd=zoo)
    assert done.code == wanted.code, done
    assert done.out == ""
    assert re.fullmatch(r"fdglm: error: [^\n]+[.?)]\n", done.err), done.err
    for words in wanted.words:
        assert words in done.err
    assert snapshot(zoo) == before


def cases(table: dict[str, Case], outputs: str = "") -> pytest.MarkDecorator:
    rows = [entry._replace(command=entry.command + outputs) for entry in table.values()]
    return pytest.mark.parametrize("wanted", rows, ids=list(table))


@cases(FILES)
def test_bad_files(zoo: Path, wanted: Case) -> None:
    outputs = " --json --out new.h5 --trace new.csv" if wanted.command.startswith("solve") else ""
    check(zoo, wanted._replace(command=wanted.command + outputs))


@cases(GRAPHS, " --out new.h5 --trace new.csv")
def test_bad_graphs(zoo: Path, wanted: Case) -> None:
    check(zoo, wanted)


@cases(NAMES)
def test_unknown_names(zoo: Path, wanted: Case) -> None:
    check(zoo, wanted)


@cases(RANGES)
def test_values_out_of_range(zoo: Path, wanted: Case) -> None:
    check(zoo, wanted)


@cases(OUTPUTS)
def test_outputs_that_cannot_be_written(zoo: Path, wanted: Case) -> None:
    check(zoo, wanted)


def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    write_problem(tmp_path / "p.h5")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("permissions do not bind this user")
    done = fdglm("solve", tmp_path / "p.h5", "--agents 2", "--out", closed / "r.h5")
    assert done.code == USAGE and "read-only" in done.err and not list(closed.iterdir())


def test_names_cannot_steer_a_terminal(tmp_path: Path) -> None:
    for arguments in (["solve", "\x1b[31m.h5", "--agents 2"], ["solve", "p.h5", "--agents 2", "--loss", "\x1b[31m"]):
        done = fdglm(*arguments, cwd=tmp_path)
        assert done.code in (USAGE, DATA) and "\x1b" not in done.err and "\\x1b[31m" in done.err


def test_no_command_shows_the_help() -> None:
    done = fdglm()
    assert done.code == USAGE and "Commands:" in done.out + done.err and "Traceback" not in done.err
