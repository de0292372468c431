"""The oracle's comparisons once more: without the JIT, where the plain Python is what runs, and with bounds checked.

What the explicit vectors of `lanes.py` read and write is not seen by Numba's check of bounds; without the JIT their
plain definitions run, and NumPy looks at every index.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
import pytest
from numba import prange

from fdglm_fast.kernels._jit import cache_folder, kernel, scalar

TESTS = Path(__file__).parent
# Every loss, penalty and graph family once; one agent; the agents schedule. Double precision.
FAMILIES = "test_each_family_once or test_one_agent[squared-none-tiles]"
inside = pytest.mark.skipif("FDGLM_TEST_MODE" not in os.environ, reason="for the processes that the others start")
outside = pytest.mark.skipif("FDGLM_TEST_MODE" in os.environ, reason="starts processes")


@scalar
def element(array: Any, i: int) -> Any:
    return array[i]


@kernel
def fill(array: Any, count: int) -> None:
    for i in prange(count):
        array[i] = element(array, i) + 1.0


@inside
def test_canary() -> None:
    """The mode is really on: nothing is compiled, or an index out of bounds is an error, in a parallel loop too."""
    if os.environ["FDGLM_TEST_MODE"] == "plain":
        assert numba.config.DISABLE_JIT and isinstance(fill, FunctionType)
        return
    room = np.zeros(64)[:4]  # out of bounds, but inside the memory that is ours
    with pytest.raises(IndexError):
        element(room, 7)
    with pytest.raises(SystemError):  # how an error inside prange comes out
        fill(room, 9)


def run_tests(selection: str, mode: str, **variables: str) -> int:
    """The chosen tests of test_oracle.py, and the canary, in a process of their own; how many passed."""
    files = ["test_oracle.py", "test_modes.py"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files, "-k", f"{selection} or test_canary"]
    environment = {**os.environ, **variables, "FDGLM_TEST_MODE": mode}
    done = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    return int(passed[1])


@outside
def test_without_the_jit() -> None:
    selection = f"{FAMILIES} or test_few_agents_by_the_agents_schedule"
    assert run_tests(selection, "plain", NUMBA_DISABLE_JIT="1") == 14


@outside
def test_with_bounds_checked() -> None:
    """Compiled anew (Numba's cache does not know the difference), into a folder beside the usual one, and kept."""
    folder = cache_folder()
    checked = folder.with_name(f"{folder.name}-boundscheck")
    assert run_tests(FAMILIES, "boundscheck", NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(checked)) == 13
