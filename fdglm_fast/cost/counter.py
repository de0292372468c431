"""Asking the counting process: a few small problems at a time, because it takes a second to start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fdglm_fast.cost.instance import Count, Instance
from fdglm_fast.errors import FdglmError


class CountingError(FdglmError):
    """The updates cannot be counted: they do something that a counting number does not know."""


def count(instances: Sequence[Instance]) -> list[Count]:
    """Count the operations of each instance, with the sources that this process runs."""
    home = Path(__file__).resolve().parents[2]
    # The folder goes first on the path of `python -m`: the process must not find another copy of the package.
    done = subprocess.run(
        [sys.executable, "-m", "fdglm_fast.cost.count"],
        input=json.dumps([instance.as_json() for instance in instances]),
        capture_output=True,
        text=True,
        cwd=home,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"]
        raise CountingError(f"the updates cannot be counted: {lines[-1]}.")
    return [Count(**answer) for answer in json.loads(done.stdout)]
