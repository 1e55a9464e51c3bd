"""A site as its log and its cluster describe it, and the simulated twin of its scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
import polars as pl

from muster.advise.occupancy import Occupancy, occupancy_of
from muster.advise.trial import SiteTrial, Waits, waits_of
from muster.cluster import Cluster
from muster.cluster.description import PARTITION
from muster.cluster.ledger_arrays import Bools
from muster.formatting import HOUR, UNKNOWN, counted, duration, percent
from muster.report.recorded import has_starts
from muster.schedulers.backfill.slurm_cycles import SlurmCycles
from muster.schedulers.registry import build
from muster.simulation import never_able
from muster.slurm_partitions import PartitionLimits
from muster.workload.jobs import GPU_TYPE, without_nodes
from muster.workload.trace import Trace

TWIN = "slurm"
TWIN_TRIAL = "the site's scheduler"
TWIN_JOBS = 3000
"""Jobs that a simulation takes by default: the newest of the log."""


@dataclass(frozen=True)
class Twin:
    """The site's own scheduler, simulated, beside the log."""

    jobs: int
    recorded: Waits
    simulated: Waits

    @property
    def error(self) -> float:
        """How far the simulated mean wait is off, and what the clocks leave open; nothing smaller is a finding."""
        return abs(self.simulated.mean - self.recorded.mean) + self.simulated.deviation

    def __str__(self) -> str:
        """The twin beside the log, in a sentence."""
        off = percent(self.simulated.mean / self.recorded.mean - 1) if self.recorded.mean else UNKNOWN
        return (
            f"the twin waits {duration(self.simulated.mean)} in the mean over {counted(self.jobs, 'job')}, the log "
            f"{duration(self.recorded.mean)}: an error of {off}, and {duration(self.simulated.deviation)} standard "
            "deviation over the phases of the scheduler's clocks"
        )


@dataclass(frozen=True)
class Site:
    """All that `muster advise` reads; nothing here can change a cluster."""

    trace: Trace
    """Jobs with GPUs that ended."""
    jobs: pl.DataFrame
    """All jobs of the log: also those without GPUs, and those that wait or run when it ends."""
    cluster: Cluster
    settings: Mapping[str, str]
    """Of the preset `slurm`."""
    scheduler: str = TWIN
    twin_jobs: int = TWIN_JOBS
    away: frozenset[str] = frozenset()
    """Nodes on which nothing starts when the log ends."""
    lacks: tuple[str, ...] = ()
    """Columns that its log would need to say which jobs wait and run."""
    limits: Mapping[str, PartitionLimits] = field(default_factory=dict)
    """Which jobs each partition takes; empty where the site's settings do not say it."""
    simulated: Mapping[str, Waits] = field(default_factory=dict)
    """What trials that have run already have found, by name."""

    @property
    def ran(self) -> pl.DataFrame:
        """The jobs that ended, with the hours that they ran and their GPU-hours."""
        jobs = self.trace.jobs
        hours = jobs["duration_seconds"] / HOUR
        return jobs.with_columns(hours.alias("hours"), (hours * jobs["gpus"]).alias("gpu_hours"))

    @cached_property
    def occupancy(self) -> Occupancy | None:
        """What was held on which node; None where the log does not say it."""
        return occupancy_of(self.jobs, self.cluster)

    @cached_property
    def partitions(self) -> Mapping[str, Bools]:
        """For each partition, which nodes it has; empty where the cluster does not say it."""
        names = {
            label.removeprefix(PARTITION)
            for node in self.cluster.nodes
            for label in node.labels
            if label.startswith(PARTITION)
        }
        return {
            name: np.array([f"{PARTITION}{name}" in node.labels for node in self.cluster.nodes])
            for name in sorted(names)
        }

    def allowed(self, partition: str) -> Bools:
        """Nodes that jobs of a partition, or of several with commas, may use; all where none of them is known."""
        own = [self.partitions[name] for name in partition.split(",") if name in self.partitions]
        return np.logical_or.reduce(own) if own else np.ones(len(self.cluster.nodes), np.bool_)

    def of_type(self, constraint: str) -> Bools:
        """Nodes with the type of GPU that a constraint names; all where it names none, or the cluster states none."""
        types = np.array([node.gpu_type.casefold() for node in self.cluster.nodes])
        if not self.cluster.states_gpu_types or not constraint.startswith(GPU_TYPE):
            return np.ones(len(types), np.bool_)
        return np.isin(types, constraint.removeprefix(GPU_TYPE).casefold().split("|"))

    @cached_property
    def usable(self) -> Mapping[tuple[str, str], Bools]:
        """For each partition and constraint of the log's jobs, the nodes that they may use."""
        pairs = self.jobs.select("partition", "constraint").unique().iter_rows()
        return {(partition, one): self.allowed(partition) & self.of_type(one) for partition, one in pairs}

    @cached_property
    def too_large(self) -> tuple[str, ...]:
        """Jobs that the cluster of now cannot hold, though it has nodes of their partition and type of GPU."""
        placed = self.trace.jobs.filter(~without_nodes(self.trace, self.cluster))
        if placed.is_empty():
            return ()
        return never_able(
            replace(self.trace, jobs=placed, lines=None), self.cluster, build(self.scheduler, self.settings)
        )

    @cached_property
    def newest(self) -> Trace:
        """The jobs that a simulation takes: none that the cluster of now cannot hold.

        So all trials are of the same jobs: what a larger cluster alone can hold would lengthen its waits.
        """
        placed = self.trace.jobs.filter(~without_nodes(self.trace, self.cluster))
        able = placed.filter(~pl.col("job_id").is_in(self.too_large))
        jobs = able.sort("submit_seconds", maintain_order=True).tail(self.twin_jobs)
        zero = jobs["submit_seconds"].min()
        moments = [pl.col(name) - zero for name in ("submit_seconds", "start_seconds", "end_seconds")]
        return Trace(jobs.with_columns(moments), self.trace.source)

    @cached_property
    def twin(self) -> Twin | None:
        """The site's own scheduler, simulated; None where no job that it takes has a start."""
        if not has_starts(self.newest):
            return None
        recorded = self.newest.jobs["start_seconds"] - self.newest.jobs["submit_seconds"]
        return Twin(len(recorded), waits_of(recorded), self.waits(TWIN_TRIAL, self.trial()))

    @property
    def lacks_of_twin(self) -> str:
        """What the log lacks where there is no twin."""
        return "started job that the cluster of now can hold" if has_starts(self.trace) else "starts (Start)"

    def trial(
        self,
        order: str | None = None,
        *,
        cluster: Cluster | None = None,
        trace: Trace | None = None,
        knowledge: str = "oracle",
    ) -> SiteTrial:
        """The newest jobs under the site's own scheduler, or under another order in the same cycles."""
        name, settings = self.scheduler, dict(self.settings)
        if order is not None:
            name = f"{order}+{SlurmCycles.name}"
            cycles = {one.name for one in fields(SlurmCycles)}
            settings = {key: value for key, value in settings.items() if key in cycles}
        return SiteTrial(trace or self.newest, cluster or self.cluster, name, settings, knowledge)

    def waits(self, name: str, trial: SiteTrial) -> Waits:
        """What a trial of a name finds."""
        return self.simulated[name] if name in self.simulated else trial()

    def with_jobs(self, jobs: pl.DataFrame) -> Trace:
        """The newest jobs, changed."""
        return replace(self.newest, jobs=jobs)
