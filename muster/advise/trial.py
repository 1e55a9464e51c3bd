"""Simulations that answer a question about a site: the same jobs, once for each phase of the scheduler's clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.schedulers.registry import build, clock_phases
from muster.simulation import Options, Progress, simulate
from muster.workload.trace import Trace

_PHASES = 4


@dataclass(frozen=True)
class Waits:
    """Waits of one scheduler, in seconds: means over the phases of its clocks, which no log states."""

    mean: float
    p99: float
    deviation: float = 0.0
    """Of the mean wait, over the phases."""


@dataclass(frozen=True)
class SiteTrial:
    """Jobs under a scheduler on a cluster; a process of its own can run it."""

    trace: Trace
    cluster: Cluster
    scheduler: str
    settings: Mapping[str, str]
    knowledge: str = "oracle"

    @property
    def phases(self) -> list[dict[str, str]]:
        """The settings of each run."""
        return clock_phases(self.scheduler, self.settings, _PHASES)

    @property
    def jobs(self) -> int:
        """Jobs of all runs."""
        return len(self.phases) * len(self.trace.jobs)

    def __call__(self, report: Callable[[Progress], None] | None = None) -> Waits:
        """Run it, and say how far all runs together are."""
        options = Options(
            restart_cost_seconds=0.0, skip_impossible=True, knowledge=self.knowledge, records=False
        )
        found: list[Waits] = []

        def of_all(progress: Progress) -> None:
            if report is not None:
                before = len(found) * len(self.trace.jobs)
                report(replace(progress, jobs_done=before + progress.jobs_done))

        for phase in self.phases:
            run = simulate(self.trace, self.cluster, build(self.scheduler, phase), options, of_all)
            found.append(waits_of(run.record.jobs["wait_seconds"]))
        means = [one.mean for one in found]
        return Waits(float(np.mean(means)), float(np.mean([one.p99 for one in found])), float(np.std(means)))


def waits_of(seconds: pl.Series) -> Waits:
    """The waits of jobs that have one."""
    known = seconds.drop_nulls().to_numpy()
    return Waits(float(known.mean()), float(np.quantile(known, 0.99))) if len(known) else Waits(0.0, 0.0)
