"""Runs the command line on broken files, each in a process of its own, and writes a line of JSON about each.

Starting Python and loading the compiled kernels costs more than a run on a small file. So this process does it once and
forks for each file; the child calls the entry point of `fdglm` with a limited memory and a limited time. The kernels
are loaded by a solve with one thread of Numba's own pool, which survives a fork (OpenMP's does not).

    python fuzz_worker.py {hdf5|graph} FIRST STOP STEP FOLDER
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import mutants

SECONDS = 60  # a run takes a few hundredths; the machine may be busy
MEMORY = 1 << 30  # beyond what the process has when it is forked
SOLVE = ["--iterations", "5", "--threads", "1", "--schedule", "tiles", "--json", "--out", "result.h5"]


def hdf5_call(number: int, bases: Path, folder: Path) -> list[str]:
    """Write the mutant into the folder and return the words of the command that meets it."""
    rng = random.Random(f"call {number}")
    kind = rng.choice(["info"] * 7 + ["solve"] * 8 + ["predict", "result", "result", "resume", "resume", "cache"])
    problem = bases / rng.choice(["plain.h5", "newest.h5", "chunked.h5"])
    made = {"result": "result.h5", "resume": "checkpoint.h5", "cache": "plain.h5.reference.h5"}
    broken = folder / "broken.h5" if kind != "cache" else folder / "plain.h5.reference.h5"
    mutants.hdf5_mutant(number, bases / made[kind] if kind in made else problem, broken)
    if kind == "info":
        return ["info", "broken.h5", *rng.choice([[], ["--json"], ["--agents", "3"], ["--no-check"]])]
    if kind == "predict":
        return ["predict", str(bases / "result.h5"), "broken.h5", "--json", "--out", "predictions.csv"]
    if kind == "result":
        return ["predict", "broken.h5", str(bases / "plain.h5"), "--json", "--out", "predictions.csv"]
    if kind == "resume":
        chosen = ["--agents", "3", "--graph", "ring", "--resume", "broken.h5", "--checkpoint", "new.h5"]
        return ["solve", str(bases / "plain.h5"), *chosen, *SOLVE]
    if kind == "cache":
        shutil.copy(bases / "plain.h5", folder)
        return ["solve", "plain.h5", "--agents", "2", "--reference", *SOLVE]
    models: list[list[str]] = [
        [],
        ["--loss", "logistic"],
        ["--loss", "poisson", "--penalty", "l1", "--reg", "0.1"],
        ["--penalty", "group-l2", "--reg", "0.1"],
        ["--dtype", "f32"],
        ["--compress", "on"],
    ]
    return ["solve", "broken.h5", "--agents", rng.choice("123"), "--graph", "ring", *rng.choice(models), *SOLVE]


def graph_call(number: int, bases: Path, folder: Path) -> list[str]:
    rng = random.Random(f"call {number}")
    chosen = ["--agents", str(mutants.VERTICES), "--graph", f"file:{mutants.graph_mutant(number, folder).name}"]
    chosen += rng.choice([[], ["--weights", "file"], ["--weights", "metropolis"]])
    if rng.random() < 0.25:
        return ["solve", str(bases / "wide.h5"), *chosen, *SOLVE]
    return ["graph", *chosen, *rng.choice([[], ["--json"], ["--plot", "drawing.svg"]])]


CALLS = {"hdf5": hdf5_call, "graph": graph_call}


def run_child(words: list[str], folder: Path) -> None:
    """The command line, as if started anew in `folder`; ends in SystemExit, as a process does."""
    from fdglm_cli.main import run

    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder.with_name(f"{folder.name}.{name}"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, in_use + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(SECONDS)
    sys.argv = ["fdglm", *words]
    run()


def leave(code: Any) -> None:
    """End the process as Python does, with the handlers of both languages (HDF5 has one), but for taking Python's own
    objects apart, which after these imports takes five times as long as a run."""
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()
    ctypes.CDLL(None).exit(code)


def report(number: int, words: list[str], status: int, seconds: float, folder: Path) -> dict[str, Any]:
    written = {
        name: folder.with_name(f"{folder.name}.{name}").read_text(errors="replace") for name in ("stdout", "stderr")
    }
    return {
        "number": number,
        "words": words,
        "code": os.waitstatus_to_exitcode(status),
        "seconds": seconds,
        "out": written["stdout"],
        "err": written["stderr"],
        "files": sorted(path.name for path in folder.iterdir()),
    }


def load_everything(bases: Path) -> None:
    """Run each command once on a sound file, so that the children find what it imports and compiles in memory."""
    from fdglm_cli.main import main as command
    from fdglm_fast.kernels.compile import prepare, prepare_sets

    for dtype in ("float64", "float32"):
        prepare(dtype, "tiles", reference=True)
    prepare_sets(["values"])
    plain, result = str(bases / "plain.h5"), str(bases / "result.h5")
    graph = ["graph", "--agents", "3", "--graph", "ring"]
    calls = [["info", plain], ["solve", plain, "--agents", "3", *SOLVE[:6]], ["predict", result, plain], graph]
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        for words in calls:
            command.main(args=words, standalone_mode=False)


def main(kind: str, first: int, stop: int, step: int, bases: Path) -> None:
    load_everything(bases)
    for number in range(first, stop, step):
        folder = bases / f"{kind}-{number}"
        folder.mkdir()
        words = CALLS[kind](number, bases, folder)
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                run_child(words, folder)
            except SystemExit as stop:
                leave(stop.code)
        _, status = os.waitpid(child, 0)
        print(json.dumps(report(number, words, status, time.monotonic() - began, folder)), flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5]))
