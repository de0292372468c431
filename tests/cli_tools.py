"""Running the installed `fdglm` as a user does: in a process of its own, with pipes or a pseudo terminal around it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import numpy.typing as npt

FDGLM = str(Path(sys.executable).with_name("fdglm"))
SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample.h5"
PATIENCE = 300.0  # seconds; a process that has to compile first needs a minute

Array = npt.NDArray[np.float64]


class Finished(NamedTuple):
    """What a process left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


def environment(**changes: str) -> dict[str, str]:
    """The environment without what tells libraries to colour or to fold their output, and with `changes`."""
    unwanted = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "PYTHONWARNINGS"}
    if "XDG_CACHE_HOME" in changes:
        unwanted.add("NUMBA_CACHE_DIR")  # which would win
    return {**{key: value for key, value in os.environ.items() if key not in unwanted}, **changes}


def command_line(*arguments: object) -> list[str]:
    """The words of a call of `fdglm`; a string of options is split at its blanks."""
    words = [FDGLM]
    for argument in arguments:
        options = isinstance(argument, str) and argument.startswith("--")
        words += argument.split() if options else [str(argument)]
    return words


def fdglm(*arguments: object, cwd: Path | None = None, **changes: str) -> Finished:
    """Run `fdglm arguments`; keyword arguments are put into its environment.

    That kernels are compiled, which is said once on a new machine, is left out of what it wrote.
    """
    done = subprocess.run(
        command_line(*arguments),
        cwd=cwd,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    said = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith("fdglm: compiling kernels ")]
    return Finished(done.returncode, done.stdout, "".join(said))


def strict_json(text: str) -> Any:
    """The one JSON value that `text` is; NaN and Infinity, which JSON does not have, are refused."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    return json.loads(text, parse_constant=refuse)


def solve(data: object, *arguments: object, code: int = 0, cwd: Path | None = None) -> dict[str, Any]:
    """The JSON of `fdglm solve data arguments --json`, which must end with `code`."""
    done = fdglm("solve", data, *arguments, "--json", cwd=cwd)
    assert done.code == code, done
    assert "Warning" not in done.err and "Traceback" not in done.err, done.err
    report = strict_json(done.out)
    assert isinstance(report, dict)
    return report


def write_problem(path: Path, n: int = 40, d: int = 6, labels: str = "real", seed: int = 0) -> tuple[Array, Array]:
    """A small problem in a file; labels are real, binary (0 and 1) or count."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    signal = X @ rng.standard_normal(d) / np.sqrt(d)
    y = signal + 0.1 * rng.standard_normal(n)
    if labels == "binary":
        y = (signal + 0.5 * rng.standard_normal(n) > 0).astype(np.float64)
    elif labels == "count":
        y = rng.poisson(np.exp(signal)).astype(np.float64)
    write_h5(path, X=X, y=y)
    return X, y


def write_h5(path: Path, **datasets: Any) -> None:
    """An HDF5 file with these datasets; a double underscore in a name stands for the slash after a group."""
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file.create_dataset(name.replace("__", "/"), data=values)


def coefficients(path: Path, which: str = "average") -> Array:
    with h5py.File(path, "r") as file:
        return np.asarray(file[f"theta_{which}"][...])


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder, with its content and when it was last written."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


class Watched:
    """`fdglm` in a process whose standard error is a pseudo terminal, standard output a pipe."""

    def __init__(self, *arguments: object, columns: int = 100, **changes: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            command_line(*arguments),
            env=environment(TERM="xterm-256color", **changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=slave,
        )
        os.close(slave)
        self.screen = b""

    def wait_for(self, text: str) -> None:
        """Until `text` has appeared on the terminal."""
        self._read(lambda: text.encode() in self.screen)
        assert text.encode() in self.screen, self.screen

    def finish(self) -> Finished:
        """Until the process has ended. What it puts into the pipe must fit there while the terminal is read."""
        self._read(lambda: False)
        out, _ = self.process.communicate(timeout=PATIENCE)
        os.close(self._master)
        return Finished(self.process.returncode, out.decode(), self.screen.decode())

    def _read(self, enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not enough():
            assert time.monotonic() < deadline, self.screen
            if not select.select([self._master], [], [], 1.0)[0]:
                continue
            try:
                got = os.read(self._master, 1 << 16)
            except OSError:  # how Linux says that the other side of a pseudo terminal is closed
                return
            if not got:
                return
            self.screen += got
