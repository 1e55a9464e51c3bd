"""The cases that are timed: a workload, a cluster, a scheduler, and what is asked of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from experiments.papers.dally import settings as dally
from muster.workload.generators import mixed, philly_like, smd, synergy
from muster.workload.trace import Trace, read_trace

REFERENCE = Path(os.environ.get("MUSTER_REFERENCE", "../shared"))


@dataclass(frozen=True)
class Case:
    """One timed run."""

    name: str
    trace: Callable[[], Trace]
    cluster: str
    scheduler: str
    goal: str
    options: Mapping[str, Any] = field(default_factory=dict)
    published_rules: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the scheduler."""
    warm_on: str = "16x8gpu"
    """The cluster of the run before, by which everything is compiled."""
    warm_trace: Callable[[], Trace] = partial(mixed.generate, 300, gpus=128, load=1.2, seed=0)


def synergy_trace() -> Trace:
    """The 12,000-job list of the published run, or one like it where the reference data is absent."""
    published = REFERENCE / "parity/synergy/single_9perhour_20-70-10_12000.csv"
    return (
        read_trace(published) if published.is_file() else synergy.generate(12_000, load_per_hour=9, seed=42)
    )


_synergy_warm = partial(synergy.generate, 300, load_per_hour=9, seed=0)


def philly_trace() -> Trace:
    """Philly as it was, or one like it where the reference data is absent."""
    real = REFERENCE / "data/traces/philly.csv.xz"
    return read_trace(real) if real.is_file() else philly_like.generate(111_549, seed=1)


def mixed_trace(jobs: int, gpus: int, load: float) -> Callable[[], Trace]:
    """The mixed kind: 1, 2, 4, 8 GPUs, two duration laws."""
    return lambda: mixed.generate(jobs, gpus=gpus, load=load, seed=1)


def limited_trace(jobs: int, gpus: int, load: float) -> Callable[[], Trace]:
    """The mixed kind with time limits of 1 to 10 times the durations, in steps of 10 minutes."""

    def limited() -> Trace:
        trace = mixed_trace(jobs, gpus, load)()
        too_long = np.random.default_rng(1).choice([1.0, 1.5, 2.0, 3.0, 5.0, 10.0], len(trace.jobs))
        limits = np.ceil(trace.jobs["duration_seconds"].to_numpy() * too_long / 600) * 600
        return replace(trace, jobs=trace.jobs.with_columns(time_limit_seconds=pl.Series(limits)))

    return limited


def dally_trace(arrivals: str, jobs: int, a_day: float) -> Callable[[], Trace]:
    """Jobs like those of Dally's inputs, with its authors' models."""
    return lambda: dally.trace(dally.Setting(arrivals, False, "authors' scales"), jobs, 1, a_day)


def smd_trace(jobs: int, per_hour: float) -> Callable[[], Trace]:
    """Jobs with parameter servers, as Poisson arrivals."""
    return partial(smd.generate, jobs, per_hour=per_hour, seed=1)


_HUGE = "12500x8gpu"
_LARGE = str(Path(__file__).parent / "dally-32x8x8.toml")
_CONTENDED = {"congestion": 0.5, "contention": True}
_MEASURED = {"round_seconds": 300.0, "measure": (4000, 4999)}
_ROUNDS = {"round_seconds": 300.0}

CASES = [
    *(
        Case(f"synergy-12000-{order}{'-published' if published else ''}", synergy_trace, "synergy-16", order,
             f"<= {goal} s", _MEASURED, published)
        for published in (False, True)
        for order, goal in (("fifo", 0.15), ("srtf", 0.5), ("las", 0.5))
    ),
    *(
        Case(f"synergy-12000-{name}", synergy_trace, "synergy-16", name, f"<= {goal} s", _MEASURED,
             settings={"preemptive": "true"}, warm_trace=_synergy_warm)
        for name, goal in (("fifo+tune", 3), ("las+tune", 12), ("fifo+tune-plus", 3), ("fifo+joint", 6))
    ),
    Case("philly-fifo", philly_trace, "philly", "fifo", "<= 0.8 s"),
    Case("philly-las", philly_trace, "philly", "las", "<= 0.8 s", _ROUNDS),
    Case("philly-srtf", philly_trace, "philly", "srtf", "<= 0.8 s", _ROUNDS),
    *(
        Case(f"mixed-20000-load{load}-{order}", mixed_trace(20_000, 512, load), "64x8gpu", order, f"<= {goal} s")
        for load in (0.8, 1.2)
        for order, goal in (("fifo-strict", 0.25), ("fifo", 0.25), ("sjf", 0.25), ("srtf", 0.6), ("las", 0.6))
    ),
    *(
        Case(f"restarts-20000-{order}", mixed_trace(20_000, 512, 1.2), "64x8gpu", order, "<= 0.6 s",
             {"restart_cost_seconds": 60.0})
        for order in ("srtf", "las")
    ),
    Case("million-fifo", mixed_trace(1_000_000, 100_000, 0.8), _HUGE, "fifo", "<= 60 s, 2 GB"),
    Case("million-las", mixed_trace(1_000_000, 100_000, 0.8), _HUGE, "las", "<= 30 s, 2 GB", _ROUNDS),
    Case("deep-queue-fifo", mixed_trace(120_000, 100_000, 3.0), _HUGE, "fifo", "<= 20 us a decision"),
    *(
        Case(f"backfill-20000-load{load}-{name}", limited_trace(20_000, 512, load), "64x8gpu", name, goal,
             warm_trace=limited_trace(300, 128, 1.2))
        for load in (0.8, 1.2, 2.0, 3.0)
        for name, goal in (("fifo", ""), ("fifo+easy", "2x fifo"), ("fifo+conservative", "10x fifo"))
    ),
    Case("backfill-month-fifo+easy", limited_trace(90_000, 3_000, 0.9), "375x8gpu", "fifo+easy", ""),
    Case("backfill-million-fifo+easy", limited_trace(1_000_000, 100_000, 0.8), _HUGE, "fifo+easy", "<= 300 s, 4 GB"),
    *(
        Case(f"scaling-{order}-{jobs}", mixed_trace(jobs, 512, 0.8), "64x8gpu", order, "n log n")
        for order in ("fifo", "srtf", "las")
        for jobs in (1_000, 10_000, 100_000, 1_000_000)
    ),
    *(
        Case(f"dally-500-{policy}", dally_trace("batch", 500, 100.0), "dally-2x8x8", policy, "<= 3 s",
             {"restart_cost_seconds": 30.0}, warm_on="dally-2x8x8", warm_trace=dally_trace("batch", 60, 100.0))
        for policy in ("dally", "dally-manual", "dally-nowait", "dally-consolidated", "tiresias", "gandiva",
                       "yarn-cs", "fifo", "las", "srtf", "dally-plus", "dally-plus-oracle")
    ),
    *(
        Case(f"dally-20000-{policy}{'-contended' if options else ''}", dally_trace("Poisson", 20_000, 400.0),
             _LARGE, policy, "" if options else "<= 60 s", {"restart_cost_seconds": 30.0, **options},
             warm_on="dally-2x8x8", warm_trace=dally_trace("batch", 60, 100.0))
        for policy in ("dally", "dally-plus")
        for options in ({}, _CONTENDED)
    ),
    *(
        Case(f"dally-20000-{policy}", dally_trace("Poisson", 20_000, 400.0), _LARGE, policy, goal,
             {"restart_cost_seconds": 30.0}, warm_on="dally-2x8x8", warm_trace=dally_trace("batch", 60, 100.0))
        for policy, goal in (("fifo+joint", "<= 20 s"), ("gittins+joint", ""))
    ),
    *(
        Case(f"many-{jobs}-las+tune-plus-load{load}", mixed_trace(jobs, 512, load), "64x8gpu", "las+tune-plus", goal)
        for load in (0.8, 1.2)
        for jobs, goal in ((5_000, ""), (20_000, ""), (100_000, "<= 120 s"))
    ),
    *(
        Case(f"many-{jobs}-dally-plus", dally_trace("Poisson", jobs, 400.0), _LARGE, "dally-plus", goal,
             {"restart_cost_seconds": 30.0}, warm_on="dally-2x8x8", warm_trace=dally_trace("batch", 60, 100.0))
        for jobs, goal in ((5_000, ""), (20_000, ""), (100_000, "<= 30 s"))
    ),
    *(
        Case(f"many-{jobs}-smd-{per_hour:g}-an-hour", smd_trace(jobs, per_hour), "smd", "smd", goal,
             warm_on="smd", warm_trace=smd_trace(20, per_hour))
        for per_hour in (0.5, 1.0)
        for jobs, goal in ((5_000, ""), (20_000, ""), (100_000, "<= 120 s"))
    ),
]  # fmt: skip
