"""`--ranks R`: start mpiexec with R copies of this command, pass signals on, and say which rank it was that died."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from fdglm_fast.errors import UsageError
from fdglm_fast.mpi.start import ANNOUNCE, INSTALL, MARK

# What mpiexec says when a process ends badly, that of MPICH, then that of Open MPI; we say it in one line.
_NOISE = re.compile(
    r"^(={20}|=   |YOUR APPLICATION TERMINATED|This typically refers to|Please see the FAQ|Abort\(\d+\) on node"
    r"|\[(mpiexec|proxy)[:@]|\[cli_\d+\]:"
    r"|-{20}|Primary job  terminated|a non-zero exit code\. Per|mpi(exec|run) noticed that process"
    r"|MPI_ABORT was invoked|with errorcode \d|NOTE: invoking MPI_ABORT|You may or may not see"
    r"|exactly when Open MPI kills|\[\S+:\d+\] (\d+ more process|Set MCA parameter))"
)
_KILLED = re.compile(r"PID (\d+) (?:RUNNING AT|on node) (\S+)")  # Open MPI knows no number of the process: 0


# Open MPI refuses more ranks than cores, and binds each to a core of its own, where its threads would be too.
_OPEN_MPI = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


def find_mpiexec() -> str:
    """mpiexec of the environment that this Python belongs to, or else of the PATH."""
    if importlib.util.find_spec("mpi4py") is None:
        raise UsageError(f"--engine mpi needs mpi4py, which is not installed: {INSTALL}.")
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise UsageError(f"no mpiexec was found: {INSTALL}.")
    return found


def launch(ranks: int, arguments: list[str], say: Callable[[str], None]) -> int:
    """Run `fdglm arguments` on so many ranks of this machine; returns the exit code of the job."""
    command = [find_mpiexec(), "-n", str(ranks), sys.executable, "-m", "fdglm_cli.main", *arguments]
    environment = {**_OPEN_MPI, **os.environ, ANNOUNCE: "1"}
    # A session of its own: a Ctrl-C at the terminal reaches the ranks once, through us, and not twice.
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    watch = _Watch()
    ears = [_Ear(process.stdout, sys.stdout, watch), _Ear(process.stderr, sys.stderr, watch)]
    with _signals_to(process):
        for ear in ears:
            ear.thread.join()
        code = process.wait()
    killed = ears[0].killed or ears[1].killed
    if killed:
        pid, host = killed
        pid = watch.first or pid
        rank = ears[1].who.get(pid)
        named = f"rank {rank} (process {pid} on {host})" if rank is not None else f"process {pid} on {host}"
        say(f"error: {named} was killed; the job is over.")
        return 128 + code if 0 < code < 64 else code or 1
    return code if code >= 0 else 128 - code


class _Watch:
    """Which process ended first. When one is killed mpiexec kills the others at once, and may then name any of them."""

    def __init__(self) -> None:
        self.first: int | None = None
        self._pids: dict[int, int] = {}
        self._poll = select.poll() if hasattr(os, "pidfd_open") else None
        self._wake, self._ring = os.pipe()
        if self._poll:
            self._poll.register(self._wake, select.POLLIN)
            threading.Thread(target=self._look, daemon=True).start()

    def add(self, pid: int) -> None:
        if self._poll is None:
            return
        with contextlib.suppress(OSError):  # it is gone already
            handle = os.pidfd_open(pid)
            self._pids[handle] = pid
            self._poll.register(handle, select.POLLIN)
            os.write(self._ring, b"!")  # the thread begins to wait anew, for this one too

    def _look(self) -> None:
        assert self._poll is not None
        while self.first is None:
            ready = [handle for handle, _ in self._poll.poll()]
            if self._wake in ready:
                os.read(self._wake, 1)
            ended = [self._pids[handle] for handle in ready if handle in self._pids]
            self.first = ended[0] if ended else None


class _Ear:
    """Passes on what the ranks say, line by line, and notes who they are and which of them mpiexec found dead."""

    def __init__(self, source: IO[str] | None, target: TextIO, watch: _Watch) -> None:
        assert source is not None
        self._source, self._target = source, target
        self.who: dict[int, str] = {}
        self._watch = watch
        self.killed: tuple[int, str] | None = None
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        noise = False
        for line in self._source:
            words = line.split()
            if words[:1] == [MARK] and len(words) == 4:
                self.who[int(words[2])] = words[1]
                self._watch.add(int(words[2]))
                continue
            found = _KILLED.search(line)
            if found and self.killed is None:  # the first that mpiexec tells of
                self.killed = (int(found[1]), found[2])
            noise = bool(_NOISE.match(line)) or (noise and not words)  # a blank line in it is of it
            if not noise:
                self._target.write(line)
                self._target.flush()


@contextmanager
def _signals_to(process: subprocess.Popen[str]) -> Iterator[None]:
    """SIGINT and SIGTERM go on to mpiexec, which hands them to every rank."""

    def forward(number: int, frame: object) -> None:
        process.send_signal(signal.SIGTERM)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if process.poll() is None:
            process.kill()
