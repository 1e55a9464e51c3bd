"""What was free on each node over time, from a log that says where jobs ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.cluster.slurm_nodes import expand_hosts

GPUS, CPUS, MEMORY = range(3)
MOST_MOMENTS = 20_000
"""Of a longer log so many moments at equal distances are looked at, in place of every change."""
LEAST_WAIT_SECONDS = 60.0
"""Shorter waits are the scheduler's clock, not a lack of room."""


@dataclass(frozen=True)
class Moment:
    """The cluster between two changes."""

    time: float
    seconds: float
    free: Floats
    """By node, then GPUs, CPU cores and GB."""
    waiting: Ints
    """Rows of the jobs that have waited for longer than the scheduler's clock, in the order of the log."""


@dataclass(frozen=True)
class Occupancy:
    """Who held what, by node. A job's amounts are taken to be equal on its nodes, as the log does not say more."""

    cluster: Cluster
    jobs: pl.DataFrame
    """Of the log: also jobs without GPUs and jobs that have not ended."""
    places: tuple[Ints, ...]
    """By row: positions of its nodes in the cluster."""
    named: tuple[int, ...]
    """By row: how many nodes the log names, also those that the cluster no longer has."""
    end: float
    """When the log ends."""

    @cached_property
    def amounts(self) -> Floats:
        """GPUs, CPU cores and GB of each job in all; 0 where nothing is stated."""
        names = ("gpus", "cpus", "memory_gb")
        return np.stack([self.jobs[name].fill_null(0.0).to_numpy().astype(float) for name in names], axis=1)

    def moments(self) -> Iterator[Moment]:
        """Yield every stretch between changes, or evenly spaced ones of a long log; only those with waiting jobs."""
        submit = self.jobs["submit_seconds"].to_numpy()
        starts = self.jobs["start_seconds"].fill_null(np.inf).to_numpy()
        ends = np.minimum(self.jobs["end_seconds"].fill_null(np.inf).to_numpy(), self.end)
        gave_up = np.where(np.isfinite(starts), starts, ends)
        amounts = self.amounts
        capacity = np.array([[node.gpus, node.cpus, node.memory_gb] for node in self.cluster.nodes], float)
        free = capacity.copy()
        placed = [row for row, nodes in enumerate(self.places) if len(nodes) and starts[row] < self.end]
        changes = sorted([(ends[row], 0, row) for row in placed] + [(starts[row], 1, row) for row in placed])
        waits = np.flatnonzero(gave_up - submit > LEAST_WAIT_SECONDS)
        entered, left = submit[waits] + LEAST_WAIT_SECONDS, gave_up[waits]
        times = np.unique(np.concatenate([[time for time, *_ in changes], entered, left]))
        times = times[times <= self.end]
        if len(times) > MOST_MOMENTS:
            times = np.linspace(times[0], times[-1], MOST_MOMENTS)
        at = 0
        for time, until in zip(times[:-1].tolist(), times[1:].tolist(), strict=True):
            while at < len(changes) and changes[at][0] <= time:
                _, is_start, row = changes[at]
                here = self.places[row]
                free[here] += (-1 if is_start else 1) * amounts[row] / self.named[row]
                at += 1
            queue = waits[(entered <= time) & (left > time)]
            if len(queue):
                yield Moment(time, until - time, np.clip(free, 0.0, capacity), queue)


def occupancy_of(jobs: pl.DataFrame, cluster: Cluster) -> Occupancy | None:
    """What the log says of nodes; None if it names none, or more of other clusters than of this one."""
    if "node_list" not in jobs.columns or not (jobs["node_list"] != "").any():
        return None
    known = cluster.node_index
    foreign: defaultdict[str, int] = defaultdict(int)
    found, named = {}, {}
    for text in jobs["node_list"].unique().to_list():
        names = expand_hosts(text)
        for name in names:
            foreign[name] += name not in known
        found[text] = np.array([known[name] for name in names if name in known], np.int64)
        named[text] = len(names)
    unknown = sum(1 for count in foreign.values() if count)
    if unknown > len(foreign) / 2:
        return None
    ends = pl.max_horizontal("submit_seconds", "start_seconds", "end_seconds")
    texts = jobs["node_list"].to_list()
    return Occupancy(
        cluster,
        jobs,
        tuple(found[text] for text in texts),
        tuple(named[text] for text in texts),
        float(jobs.select(ends.max()).item()),
    )


def most_gpus(cluster: Cluster, allowed: Bools) -> float:
    """The GPUs of the largest node of those allowed; 0 where there is none."""
    return float(max((node.gpus for node, may in zip(cluster.nodes, allowed, strict=True) if may), default=0))


def nodes_needed(gpus: float, stated: float | None, most: float) -> float:
    """As many nodes as a job states, or as few as hold its GPUs where a node has `most` of them."""
    return max(stated or 1.0, float(np.ceil(gpus / most)) if most else float("inf"))


def room_for(free: Floats, need: Floats, allowed: Bools) -> int:
    """How many nodes have this much free, of those allowed."""
    return int(np.count_nonzero(allowed & np.all(free >= need - 1e-9, axis=1)))
