"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

CPU_INFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
MEMORY = Path("/proc/meminfo")


def machine_facts() -> dict[str, Any]:
    """Processor, caches, memory, threads and versions; None where the system does not tell."""
    import numba

    return {
        "cpu": _field(CPU_INFO, "model name") or platform.processor() or None,
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "caches": _caches(),
        "memory": _field(MEMORY, "MemTotal"),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "numba_threads": int(numba.config.NUMBA_NUM_THREADS),  # type: ignore[attr-defined]
        "numba_threading_layer": _threading_layer(),
        "blas": _blas(),
        "versions": _versions(),
    }


def _field(path: Path, name: str) -> str | None:
    """The value of the first line `name: value`."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), None)


def _caches() -> dict[str, str] | None:
    """Sizes of the caches that one core sees, as the system names them: {"L1 Data": "48K", ...}."""
    found = {}
    try:
        for folder in sorted(CACHES.glob("index*")):
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
            found[f"L{level} {kind}"] = size
    except OSError:
        pass
    return found or None


def _threading_layer() -> str | None:
    import numba

    try:
        return str(numba.threading_layer())
    except ValueError:  # no parallel kernel has run
        return None


def _blas() -> list[dict[str, Any]]:
    from threadpoolctl import threadpool_info

    keys = ("internal_api", "version", "architecture", "threading_layer")
    return [{key: pool.get(key) for key in keys} for pool in threadpool_info() if pool["user_api"] == "blas"]


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    from fdglm_fast import __version__

    names = ("numpy", "scipy", "numba", "llvmlite")
    return {"fdglm": __version__, "python": platform.python_version(), **{name: version(name) for name in names}}
