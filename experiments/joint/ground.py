"""A ground: jobs, a cluster and rules on which schedulers are compared with recorded runs of other systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Floats
from muster.schedulers.contract import Scheduler
from muster.schedulers.registry import build
from muster.simulation import Options, Rules, simulate
from muster.workload.trace import Trace


@dataclass(frozen=True)
class Figures:
    """What counts of a run, in seconds."""

    name: str
    mean_jct: float
    p99_jct: float
    makespan: float
    restarts: float
    """A job, in the mean, after the first start; NaN: not known."""

    def line(self) -> str:
        """A line of the table."""
        return (
            f"  {self.name:34} {self.mean_jct:12,.1f} {self.p99_jct:12,.1f} {self.makespan:12,.1f} "
            f"{self.restarts:8.2f}"
        )


HEADER = f"  {'':34} {'mean JCT':>12} {'p99 JCT':>12} {'makespan':>12} {'restarts':>8}"


@dataclass(frozen=True)
class Cell:
    """One setting of a ground."""

    name: str
    trace: Trace
    cluster: Cluster
    rules: Rules
    recorded: Sequence[Figures]
    """Of the other systems in this setting."""
    own: Mapping[str, Callable[[], Scheduler]] = field(default_factory=dict)
    """Replicas that belong to this setting alone, by name."""

    def run(self, scheduler: str, make: Make = build) -> Figures:
        """The figures of a scheduler, a replica's or one of Muster's; it is first asked after a whole round."""
        made = self.own[scheduler]() if scheduler in self.own else make(scheduler, {})
        options = Options(rules=self.rules, network="none", round_origin=self.rules.round_seconds or 0.0)
        jobs = simulate(self.trace, self.cluster, made, options, models={}).record.jobs
        finish = jobs["finish_seconds"].to_numpy()
        pauses = self.trace.jobs["restart_cost_seconds"].to_numpy()
        restarts = float((jobs["restart_seconds"].to_numpy() / pauses).mean()) - 1.0
        return figures(scheduler, jobs["submit_seconds"].to_numpy(), finish, restarts)


def figures(name: str, submit: Floats, finish: Floats, restarts: float = np.nan) -> Figures:
    """The figures of a run whose jobs came and ended at these times; NaN where one did not end."""
    jct = finish - submit
    return Figures(name, float(jct.mean()), float(np.quantile(jct, 0.99)), float(finish.max()), restarts)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean by which ratios are summed up: that of a ratio and its inverse is 1."""
    return float(np.exp(np.log(ratios).mean()))


Make = Callable[[str, Mapping[str, str]], Scheduler]
"""The scheduler of a name with settings: `build`, or one that changes what it sees."""


@dataclass(frozen=True)
class Case:
    """A setting of a ground in which each run of a scheduler has one figure, for ablations and wrong beliefs."""

    name: str
    joint: str
    rivals: Sequence[str]
    """Schedulers that joint is compared with."""
    figure: Callable[[str, int, Make], float]
    """Of a scheduler's name and a seed."""
    first_seed: int = 0
    what: str = "mean JCT"


def table(cell: Cell, schedulers: Sequence[str]) -> Iterator[str]:
    """The lines of a setting: what was recorded, then each scheduler as soon as it has run."""
    yield f"{cell.name}\n{HEADER}"
    for each in cell.recorded:
        yield each.line()
    for scheduler in schedulers:
        yield cell.run(scheduler).line()
