"""What this process itself may use at most, by the groups that it is in: a container's share of its machine."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from pathlib import Path

from muster.cgroups.finding import folder_below, mounted_trees, own_groups

_NO_LIMIT_BYTES = 1 << 60
"""Version 1 says so by the largest number of whole pages."""


def own_limits() -> tuple[float, float]:
    """CPU cores and GB; infinite where nothing limits them."""
    own = own_groups()
    cores = memory_gb = inf
    for kind, controllers, root, mount in mounted_trees():
        names = ("",) if kind == "cgroup2" else {"cpu", "memory"} & set(controllers)
        for name in names:
            folder = folder_below(mount, root, own.get(name, "/"))
            while folder.is_relative_to(mount):
                cores = min(cores, cores_of(folder))
                memory_gb = min(memory_gb, memory_gb_of(folder))
                folder = folder.parent
    return cores, memory_gb


def cores_of(folder: Path) -> float:
    """The CPU quota of one group, of either version, in cores."""
    for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            quota, period = " ".join((folder / file).read_text() for file in files).split()
            return float(quota) / float(period) if float(quota) > 0 else inf
    return inf


def memory_gb_of(folder: Path) -> float:
    """The memory limit of one group, of either version."""
    for file in ("memory.max", "memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            limit = int((folder / file).read_text())
            return limit / 1e9 if limit < _NO_LIMIT_BYTES else inf
    return inf
