"""Compare queue orders on jobs of your own, from Python: python examples/compare_orders.py."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import muster
from muster.schedulers.parts import Order


@dataclass(frozen=True)
class SmallestGang(Order):
    """Fewest GPUs first, preemptive; by arrival among equals."""

    name: ClassVar[str] = "smallest-gang"
    static_priority: ClassVar[bool] = True

    def key(self, jobs):
        """The number of GPUs; the smallest goes first."""
        return jobs.gpus


random = np.random.default_rng(1)
count = 200
jobs = {
    "job_id": np.arange(count),
    "submit_seconds": np.sort(random.uniform(0, 100_000, count)).round(),
    "gpus": random.choice([1, 2, 4, 8], count),
    "duration_seconds": random.lognormal(8, 1.5, count).round(),
}

for scheduler in ("fifo", "las", SmallestGang):
    result = muster.simulate(jobs, "4x8gpu,24cpu,500gb", scheduler, restart_cost=60)
    waits = result.summary["wait_seconds"]
    print(
        f"{result.summary['scheduler']:32} mean wait {waits['mean']:7.0f} s, 99th percentile {waits['p99']:7.0f} s"
    )
