"""The default scheduler against the one before it, fifo, las and 2d-las: `python -m benchmarks.default_scheduler`.

Every run charges an interruption what a user gets by default (or the start-up of the row), with no knowledge of
durations. The constants of the order gittins were decided on seeds 0 to 3; these are others.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from muster.cluster import Cluster
from muster.cluster.shipped import parse_cluster
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.generators import mixed, philly_like, synergy
from muster.workload.trace import Trace, trace_of

RIVALS = ("gittins+tune-plus", "fifo+tune-plus", "las+tune-plus", "2d-las+tune-plus", "las", "srtf+tune-plus")
SEEDS = (11, 12, 13, 14, 15)
LENGTHS: dict[str, Callable[[np.random.Generator], Any]] = {
    "equal, 10 min": lambda _draw: np.full(12, 600.0),
    "equal, 2 h": lambda _draw: np.full(12, 7200.0),
    "uniform, 1 to 20 min": lambda draw: draw.uniform(60, 1200, 12),
    "log-normal, median 4 min": lambda draw: np.exp(draw.normal(5.5, 1.5, 12)),
    "half 1 min, half 20 min": lambda draw: draw.permutation([60.0] * 6 + [1200.0] * 6),
}
QUEUES: dict[str, tuple[str, Callable[[int], Trace]]] = {
    "Synergy, 9 jobs/h": ("synergy-16", lambda seed: synergy.generate(1500, 9.0, seed=seed)),
    "Synergy, gangs, 5 jobs/h": (
        "synergy-16",
        lambda seed: synergy.generate(1500, 5.0, (60, 20, 20), multi_gpu=True, seed=seed),
    ),
    "like Philly, 40 jobs/h": ("32x8gpu", lambda seed: philly_like.generate(2000, 40.0, seed=seed)),
    "mixed, load 1": ("8x8gpu", lambda seed: mixed.generate(2000, 64, 1.0, seed=seed)),
}


def figures(trace: Trace, cluster: Cluster, name: str, **options: Any) -> tuple[float, float, int]:
    """Mean JCT in seconds, part of the running time that restarts took, and the most preemptions of one job."""
    knowledge = "oracle" if name.startswith("srtf") else "none"
    jobs = simulate(trace, cluster, build(name), Options(knowledge=knowledge, **options)).record.jobs
    lost = float(jobs["restart_seconds"].sum()) / float(jobs["run_seconds"].sum())
    return float(jobs["jct_seconds"].mean()), lost, int(jobs["preemptions"].max())  # type: ignore[arg-type]


def twelve_jobs(lengths: Callable[[np.random.Generator], Any], seed: int) -> Trace:
    """Twelve jobs of one GPU that arrive within the time that two GPUs need for a third of them."""
    draw = np.random.default_rng(seed)
    seconds = lengths(draw)
    arrivals = np.sort(draw.uniform(0, 2 * seconds.mean(), 12))
    return trace_of(
        {
            "job_id": [str(number) for number in range(12)],
            "submit_seconds": arrivals.tolist(),
            "gpus": [1] * 12,
            "duration_seconds": seconds.tolist(),
        },
        "twelve jobs",
    )


def small() -> Table:
    """Mean JCT over FIFO's on two GPUs, by lengths, start-up and round; the worst of the seeds."""
    names = (DEFAULT_SCHEDULER, "las+tune-plus", "2d-las+tune-plus")
    table = Table(
        "12 jobs, 2 GPUs",
        "start-up",
        "round",
        *names,
        title="Mean JCT over FIFO's, worst seed (restart share)",
    )
    cluster = parse_cluster("1x2gpu,8cpu,64gb")
    for title, lengths in LENGTHS.items():
        for start_up in (5.0, 30.0, 120.0):
            for turn in (10.0, 60.0):
                cells = []
                options = {"round_seconds": turn, "restart_cost_seconds": start_up}
                for name in names:
                    settings = [
                        figures(twelve_jobs(lengths, seed), cluster, name, **options) for seed in SEEDS
                    ]
                    base = [figures(twelve_jobs(lengths, seed), cluster, "fifo", **options) for seed in SEEDS]
                    worst = max(one[0] / other[0] for one, other in zip(settings, base, strict=True))
                    cells.append(f"{worst:.2f} ({100 * max(one[1] for one in settings):.1f} %)")
                table.add_row(title, f"{start_up:g} s", f"{turn:g} s", *cells)
    return table


def large() -> Table:
    """Mean JCT in hours on generated queues, mean of the seeds."""
    names = (DEFAULT_SCHEDULER, *RIVALS)
    table = Table("queue", *names, title="Mean JCT, hours (restart share; most preemptions of a job)")
    for title, (cluster, make) in QUEUES.items():
        cells = []
        for name in names:
            runs = [figures(make(seed), parse_cluster(cluster), name) for seed in SEEDS[:3]]
            jct, lost, most = (
                fmean(run[0] for run in runs),
                max(run[1] for run in runs),
                max(run[2] for run in runs),
            )
            cells.append(f"{jct / 3600:.2f} ({100 * lost:.1f} %; {most})")
        table.add_row(title, *cells)
    return table


if __name__ == "__main__":
    console = Console(width=200)
    console.print(small())
    console.print(large())
