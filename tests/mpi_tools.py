"""Starting real ranks: mpiexec of the environment that runs the tests, around a script or the installed command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from cli_tools import PATIENCE, Finished, environment

# That of another MPI can be named, with MPI4PY_MPIABI for mpi4py: README, "On several machines".
MPIEXEC = os.environ.get("FDGLM_TEST_MPIEXEC", str(Path(sys.executable).with_name("mpiexec")))
SCRIPT = Path(__file__).with_name("mpi_script.py")


def run_ranks(ranks: int, *arguments: str, **changes: str) -> Finished:
    """`mpiexec -n ranks python mpi_script.py arguments`."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, "-W", "error", str(SCRIPT), *arguments]
    done = subprocess.run(
        command, env=environment(**changes), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def ask_ranks(ranks: int, *arguments: str, **changes: str) -> Any:
    """The JSON that rank 0 of the script prints."""
    done = run_ranks(ranks, *arguments, **changes)
    assert done.code == 0, done.err
    return json.loads(done.out)


class Marked:
    """A process whose descendants can be found by a mark in their environment."""

    def __init__(self, command: list[str]) -> None:
        self.mark = f"FDGLM_TEST_{uuid.uuid4().hex}"
        self.process = subprocess.Popen(
            command,
            env=environment(**{self.mark: "1"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rank(self, number: int) -> int:
        """The process of a rank, as soon as it is there."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for entry in Path("/proc").iterdir():
                if entry.name.isdecimal() and int(entry.name) != os.getpid():
                    try:
                        words = (entry / "environ").read_bytes().split(b"\0")
                    except OSError:
                        continue
                    if self.mark.encode() + b"=1" in words and b"PMI_RANK=%d" % number in words:
                        return int(entry.name)
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)
        raise AssertionError("no such rank")

    def finish(self, seconds: float = PATIENCE) -> Finished:
        out, err = self.process.communicate(timeout=seconds)
        return Finished(self.process.returncode, out, err)
