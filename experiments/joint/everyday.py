"""Queues that users have, under the default scheduler and under the one before it, as `muster compare` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import muster
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.sweep.statistics import estimate
from muster.workload.generators import mixed, philly_like, slurm_month, synergy
from muster.workload.trace import Trace, read_trace, trace_of

SPECIALISTS = "gittins+tune-plus"
"""The default until November 2026."""
_TWO_RACKS = str(Path(__file__).parents[2] / "examples" / "two-racks.toml")
_SERVERS = "4x8gpu,24cpu,500gb"
_SITE = "6x8h100,96cpu,1000gb + 2x8a100,96cpu,1000gb"
_PHILLY = {"": "philly.csv.xz", ", tenants": "philly_with_tenants.csv.xz"}
_PARTS = (("", 50_000), ("", 80_000), (", tenants", 30_000), (", tenants", 55_000))
_PART_JOBS, _PART_GPUS = 3_000, 160
_PODS, _PART_PODS, _POD_GPUS = "alibaba_openb_pods.csv.xz", 1_500, 96
_ALIBABA = "9x8g2,96cpu,412gb + 6x2t4,104cpu,550gb + 2x2p100,16cpu,129gb + 1x8g3,128cpu,825gb"
"""About a 65th of the log's nodes; the rare kinds are left out."""
_CHANGED = 0.05
"""Part of its work, and of the time since the job before it came, by which a draft changes a job at most."""
_BETWEEN_SEEDS = 100
_NO_TIME = 1.0
"""Seconds; shorter waits count as this."""


@dataclass(frozen=True)
class Queue:
    """Jobs and where they run; those of the reference data are read from its folder."""

    name: str
    cluster: str
    generated: Callable[[int], Trace] | None = None
    seed: int = 1
    read: Callable[[Path], Trace] | None = None

    def trace(self, reference: Path | None, draft: int = 0) -> Trace | None:
        """The jobs; None where they are those of the reference data, and no folder is given.

        Drafts after the first show what is chance: generated jobs have another seed, those of a log are changed a
        little.
        """
        if self.generated is not None:
            return self.generated(self.seed + _BETWEEN_SEEDS * draft)
        if self.read is None or reference is None:
            return None
        trace = self.read(reference)
        return changed(trace, draft) if draft else trace


def changed(trace: Trace, seed: int) -> Trace:
    """The jobs of a log in their order; the work of each and the time since the one before it are 5 % off at most."""
    jobs, random = trace.jobs, np.random.default_rng(seed)
    work, gaps = random.uniform(1 - _CHANGED, 1 + _CHANGED, (2, len(jobs)))
    order = np.argsort(submit := jobs["submit_seconds"].to_numpy(), kind="stable")
    came = np.empty(len(jobs))
    came[order] = np.cumsum(np.diff(submit[order], prepend=submit[order[0]]) * gaps)
    columns = (
        pl.Series("submit_seconds", came).round(3),
        (pl.col("duration_seconds") * work).round(3),
        (pl.col("iterations") * work).ceil(),
    )
    return replace(trace, jobs=jobs.with_columns(columns))


def _synergy(jobs: int, load: float, split: tuple[int, int, int], seed: int) -> Trace:
    return synergy.generate(jobs, load, split, multi_gpu=True, seed=seed)


def _month(seed: int) -> Trace:
    return slurm_month.generate(600, 64, seed=seed).trace


def _philly(file: str, first: int, load: float, reference: Path) -> Trace:
    """3,000 jobs of the log by time, without those above 80 GPUs, arriving so that they want this part of 160 GPUs."""
    jobs = read_trace(reference / "data" / "traces" / file).jobs.sort("submit_seconds", maintain_order=True)
    jobs = jobs.slice(first, _PART_JOBS).filter(pl.col("gpus") <= _PART_GPUS // 2)
    return trace_of(_wanting(jobs, _PART_GPUS * load) | {"tenant": jobs["tenant"]}, file)


def _pods(first: int, load: float, reference: Path) -> Trace:
    """1,500 pods of the log by time, with what they request, arriving so that they want this part of 96 GPUs."""
    jobs = read_trace(reference / "data" / "traces" / _PODS).jobs.sort("submit_seconds", maintain_order=True)
    jobs = jobs.slice(first, _PART_PODS)
    requested = {name: jobs[name] for name in ("gpu_milli", "cpus", "memory_gb")}
    return trace_of(_wanting(jobs, _POD_GPUS * load) | requested, _PODS)


def _wanting(jobs: pl.DataFrame, gpus: float) -> dict[str, Any]:
    """The columns of jobs that arrive at the pace at which they want so many GPUs."""
    seconds, submit = jobs["duration_seconds"].to_numpy(), jobs["submit_seconds"].to_numpy()
    submit = submit - submit[0]
    whole = jobs["gpus"] * jobs["gpu_milli"] / 1_000
    work = float((whole.to_numpy() * seconds).sum())
    return {
        "job_id": np.arange(len(jobs)),
        "submit_seconds": (submit * work / gpus / submit[-1]).round(1),
        "gpus": jobs["gpus"],
        "duration_seconds": seconds,
    }


def _file(path: str, mapping: Mapping[str, str] | None, reference: Path) -> Trace:
    return read_trace(reference / "parity" / path, mapping=mapping)


def queues() -> Iterator[Queue]:
    """All of them; gangs on the demo's cluster depend on its network."""
    for name, split in (("demo", (40, 40, 20)), ("language models", (0, 100, 0))):
        for seed in range(1, 6 if name == "demo" else 4):
            yield Queue(f"{name}, seed {seed}", _TWO_RACKS, partial(_synergy, 1_000, 5.0, split), seed)
    yield Queue("tutorial: compare", _SERVERS, partial(_synergy, 150, 1.5, (40, 40, 20)))
    yield Queue("tutorial: first scheduler", _SERVERS, partial(mixed.generate, 400, 32, 0.9), 3)
    yield Queue("scarce memory", "4x8gpu,24cpu,200gb", partial(_synergy, 200, 6.0, (40, 40, 20)))
    yield Queue("like Philly", "32x8gpu", lambda seed: philly_like.generate(2_000, seed=seed))
    yield Queue("a month of a Slurm site", _SITE, _month, 0)
    for tenants, first in _PARTS:
        for load in (0.8, 1.2, 3.0):
            read = partial(_philly, _PHILLY[tenants], first, load)
            name = f"Philly{tenants}, from job {first:,}, load {load:g}"
            yield Queue(name, "20x8gpu,96cpu,500gb", read=read)
    for first in (1_500, 4_500):
        for load in (1.2, 3.0):
            name = f"Alibaba, from pod {first:,}, load {load:g}"
            yield Queue(name, _ALIBABA, read=partial(_pods, first, load))
    slurm = {
        "job_id": "job",
        "submit_seconds": "submitted",
        "gpus": "gpus",
        "duration_seconds": "true_duration_s",
        "user": "user",
    }
    for run in ("run1", "run3_multifactor"):
        read = partial(_file, f"slurm/{run}_jobs.csv", slurm)
        yield Queue(f"Slurm log, {run}", "8x8gpu,48cpu,500gb", read=read)
    gangs = "synergy/multi_4perhour_33-33-33_1000.csv"
    yield Queue("Synergy's gangs, 4/h", "synergy-16", read=partial(_file, gangs, None))
    single = "synergy/single_9perhour_20-70-10_1000.csv"
    yield Queue("Synergy's jobs of one GPU, 9/h", "synergy-16", read=partial(_file, single, None))
    yield Queue("mixed", "16x8gpu", read=partial(_file, "fifo/mixed_128gpus_1000.csv", None))


@dataclass(frozen=True)
class Ran:
    """What counts of a run: seconds, and GPU-hours that restarts took."""

    jct: float
    p99: float
    wait: float
    restarts: float


def ran(trace: Trace, cluster: str, scheduler: str) -> Ran:
    """The figures of a run with all defaults."""
    result = muster.simulate(trace, cluster, scheduler)
    jct, wait = result.summary["jct_seconds"], result.summary["wait_seconds"]
    lost = float((result.jobs["restart_seconds"] * result.jobs["gpus"]).sum()) / 3600
    return Ran(jct["mean"], jct["p99"], wait["mean"], lost)


def lines(only: str, reference: Path | None, drafts: int = 1) -> Iterator[str]:
    """A line for each queue whose name contains the text: the default's ratios, waits and restarts of both."""
    for queue in queues():
        if only in queue.name:
            yield from lines_of(queue, reference, drafts)


def lines_of(queue: Queue, reference: Path | None, drafts: int) -> Iterator[str]:
    """The line of a queue, none where its jobs are not known.

    Ratios of several drafts are their means, with the interval of 95 % confidence; the rest is of the first draft.
    """
    traces = (queue.trace(reference, draft) for draft in range(drafts))
    pairs = [
        (ran(trace, queue.cluster, SPECIALISTS), ran(trace, queue.cluster, DEFAULT_SCHEDULER))
        for trace in traces
        if trace is not None
    ]
    if not pairs:
        return
    former, default = pairs[0]
    jct, p99, wait = (_ratio(pairs, what) for what in ("jct", "p99", "wait"))
    yield (
        f"{queue.name:44} {former.jct / 3600:7.2f} h {jct} p99 {p99}  wait {wait}, "
        f"{former.wait / 60:8.2f}, {default.wait / 60:8.2f} min  "
        f"restarts {former.restarts:6.1f}, {default.restarts:6.1f} GPU-hours"
    )


def _ratio(pairs: Sequence[tuple[Ran, Ran]], what: str) -> str:
    """The mean ratio of a figure, with its interval if there is one; two waits of 0 s are equal."""
    seconds = [(getattr(former, what), getattr(default, what)) for former, default in pairs]
    known = estimate([max(default, _NO_TIME) / max(former, _NO_TIME) for former, default in seconds])
    return f"{known.mean:6.3f}" + ("" if known.half_width is None else f" ± {known.half_width:.3f}")
