"""Small questions and runs of jobs with workers and servers, for the tests of SMD and its field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from muster.cluster import Cluster, Node
from muster.schedulers.workers_and_servers.sizes import Demands
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from muster.speed.parameter_server import Layers, layered, stack
from muster.workload.generators.smd import generate
from muster.workload.trace import Trace

FIELD = (
    "smd",
    "smd-reservation",
    "optimus",
    "equal-1to1",
    "first-fit-sized",
    "density-first-fit",
    "drf-1to1",
    "tetris-1to1",
    "oasis",
)


def sized_job(**more: Any) -> dict[str, Any]:
    """One row of `building.jobs_of`: vgg16 with up to 4 workers and 4 servers."""
    row = {
        "submit_seconds": 0.0,
        "gpus": 2,
        "model": "vgg16",
        "iterations": 1000.0,
        "sync": "ps",
        "max_workers": 4,
        "servers": 4,
        "worker_gpus": 1,
        "worker_cpus": 2.0,
        "worker_memory_gb": 4.0,
        "server_cpus": 3.0,
        "server_memory_gb": 5.0,
        "nic_gb_per_s": 0.5,
        "batch": 256,
        "utility_priority": 10.0,
        "utility_urgency_per_hour": 0.5,
        "utility_target_seconds": 7200.0,
    }
    return row | more


def machines(count: int, gpus: int = 4, cpus: float = 32.0, nic_gb_per_s: float = 1.25) -> Cluster:
    """Nodes that are all alike."""
    nodes = tuple(
        Node(f"n{at}", "node", 0, gpus, "v100", max(gpus, 1), cpus, 128.0, 0.5, nic_gb_per_s)
        for at in range(count)
    )
    return Cluster("machines", nodes, ("rack0",))


def trace_of_seed(seed: int, jobs: int, per_hour: float | None = None, ring: float = 0.3) -> Trace:
    """A generated trace."""
    return generate(jobs, per_hour, ring, seed)


def random_question(
    seed: int, jobs: int, most: int = 3, reserved: bool = False, share: float = 0.5, rings: float = 0.0
) -> SizingProblem:
    """Jobs at time 0 that hold nothing; the cluster has `share` of all their limits; so many reduce in a ring."""
    rng = np.random.default_rng(seed)
    is_ring = np.random.default_rng([seed, 1]).random(jobs) < rings
    steps, rows = [], []
    for _ in range(jobs):
        count = int(rng.integers(1, 6))
        layers = Layers.checked(
            rng.uniform(0, 1e-3, count), rng.uniform(0, 0.05, count), rng.uniform(0, 0.2, count)
        )
        steps.append(layered(layers, float(rng.integers(32, 512)), 0.5))
    for role in (1.0, 0.0):
        needs = np.column_stack(
            [role * rng.integers(1, 3, jobs), rng.integers(1, 8, (jobs, 2)).astype(float)]
        )
        nic = np.full((jobs, 1), 0.5 * (1 - role))
        rows.append(np.hstack([needs, nic, np.tile([role, 1 - role], (jobs, 1))]))
    worker, server = rows
    # A ring's one server is nothing but its number.
    server[is_ring, :4] = 0.0
    limit = (worker + server) * rng.integers(1, most + 1, (jobs, 1))
    # One more of either kind where its resources allow it.
    limit[:, 4:] += 1
    limit[is_ring, 5] = 1
    nothing = np.zeros(jobs, np.int64)
    together = stack(steps)
    if rings:
        # A ring of one talks to no other; others by their place, here anything.
        seconds = np.random.default_rng([seed, 2]).uniform(0, 0.2, (jobs, 5)) * is_ring[:, None]
        seconds[:, 0] = 0.0
        terms = np.where(is_ring[:, None, None], together.terms[:, :1] * [1.0, 1.0, 0.0], together.terms)
        together = replace(together, terms=terms, ring_seconds=seconds)
    return SizingProblem(
        now=0.0,
        index=np.arange(jobs),
        arrival=np.zeros(jobs),
        remaining=rng.uniform(1000, 20000, jobs).round(),
        workers=nothing,
        servers=nothing,
        pinned=np.zeros(jobs, bool),
        interruption_cost=np.full(jobs, 30.0),
        steps=together,
        demands=Demands(worker, server, limit),
        least_workers=np.ones(jobs, np.int64),
        is_ring=is_ring,
        priority=rng.uniform(1, 100, jobs),
        urgency=rng.uniform(0, 1, jobs) / 3600,
        target=rng.uniform(1, 5, jobs) * 3600,
        capacity=(limit[:, :4].sum(axis=0) * share).round(1),
        reserved=reserved,
        fixed_usage=np.zeros((0, 4)),
        fixed_until=np.zeros(0),
        bound=np.zeros((0, jobs), bool),
        capacity_there=np.zeros((0, 4)),
    )
