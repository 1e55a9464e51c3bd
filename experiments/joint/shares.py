"""Jobs that ask for a share of a GPU among jobs of whole GPUs: what joint makes of them beside tune-plus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from muster.cluster.ledger_arrays import Floats
from muster.cluster.shipped import parse_cluster
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.trace import Trace, trace_of

QUEUES, JOBS = 12, 150
ALLOCATIONS = ("tune-plus", "joint")
_CLUSTER = "4x4gpu,16cpu,250gb"
_MEAN, _SHORTEST, _LOAD = 4_000.0, 60.0, 1.0


def queue(number: int) -> Trace:
    """Half of the jobs ask for a share of one GPU; the same for a number for ever."""
    random = np.random.default_rng(number)
    shared = random.random(JOBS) < 0.5
    gpus = np.where(shared, 1, random.choice([1, 2, 4], JOBS, p=[0.5, 0.3, 0.2]))
    milli = np.where(shared, random.choice([250, 500, 750], JOBS), 1000)
    seconds = np.round(random.exponential(_MEAN, JOBS) + _SHORTEST, 1)
    span = (gpus * milli / 1000 * seconds).sum() / parse_cluster(_CLUSTER).total_gpus / _LOAD
    columns = {
        "job_id": np.arange(JOBS),
        "submit_seconds": np.sort(random.random(JOBS) * span).round(1),
        "duration_seconds": seconds,
        "gpus": gpus,
        "gpu_milli": milli,
        "model": random.choice(["resnet50", "gnmt", "resnet18", ""], JOBS),
    }
    return trace_of(columns, f"queue {number}")


def lines(orders: Sequence[str], queues: int) -> Iterator[str]:
    """Mean JCT of all jobs, of shares and of whole GPUs, in seconds, over the queues."""
    yield f"{'scheduler':20} {'all jobs':>10} {'shares':>10} {'whole':>10}"
    for order in orders:
        for allocation in ALLOCATIONS:
            found = np.mean([_means(f"{order}+{allocation}", queue(at)) for at in range(queues)], axis=0)
            yield f"{f'{order}+{allocation}':20} " + " ".join(f"{mean:10,.1f}" for mean in found)


def _means(scheduler: str, trace: Trace) -> Floats:
    jobs = simulate(trace, parse_cluster(_CLUSTER), build(scheduler), Options()).record.jobs
    jct = (jobs["finish_seconds"] - jobs["submit_seconds"]).to_numpy()
    whole = trace.jobs["gpu_milli"].to_numpy() == 1000
    return np.array([jct.mean(), jct[~whole].mean(), jct[whole].mean()])
