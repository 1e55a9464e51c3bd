"""The resources of this machine: detected, or declared to try something."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from muster.cgroups.own_limits import own_limits
from muster.cluster import MAX_GPUS_PER_NODE, Cluster, Links, Node
from muster.cluster.cluster_file import STORAGE_GB_PER_S_PER_GPU
from muster.formatting import counted, is_or_are
from muster.gpu_devices import GpuDevices, find_gpu_devices
from muster.gpus import Gpus, find_gpus
from muster.problems import InputError, Problem


@dataclass(frozen=True)
class Machine:
    """This machine as a cluster of one node, and what of it is real."""

    cluster: Cluster
    cpus: tuple[int, ...]
    """The real CPUs on which jobs may run, by the kernel's numbers."""
    cores: float
    """How many of them may be used at once: fewer where a container's quota says so."""
    memory_gb: float
    """The real memory."""
    gpu_names: tuple[str, ...]
    """What CUDA_VISIBLE_DEVICES calls the node's GPUs 0, 1, ..."""
    gpu_uuids: tuple[str, ...] = ()
    """By which the driver knows each of them; empty where it is not there."""
    gpu_devices: GpuDevices = GpuDevices()
    warnings: tuple[str, ...] = ()
    """What is wrong with its GPUs, a sentence each."""

    @property
    def node(self) -> Node:
        """The one node."""
        return self.cluster.nodes[0]

    @property
    def real_cpus_per_cpu(self) -> float:
        """Real CPUs for each CPU of the node: below 1 if more are declared than there are."""
        return min(1.0, self.cores / self.node.cpus)


def find_machine(
    *,
    gpus: int | None = None,
    cpus: float | None = None,
    memory_gb: float | None = None,
    name: str | None = None,
) -> Machine:
    """This machine; what is stated is believed, whether it is there or not.

    Of GPUs those that are found come first; where more are stated the others get numbers that no GPU has. InputError if
    a figure cannot be used, or if no GPU is found and none stated.
    """
    problems = [
        Problem(flag, "allowed: a number above 0", found=value)
        for flag, value in (("--cpus", cpus), ("--memory", memory_gb))
        if value is not None and not 0 < value < float("inf")
    ]
    if gpus is not None and not 1 <= gpus <= MAX_GPUS_PER_NODE:
        what = f"allowed: a whole number from 1 to {MAX_GPUS_PER_NODE}"
        problems.append(Problem("--gpus", what, found=gpus))
    try:
        found = find_gpus()
    except InputError as bad:
        raise InputError(*problems, *bad.problems) from None
    if gpus is None and not found.names:
        what = f"no GPU is found: {found.missing}; for a try declare some that it has not: --gpus 8"
        problems.append(Problem("this machine", what))
    if problems:
        raise InputError(*problems)
    count = len(found.names) if gpus is None else gpus
    names, warnings = _with_absent(found, count)
    gpu_type = found.type_name if count <= len(found.names) else "GPU"
    real_cpus = tuple(sorted(os.sched_getaffinity(0)))
    quota, memory_limit_gb = own_limits()
    cores = min(float(len(real_cpus)), quota)
    real_memory_gb = min(_memory_gb(), memory_limit_gb)
    links = Links()
    node = Node(
        name=name or platform.node() or "localhost",
        type_name="this",
        rack=0,
        gpus=count,
        gpu_type=gpu_type,
        gpus_per_island=count,
        cpus=cores if cpus is None else float(cpus),
        memory_gb=real_memory_gb if memory_gb is None else float(memory_gb),
        storage_gb_per_s=STORAGE_GB_PER_S_PER_GPU * count,
        nic_gb_per_s=links.rack.gb_per_s,
    )
    cluster = Cluster(node.name, (node,), ("rack-0",), links)
    devices = find_gpu_devices(found.uuid_of)
    uuids = tuple(name if name.startswith("MIG-") else found.uuid_of.get(name, "") for name in names)
    return Machine(cluster, real_cpus, cores, real_memory_gb, names, uuids, devices, warnings)


def _with_absent(found: Gpus, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names for so many GPUs, and what to say about them."""
    absent = max(count - len(found.names), 0)
    numbers = range(found.free_number, found.free_number + absent)
    names = (*found.names, *map(str, numbers))[:count]
    if not (absent and found.names):
        return names, found.warnings
    warning = (
        f"{absent} of {counted(count, 'declared GPU')} {is_or_are(absent)} not there: jobs see none instead"
    )
    return names, (*found.warnings, warning)


def _memory_gb() -> float:
    """The machine's memory, in GB."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024 / 1e9
    raise OSError("/proc/meminfo does not state the memory")
