"""The log of one run of Slurm on nodes that are alike: jobs, cycles of both loops, plans, priorities."""

from __future__ import annotations

import lzma
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl

from muster.cluster.ledger_arrays import Floats, Ints

NODES, GPUS = 8, 8
BACKFILL = "backfill"
WINDOW_SECONDS, KILL_WAIT_SECONDS, RESOLUTION_SECONDS = 86_400, 5, 1
"""As `scheduling_settings.csv` says."""
_JUST_AFTER = 0.25
"""Seconds after the beginning of a cycle within which it has started its jobs."""


@dataclass(frozen=True)
class Planned:
    """What a backfill cycle made of one pending job."""

    job: str
    outcome: str
    start: int | None
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Cycle:
    """One cycle of either loop."""

    time: float
    is_backfill: bool
    started: int
    plans: tuple[Planned, ...]

    @property
    def second(self) -> int:
        """The second that Slurm saw: within 4 ms after a full second that may be the one before."""
        starts = [one.start for one in self.plans if one.outcome == "started" and one.start is not None]
        return min(starts, default=int(self.time))


@dataclass(frozen=True)
class SlurmLog:
    """All jobs by submission, as columns, and the cycles by time."""

    ids: tuple[str, ...]
    users: tuple[str, ...]
    accepted: Floats
    allocated: Floats
    completed: Floats
    released: Floats
    start_second: Ints
    limit: Ints
    wanted: Ints
    """Nodes of each job."""
    gpus: Ints
    """On each of its nodes."""
    cpus: Ints
    """In all."""
    places: tuple[Ints, ...]
    by_backfill: tuple[bool, ...]
    submission_priority: Ints
    cycles: tuple[Cycle, ...]
    changes: Mapping[int, list[tuple[float, int]]]
    """Of each job's priority: when, and what it became."""

    @cached_property
    def duration(self) -> Floats:
        """Seconds for which each job held its nodes."""
        return self.completed - self.allocated

    @property
    def wait(self) -> Floats:
        """Seconds from acceptance to allocation."""
        return self.allocated - self.accepted

    def priority(self, job: int, now: float) -> int:
        """The job's logged priority at a moment."""
        known = [priority for when, priority in self.changes.get(job, ()) if when <= now]
        return known[-1] if known else int(self.submission_priority[job])

    def started_by(self, cycle: Cycle) -> dict[int, tuple[int, ...]]:
        """The jobs that a cycle started, with their nodes."""
        after = self.allocated - cycle.time
        mine = np.array(self.by_backfill) == cycle.is_backfill
        found = np.flatnonzero(mine & (after >= 0) & (after < _JUST_AFTER))
        found = found[np.argsort(self.allocated[found], kind="stable")][: cycle.started]
        return {job: tuple(self.places[job].tolist()) for job in found.tolist()}


def read_log(folder: Path, run: str) -> SlurmLog:
    """The log of a run (`run1`, `run3_multifactor`) in a folder laid out as the reference data."""
    jobs = pl.read_csv(folder / f"{run}_jobs.csv")
    ids = tuple(jobs["job"].to_list())
    numbers = {name: number for number, name in enumerate(ids)}
    plans: dict[float, list[Planned]] = defaultdict(list)
    for row in _table(folder / f"backfill_plans_{run}.csv.xz").iter_rows(named=True):
        start = None if row["planned_start"] is None else int(row["planned_start"])
        plans[row["cycle"]].append(Planned(row["job"], row["outcome"], start, nodes_of(row["nodes"])))
    cycles = tuple(
        Cycle(
            row["time"], row["loop"] == BACKFILL, int(row["jobs_started"]), tuple(plans.get(row["time"], ()))
        )
        for row in pl.read_csv(folder / f"scheduler_cycles_{run}.csv").iter_rows(named=True)
    )
    changes: dict[int, list[tuple[float, int]]] = defaultdict(list)
    if (folder / f"priority_changes_{run}.csv").exists():
        for row in pl.read_csv(folder / f"priority_changes_{run}.csv").iter_rows(named=True):
            changes[numbers[row["job"]]].append((row["time"], row["priority"]))

    def column(name: str) -> Floats:
        return jobs[name].cast(pl.Float64).to_numpy()

    def whole(name: str) -> Ints:
        return jobs[name].cast(pl.Int64).to_numpy()

    return SlurmLog(
        ids=ids,
        users=tuple(jobs["user"].to_list()),
        accepted=column("accepted"),
        allocated=column("allocated"),
        completed=column("completed"),
        released=column("released"),
        start_second=whole("slurm_start"),
        limit=whole("limit_s"),
        wanted=whole("nodes"),
        gpus=whole("gpus_per_node"),
        cpus=whole("cpus"),
        places=tuple(np.array(nodes_of(text)) for text in jobs["node_list"]),
        by_backfill=tuple((jobs["scheduled_by"] == BACKFILL).to_list()),
        submission_priority=whole("priority_at_submit"),
        cycles=cycles,
        changes=changes,
    )


def nodes_of(text: str | None) -> tuple[int, ...]:
    """The nodes that Slurm names, from 0 on: `node[1-2,4]` is 0, 1, 3."""
    nodes: list[int] = []
    for part in (text or "").removeprefix("node").strip("[]").split(","):
        first, _, last = part.partition("-")
        if first:
            nodes.extend(range(int(first) - 1, int(last or first)))
    return tuple(nodes)


def _table(path: Path) -> pl.DataFrame:
    with lzma.open(path, "rt") as content:
        return pl.read_csv(StringIO(content.read()), infer_schema_length=None)
