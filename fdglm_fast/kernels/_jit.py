"""The one place that knows how kernels are compiled and where the machine code is cached.

Numba keys its cache by the file of the decorated function alone, so an edit in an imported file would go
unnoticed: the cache folder carries a hash of all sources that kernels are made of instead. The folder is set only while
our own decorators run, so that other packages in the process keep theirs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# No fast-math flag at all. Whether a product is contracted into the sum that follows, or a quotient turned into a
# product, would depend on what surrounds an inlined routine, and two kernels would differ in their last bits. The
# loops that need freedom to be fast write their order out (see `lanes.py`).
FASTMATH = False

# Without Numba's run time nothing can allocate, and arrays are not counted, which saves a call at each use.
BARE: Any = {"_nrt": False}
INLINED: Any = {"_nrt": False, "forceinline": True}

# Numba's settings are made at import; the type checker does not see them.
_SETTINGS: Any = numba.config


def source_hash() -> str:
    """A hash of what compiled code depends on: the sources and where they are, Numba's version, and the processor.

    Numba keeps the code of two installations apart; so must the markers that say what is there (`compile.py`).
    """
    processor = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256(f"{numba.__version__} {processor} {package}".encode())
    codes = [package / "losses.py", package / "penalties.py", package / "reference" / "pointwise.py"]
    for path in sorted([*package.glob("kernels/*.py"), *codes]):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR if the user set it, else the user's cache folder."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "fdglm" / source_hash()


def _decorate(function: Function, **options: Any) -> Function:
    before = _SETTINGS.CACHE_DIR
    _SETTINGS.CACHE_DIR = str(_FOLDER)
    try:
        return numba.njit(cache=True, fastmath=FASTMATH, error_model="numpy", **options)(function)
    finally:
        _SETTINGS.CACHE_DIR = before


def scalar(function: Function) -> Function:
    """Compile a routine that kernels call."""
    return _decorate(function, **BARE)


def inlined(function: Function) -> Function:
    """Compile a routine into the body of its callers: a call with tuples of arrays passes a hundred words."""
    return _decorate(function, **INLINED)


def kernel(function: Function) -> Function:
    """Compile a kernel with `prange` threads."""
    return _decorate(function, parallel=True, nogil=True)


def driver(function: Function) -> Function:
    """Compile what calls kernels again and again. Tuples that it makes of borrowed arrays are not counted either."""
    return _decorate(function, nogil=True, **BARE)


_FOLDER = cache_folder()
