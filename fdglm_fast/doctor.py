"""What a bug report needs: versions, threads, bandwidth, MPI, and whether compiled kernels can be kept."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from fdglm_fast import __version__

PACKAGES = ("numba", "llvmlite", "numpy", "scipy", "h5py", "click", "rich", "matplotlib", "networkx", "clarabel")
WITH_MPI = ("mpi4py", "mpich")


def examine() -> dict[str, Any]:
    """All findings but the bandwidth, as JSON has them; `faults` are sentences about what will not work."""
    faults: list[str] = []
    cache = _cache(faults)
    return {
        "version": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
        "packages": _versions(faults),
        "threads": _threads(faults),
        "mpi": _mpi(),
        "cache": cache,
        "faults": faults,
    }


def _versions(faults: list[str]) -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in (*PACKAGES, *WITH_MPI):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
            if name in PACKAGES:
                faults.append(f"{name} is not installed.")
    return found


def _threads(faults: list[str]) -> dict[str, Any]:
    """Cores, threads, and the threading layer, which is known once a parallel kernel has run."""
    import numba
    import numpy as np

    from fdglm_fast.kernels.pack import pack

    layer = None
    try:
        pack(np.zeros((8, 2)), 0, np.arange(2), np.zeros((1, 2, 32)))
        layer = str(numba.threading_layer())
    except Exception as error:  # whatever a broken threading layer raises belongs into the report
        faults.append(f"parallel kernels do not run: {type(error).__name__}: {error}")
    settings: Any = numba.config
    return {
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)),
        "numba_threads": int(settings.NUMBA_NUM_THREADS),
        "threading_layer": layer,
        "environment": {name: value for name, value in sorted(os.environ.items()) if _is_about_threads(name)},
    }


def _is_about_threads(name: str) -> bool:
    return name.startswith(("NUMBA_", "OMP_", "OPENBLAS_", "MKL_", "KMP_"))


def _mpi() -> dict[str, Any]:
    """The MPI library that mpi4py finds, and the mpiexec that --ranks would start."""
    beside = Path(sys.executable).with_name("mpiexec")
    found: dict[str, Any] = {
        "library": None,
        "standard": None,
        "persistent_neighbourhood": None,
        "mpiexec": str(beside) if beside.exists() else shutil.which("mpiexec"),
        "why_not": None,
    }
    if importlib.util.find_spec("mpi4py") is None:
        return {**found, "why_not": "mpi4py is not installed (pip install 'fdglm[mpich]')"}
    import mpi4py

    before, mpi4py.rc.initialize = mpi4py.rc.initialize, False
    try:
        from mpi4py import MPI

        found["library"] = MPI.Get_library_version().splitlines()[0].strip("\0 ")
        found["standard"] = ".".join(str(number) for number in MPI.Get_version())
        found["persistent_neighbourhood"] = MPI.Get_version() >= (4, 0)
    except (ImportError, RuntimeError) as error:
        found["why_not"] = f"no MPI library is found ({str(error).splitlines()[0]})"
    finally:
        mpi4py.rc.initialize = before
    return found


def _cache(faults: list[str]) -> dict[str, Any]:
    """The folder of compiled kernels: whether it can be written, and which sets of kernels are ready."""
    from fdglm_fast.kernels._jit import cache_folder

    folder = cache_folder()
    writable, reason = True, None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        writable, reason = False, os.strerror(error.errno or 0)
        faults.append(f"compiled kernels cannot be kept in '{folder}': {reason}; every run will compile.")
    ready = sorted(path.stem for path in folder.glob("*.ready")) if folder.is_dir() else []
    return {"folder": str(folder), "writable": writable, "why_not": reason, "ready": ready}
