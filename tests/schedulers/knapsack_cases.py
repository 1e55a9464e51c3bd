"""Knapsacks of the two shapes that Muster solves."""

from __future__ import annotations

import numpy as np

from muster.schedulers.admission.knapsack import Columns
from muster.schedulers.workers_and_servers.frontier import frontier
from muster.schedulers.workers_and_servers.sizes import Demands, exact, utility
from muster.speed.parameter_server import Layers, StepTime, layered, stack


def synergy_shape(jobs: int, must_choose: bool, seed: int = 7) -> tuple[Columns, np.ndarray]:
    """204 configurations of CPU and memory a job, with diminishing returns; a GPU a job."""
    rng = np.random.default_rng(seed)
    cpus, memory = (axis.ravel() for axis in np.meshgrid(np.arange(1.0, 13), np.linspace(20, 250, 17)))
    knee = rng.uniform([1, 20], [14, 240], (jobs, 2))
    speed = np.minimum(cpus / knee[:, :1], 1) ** rng.uniform(0.6, 1, (jobs, 1)) * (
        0.5 + 0.5 * np.minimum(memory / knee[:, 1:], 1)
    )
    usage = np.tile(np.column_stack([cpus, memory]), (jobs, 1))
    columns = Columns(np.repeat(np.arange(jobs), 204), speed.ravel(), usage, np.full(jobs, must_choose))
    return columns, np.array([3.0, 62.5]) * jobs


def smd_jobs(jobs: int, most: int, seed: int = 7) -> tuple[StepTime, Demands]:
    """Layered jobs; GPUs, CPU cores and GB a worker and a server need; limits of 1 to `most` of each."""
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(jobs):
        count = int(rng.integers(5, 60))
        layers = Layers.checked(
            rng.uniform(0, 1e-4, count), rng.uniform(0, 0.02, count), rng.lognormal(-6, 1.5, count)
        )
        steps.append(layered(layers, float(rng.integers(64, 1024)), 1.25, *rng.uniform(0, 0.01, 2)))
    worker = np.column_stack([rng.integers(1, 5, jobs), rng.integers(1, 11, jobs), rng.uniform(2, 32, jobs)])
    server = np.column_stack([np.zeros(jobs), rng.integers(1, 11, jobs), rng.uniform(2, 32, jobs)])
    limit = (worker + server) * rng.integers(1, most + 1, (jobs, 1))
    return stack(steps), Demands(worker.astype(np.float64), server, limit.astype(np.float64))


def smd_columns(steps: StepTime, demands: Demands, share: float = 0.5) -> tuple[Columns, np.ndarray]:
    """Every pair worth paying for, with SMD's utilities; the cluster holds `share` of all limits."""
    rng = np.random.default_rng(11)
    jobs = len(demands)
    best = exact(steps, demands).seconds
    kind = rng.random(jobs)
    urgency = np.where(
        kind < 0.1, 0.0, np.where(kind < 0.65, rng.uniform(0.01, 1, jobs), rng.uniform(4, 6, jobs))
    )
    priority, target, slots = rng.uniform(1, 100, jobs), rng.uniform(1, 15, jobs), rng.uniform(1, 12, jobs)
    job, sizes = frontier(steps, demands)
    profit = utility(sizes.seconds / best[job] * slots[job], priority[job], urgency[job], target[job])
    held = sizes.workers[:, None] * demands.worker[job] + sizes.servers[:, None] * demands.server[job]
    return Columns(job, profit, held, np.zeros(jobs, bool)), demands.limit.sum(axis=0) * share
