"""What a start is given, in Slurm's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.service.engines.slurm.status import SlurmJob, mib
from muster.units import MIB_PER_GB


def rewritten(
    slurm_job: int,
    allocations: Sequence[Mapping[str, Any]],
    gpu_type: str,
    tasks_per_node: int,
    *,
    begins: bool,
) -> str:
    """Return scontrol's line that gives a held job its nodes, GPUs, CPUs and memory.

    All nodes have the same amounts. Requests of GPUs by job or by task would contradict those by node, so they are
    cleared; so would the owner's number of tasks for a node on another number of nodes. A job that was requeued would
    wait two minutes if it does not begin now.
    """
    gpus, cpus, memory = _of_each_node(allocations)
    nodes = len(allocations)
    fields = {
        "ReqNodeList": ",".join(here["node"] for here in allocations),
        "NumNodes": f"{nodes}-{nodes}",
        "NumTasks": nodes * tasks_per_node,
        "TasksPerNode": tasks_per_node,
        "NumCPUs": nodes * cpus,
        "CPUsPerTask": max(cpus // tasks_per_node, 1),
        "MinCPUsNode": cpus,
        "MinMemoryNode": memory,
        "TresPerJob": "",
        "TresPerTask": "",
        "TresPerNode": _gres(gpus, gpu_type),
    } | ({"StartTime": "now"} if begins else {})
    return f"update jobid={slurm_job} " + " ".join(f"{name}={value}" for name, value in fields.items())


def requested(allocations: Sequence[Mapping[str, Any]], gpu_type: str) -> list[str]:
    """Return the options of sbatch that ask for the same."""
    gpus, cpus, memory = _of_each_node(allocations)
    options = [
        f"--nodelist={','.join(here['node'] for here in allocations)}",
        f"--nodes={len(allocations)}",
        f"--ntasks={len(allocations)}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={cpus}",
        f"--mem={memory}M",
    ]
    return [*options, f"--gres={_gres(gpus, gpu_type).removeprefix('gres:')}"] if gpus else options


def has_other_amounts(row: SlurmJob, allocations: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a job requests other CPUs or memory on its nodes than `rewritten` and `requested` do for it.

    What it gets may also differ because Slurm gives whole cores.
    """
    _, cpus, memory = _of_each_node(allocations)
    tasks = max(int(row.values["NumTasks"] or 0) // len(allocations), 1)
    requested_cpus = int(row.values["cpus-per-task"] or 0)
    return requested_cpus != max(cpus // tasks, 1) or mib(row.values["MinMemory"]) != memory


def _of_each_node(allocations: Sequence[Mapping[str, Any]]) -> tuple[int, int, int]:
    """Return GPUs, whole CPUs and MiB of memory; never more than was given, and memory 0 would mean all."""
    first = allocations[0]
    return len(first["gpu_ids"]), max(int(first["cpus"]), 1), max(int(first["memory_gb"] * MIB_PER_GB), 1)


def _gres(gpus: int, gpu_type: str) -> str:
    if not gpus:
        return ""
    return f"gres:gpu:{gpu_type}:{gpus}" if gpu_type else f"gres:gpu:{gpus}"
