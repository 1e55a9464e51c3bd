"""Where jobs of a log ran, on a cluster whose nodes with GPUs of several types are divided by type."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence

import polars as pl

from muster.cluster import Cluster, Node
from muster.cluster.slurm_nodes import expand_hosts, host_of
from muster.workload.jobs import GPU_TYPE


def on_parts(jobs: pl.DataFrame, cluster: Cluster) -> pl.DataFrame:
    """Return the jobs, with the names of parts of nodes in place of those of nodes that are divided.

    A job that names its type of GPU ran on that part. One that names none ran on the first part with room for it when
    it started, one without GPUs on all parts.
    """
    parts: defaultdict[str, list[Node]] = defaultdict(list)
    for node in cluster.nodes:
        if host_of(node.name) != node.name:
            parts[host_of(node.name)].append(node)
    if not parts:
        return jobs
    free = _FreeParts(parts)
    columns = ("start_seconds", "end_seconds", "gpus", "constraint", "node_list")
    row = jobs.with_row_index("row").sort("start_seconds", maintain_order=True, nulls_last=True)
    found = {at: free.place(*job) for at, *job in row.select("row", *columns).iter_rows()}
    return jobs.with_columns(pl.Series("node_list", [found[at] for at in range(len(jobs))], pl.String))


class _FreeParts:
    """GPUs that are free on the parts of nodes while jobs start one after the other."""

    def __init__(self, parts: Mapping[str, Sequence[Node]]) -> None:
        self._parts = parts
        self._free = {part.name: float(part.gpus) for own in parts.values() for part in own}
        self._ends: list[tuple[float, str, float]] = []

    def place(
        self, start: float | None, end: float | None, gpus: float | None, constraint: str, hosts: str
    ) -> str:
        """Return the host list of a job with the parts that it takes; it holds them until its end."""
        names = expand_hosts(hosts)
        if start is None or self._parts.keys().isdisjoint(names):
            return hosts
        while self._ends and self._ends[0][0] <= start:
            _, part, freed = heapq.heappop(self._ends)
            self._free[part] += freed
        need = (gpus or 0.0) / len(names)
        taken = []
        for name in names:
            chosen = self._of_node(name, need, constraint) if name in self._parts else [name]
            taken += chosen
            if need and name in self._parts:
                self._free[chosen[0]] -= need
                heapq.heappush(self._ends, (float("inf") if end is None else end, chosen[0], need))
        return ",".join(taken)

    def _of_node(self, host: str, need: float, constraint: str) -> list[str]:
        """Return the parts of a node that a job takes: one, if it has GPUs."""
        own = self._parts[host]
        if not need:
            return [part.name for part in own]
        wanted = constraint.removeprefix(GPU_TYPE).casefold()
        typed = [part.name for part in own if part.gpu_type.casefold() == wanted]
        roomy = [part.name for part in own if self._free[part.name] >= need]
        roomiest = max((part.name for part in own), key=self._free.__getitem__)
        return [*typed, *roomy, roomiest][:1]
