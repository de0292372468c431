"""What must answer at once imports none of the slow libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_tools import SAMPLE, environment

SLOW = {"numba", "llvmlite", "scipy", "matplotlib", "networkx", "sklearn", "clarabel"}
SOLVE = f"solve {SAMPLE} --agents 6"


def imported(*arguments: str) -> tuple[int, set[str]]:
    """The exit code of `fdglm arguments`, and the packages that it imported."""
    command = [sys.executable, "-X", "importtime", "-m", "fdglm_cli.main", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return done.returncode, {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_the_test_can_fail() -> None:
    code, packages = imported("graph", "--agents", "4", "--graph", "er:0.9")
    assert code == 0 and "scipy" in packages and "fdglm_fast" in packages


@pytest.mark.parametrize(
    "command",
    ["--help", "--version", "solve --help", "generate --help", "info --help", "predict --help"],
)
def test_help_imports_nothing_slow(command: str) -> None:
    code, packages = imported(*command.split())
    assert code == 0 and not packages & (SLOW | {"numpy", "h5py", "rich"})


def test_info_imports_nothing_slow() -> None:
    code, packages = imported("info", str(SAMPLE))
    assert code == 0 and "h5py" in packages and not packages & SLOW


@pytest.mark.parametrize(
    "command",
    [
        "slove",
        "solve",
        f"{SOLVE} --no-such-option",
        f"{SOLVE} --loss squarred",
        f"{SOLVE} --penalty l1 --reg -1",
        f"{SOLVE} --penalty group-l2 --reg 1",
        f"{SOLVE} --graph hypercube",
        f"{SOLVE} --graph regular:9",
        f"{SOLVE} --weights heavy",
        f"{SOLVE} --steps short",
        f"{SOLVE} --sigma 1",
        f"{SOLVE} --schedule none",
        f"{SOLVE} --compress maybe",
        f"{SOLVE} --record never",
        f"{SOLVE} --threads 100000",
        f"{SOLVE} --tol 0",
        f"{SOLVE} --out {Path(__file__)}",
        f"solve {SAMPLE} --agents 49",
        "graph --agents 6 --graph regular:9",
        "generate x.h5 --samples 5 --features 2 --loss none",
    ],
)
def test_usage_errors_import_nothing_slow(command: str) -> None:
    code, packages = imported(*command.split())
    assert code == 2 and not packages & SLOW
