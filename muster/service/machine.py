"""What this machine has for jobs: found out, or declared for a try."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from muster.cgroups.own_limits import own_limits
from muster.cluster import MAX_GPUS_PER_NODE, Cluster, Links, Node
from muster.cluster.cluster_file import STORAGE_GB_PER_S_PER_GPU
from muster.problems import BadInput, Problem

_QUERY = ("nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader")
_QUERY_SECONDS = 20.0


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

    @property
    def node(self) -> Node:
        """The one node."""
        return self.cluster.nodes[0]

    @property
    def real_cpus_per_cpu(self) -> float:
        """Of a real CPU, what a CPU of the node is: below 1 where more are declared than there are."""
        return min(1.0, self.cores / self.node.cpus)


def find_machine(
    *,
    gpus: int | None = None,
    cpus: float | None = None,
    memory_gb: float | None = None,
    name: str | None = None,
) -> Machine:
    """This machine; what is stated is believed, whether it is there or not.

    BadInput if a figure cannot be used, or if no GPU is found and none stated.
    """
    problems = [
        Problem(flag, "a number above 0 is needed", found=value)
        for flag, value in (("--cpus", cpus), ("--memory", memory_gb))
        if value is not None and not 0 < value < float("inf")
    ]
    if gpus is not None and not 1 <= gpus <= MAX_GPUS_PER_NODE:
        what = f"a whole number from 1 to {MAX_GPUS_PER_NODE} is needed"
        problems.append(Problem("--gpus", what, found=gpus))
    found = _gpus()
    if gpus is None and not found:
        problems.append(
            Problem(
                "this machine", "nvidia-smi finds no GPU; for a try declare some that it has not: --gpus 8"
            )
        )
    if problems:
        raise BadInput(*problems)
    names, gpu_type = found if found else ((), "GPU")
    count = len(names) if gpus is None else gpus
    if count > len(names):  # pretended ones
        names, gpu_type = tuple(map(str, range(count))), "GPU"
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
    return Machine(cluster, real_cpus, cores, real_memory_gb, names[:count])


def _gpus() -> tuple[tuple[str, ...], str] | None:
    """Names of the GPUs for CUDA_VISIBLE_DEVICES and their type; None without any.

    Where the daemon itself may see some only (CUDA_VISIBLE_DEVICES), so may its jobs.
    """
    if shutil.which(_QUERY[0]) is None:
        return None
    try:
        answer = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    types = dict(line.split(", ", 1) for line in answer.stdout.splitlines() if ", " in line)
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = (
        tuple(types)
        if allowed is None
        else tuple(part.strip() for part in allowed.split(",") if part.strip())
    )
    if not names:
        return None
    return names, types.get(names[0], next(iter(types.values()), "GPU"))


def _memory_gb() -> float:
    """The machine's memory, in GB."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024 / 1e9
    raise OSError("/proc/meminfo does not tell the memory")
