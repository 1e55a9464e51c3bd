"""Where and with which GPUs jobs run on a real Ray, read again and again while a test goes on.

Ray says to the agent that it starts which raylet, that is which node, it belongs to, and the supervisors of its starts
inherit that; the variables of the ranks say which GPUs they see. The kernel keeps both as they were at the beginning.
Ray itself knows nothing of the CPUs and memory of starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster import processes
from muster.service.store.rows import AllocationInterval
from tests.ray.cluster import RayCluster
from tests.service.looking import looks_again

_PAUSE_SECONDS = 0.1
_START = re.compile(r"/starts/(\d+)\.(\d+)$")
_RAYLET, _GPUS, _RANK = "RAY_RAYLET_PID", "CUDA_VISIBLE_DEVICES", "RANK"


class RayAccount:
    """Of each job: the GPU ids that its starts have had on each node, by the number of the start."""

    def __init__(self, cluster: RayCluster) -> None:
        self._home = str(cluster.agents_home)
        self._names = {pid: name for name in cluster.nodes for pid in cluster.raylets(name)}
        self.starts: dict[int, dict[int, dict[str, tuple[int, ...]]]] = {}
        self.contradictions: list[str] = []
        """Ranks of a start that were seen with other GPUs than before, and two starts of one job at a time."""

    def look(self) -> None:
        """Note what runs now."""
        nodes: dict[str, str] = {}
        ranks: dict[str, tuple[int, ...]] = {}
        for process in processes.all_processes():
            variables = _variables(process.pid)
            folder = variables.get(processes.MARK, "")
            if not folder.startswith(self._home):
                continue
            if _RANK in variables:
                ranks[folder] = tuple(int(gpu) for gpu in variables[_GPUS].split(","))
            elif _RAYLET in variables:
                nodes[folder] = self._names[int(variables[_RAYLET])]
        living: dict[int, int] = {}
        for folder in ranks.keys() & nodes.keys():
            found = _START.search(folder)
            assert found is not None, folder
            self._note(int(found[1]), int(found[2]), nodes[folder], ranks[folder], living)

    def _note(self, job: int, epoch: int, node: str, gpus: tuple[int, ...], living: dict[int, int]) -> None:
        if living.setdefault(job, epoch) != epoch:
            self.contradictions.append(f"starts {epoch} and {living[job]} of job {job} at a time")
        before = self.starts.setdefault(job, {}).setdefault(epoch, {}).setdefault(node, gpus)
        if before != gpus:
            self.contradictions.append(f"start {epoch} of job {job} on {node}: {before}, then {gpus}")

    def placements(self, job: int) -> list[dict[str, tuple[int, ...]]]:
        """The GPU ids on each node of a job's starts, in their order."""
        return [held for _, held in sorted(self.starts.get(job, {}).items())]


@contextmanager
def account_of(cluster: RayCluster) -> Iterator[RayAccount]:
    """An account that is kept while the body runs."""
    account = RayAccount(cluster)
    with looks_again(account.look, _PAUSE_SECONDS):
        yield account


def recorded_placements(intervals: list[AllocationInterval]) -> list[dict[str, tuple[int, ...]]]:
    """What Muster's record says of a job's starts, in their order."""
    starts: dict[int, dict[str, tuple[int, ...]]] = {}
    for one in intervals:
        starts.setdefault(one.epoch, {})[one.allocation.node] = tuple(map(int, one.allocation.gpu_ids))
    return [held for _, held in sorted(starts.items())]


def _variables(pid: int) -> dict[str, str]:
    """Of a process as it began; empty if it has ended."""
    try:
        found = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in found.split("\0") if "=" in entry)
