"""How much memory there is, how much a solve needs, and sizes a person can read.

What a process may still use is the least of: what the kernel calls available, the room left in every control
group above it (version 1 or 2; a container's limit is one of these), and its own address-space limit.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from fdglm_fast.errors import DataError

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

# Row groups in which X' lam is summed in a fixed order; float64 vectors a solve keeps beside the state.
_ROW_GROUPS = 64
_SAMPLE_VECTORS = 8  # y, lam half-step, X theta of the average and of the last iterate, scratch of the objective
_FEATURE_VECTORS = 16  # theta, theta+, running sum, average, gradient, groups, order, scratch of the residual
_WORK_BYTES = 64 << 20  # reading blocks, tiles of the threads

# The files that give (limits, usage, the name of reclaimable page cache in memory.stat) by group version.
_CGROUP_FILES = {
    "cgroup2": (("memory.max", "memory.high"), "memory.current", "inactive_file"),
    "cgroup": (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
}


def human_size(size: int) -> str:
    """A number of bytes in binary units: 512 B, 1.5 KiB, 8.0 TiB."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    power = 0
    while value >= 1023.95 and power < len(_UNITS):
        value /= 1024
        power += 1
    return f"{value:.1f} {_UNITS[power - 1]}"


def state_bytes(n: int, m: int, itemsize: int, method: str = "paper") -> int:
    """lam and v, an n-vector each for every agent; in the fast method lam, p and their anchors."""
    return itemsize * (4 if method == "fast" else 2) * n * m


def solve_terms(n: int, d: int, m: int, itemsize: int, method: str = "paper") -> dict[str, int]:
    """The bytes of a solve with n samples, d features and m agents, term by term.

    design   itemsize * n d          X
    state    itemsize * 2 n m        `state_bytes`; twice that in the fast method
    samples  8 * 8 n                 float64 vectors over the samples (y, half-step, X theta, scratch)
    features 8 * (64 + 16) d         partial sums of X' lam by row group, float64 vectors over the features
    scratch  64 MiB                  blocks being read, tiles being worked on
    """
    return {
        "design": itemsize * n * d,
        "state": state_bytes(n, m, itemsize, method),
        "samples": 8 * _SAMPLE_VECTORS * n,
        "features": 8 * (_ROW_GROUPS + _FEATURE_VECTORS) * d,
        "scratch": _WORK_BYTES,
    }


def solve_bytes(n: int, d: int, m: int, itemsize: int, method: str = "paper") -> int:
    """All of `solve_terms`, in bytes."""
    return sum(solve_terms(n, d, m, itemsize, method).values())


def require_memory(needed: int, what: str) -> None:
    """Raise DataError, before anything is allocated, when `needed` bytes are more than there are."""
    available = available_memory()
    if needed > available:
        raise DataError(f"{what} needs {human_size(needed)} of memory, but only {human_size(available)} are available.")


def available_memory(root: Path = Path("/")) -> int:
    """Bytes this process may still allocate; `root` stands for / in tests."""
    limits = [_machine_memory(root), *_cgroup_room(root)]
    address_space = _address_space_room(root)
    if address_space is not None:
        limits.append(address_space)
    return max(0, min(limits))


def _machine_memory(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _address_space_room(root: Path) -> int | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    pages = _read(root / "proc/self/statm").split()
    used = int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else 0
    return limit - used


def _cgroup_room(root: Path) -> Iterator[int]:
    """The room left in every memory control group that holds this process, ancestors included."""
    paths = _cgroup_paths(root)
    for line in _read(root / "proc/self/mountinfo").splitlines():
        mount, _, rest = line.partition(" - ")
        fields, kind = mount.split(), rest.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in paths:
            continue
        if kind[0] == "cgroup" and "memory" not in kind[2].split(","):
            continue
        top = root / fields[4].lstrip("/")
        folder = top / _below(paths[kind[0]], fields[3])
        while True:
            room = _room_of(folder, kind[0])
            if room is not None:
                yield room
            if folder == top or top not in folder.parents:
                break
            folder = folder.parent


def _cgroup_paths(root: Path) -> dict[str, str]:
    """This process's group by kind of hierarchy, from /proc/self/cgroup."""
    paths: dict[str, str] = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            paths["cgroup2"] = path
        elif "memory" in controllers.split(","):
            paths["cgroup"] = path
    return paths


def _below(path: str, mount_root: str) -> str:
    """`path` relative to the part of the hierarchy that is mounted; the mount itself when it lies outside."""
    prefix = mount_root.rstrip("/")
    if ".." in path.split("/") or not (path == prefix or path.startswith(prefix + "/")):
        return ""
    return path[len(prefix) :].lstrip("/")


def _room_of(folder: Path, kind: str) -> int | None:
    limit_files, usage_file, cache_name = _CGROUP_FILES[kind]
    texts = [_read(folder / name).strip() for name in limit_files]
    limits = [int(text) for text in texts if text.isdigit()]
    if not limits:
        return None  # "max", or a group without a memory controller
    usage = _read(folder / usage_file).strip()
    reclaimable = 0
    for line in _read(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == cache_name and value.isdigit():
            reclaimable = int(value)
    used = int(usage) if usage.isdigit() else 0
    return min(limits) - max(0, used - reclaimable)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
