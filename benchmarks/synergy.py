"""CPU seconds that Synergy's allocations take to decide a full cluster from nothing: `python -m benchmarks.synergy`."""

from __future__ import annotations

import time

import numpy as np

from experiments.papers.synergy.random_mixes import GANGS, ONE, all_at_once, random_mix, servers_of
from muster.schedulers.certify import bound_of_plan
from muster.schedulers.registry import build

CASES = (
    *(
        (name, servers, goal)
        for servers, goal in ((16, 0.002), (512, 0.05))
        for name in ("tune", "tune-plus")
    ),
    ("opt", 125, 1.0),
    ("opt", 625, 10.0),
)
"""Allocation, servers of 8 GPUs, and the seconds asked for; opt's are asked for by jobs: 1,000 and 5,000 of one GPU."""
REPEATS = 7


def decision_seconds(name: str, servers: int, sizes: str) -> tuple[float, float]:
    """CPU seconds of a decision, everybody waiting, and of the bound beside it: medians over random mixes."""
    cluster, scheduler = servers_of(servers), build(f"fifo+{name}", {"preemptive": "true"})
    decisions, bounds = [], []
    for repeat in range(1 + REPEATS):
        view = all_at_once(random_mix(8 * servers, sizes, np.random.default_rng(repeat)), cluster)
        # In a run the demands are known from the decisions before.
        view.resource_profiles.of(view.jobs.model, view.jobs.gpus, view.jobs.requested_per_gpu)
        began = time.process_time()
        scheduler.decide(view, scheduler.initial(cluster))
        decided = time.process_time()
        bound_of_plan(view)
        decisions.append(decided - began)
        bounds.append(time.process_time() - decided)
    return float(np.median(decisions[1:])), float(np.median(bounds[1:]))


def main() -> None:
    """All cases; the first repeat, which may compile, is left out."""
    for name, servers, goal in CASES:
        for sizes in (ONE, GANGS):
            seconds, bound = decision_seconds(name, servers, sizes)
            print(
                f"{name:10s} {8 * servers:5d} GPUs, jobs of {sizes:12s} {1000 * seconds:9.2f} ms, "
                f"asked {1000 * goal:g} ms; bound {1000 * bound:.2f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
