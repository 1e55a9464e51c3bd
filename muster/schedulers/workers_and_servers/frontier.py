"""Every size of a job that is worth paying for: faster than all sizes that hold no more (SMD's outer problem)."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.workers_and_servers.frontier_core import sizes_on_frontier
from muster.schedulers.workers_and_servers.sizes import ROUNDING, Demands, Sizes
from muster.speed.parameter_server import StepTime


def frontier(steps: StepTime, demands: Demands, least_workers: Ints | None = None) -> tuple[Ints, Sizes]:
    """Job by job, every pair that is faster than all pairs with no more workers and no more servers.

    What any accounting of usage could want is among them. Pairs with fewer than `least_workers` are none. Returns
    the job of each pair, ascending, and the pairs.
    """
    least = np.ones(len(demands), np.int64) if least_workers is None else least_workers
    none = np.zeros(len(demands), np.int64)
    job, workers, servers, seconds = frontier_and_held(steps, demands, least, none, none)
    return job, Sizes(workers.astype(np.float64), servers.astype(np.float64), seconds)


def frontier_and_held(
    steps: StepTime, demands: Demands, least_workers: Ints, workers: Ints, servers: Ints
) -> tuple[Ints, Ints, Ints, Floats]:
    """Job, workers, servers and seconds of these pairs and of what each job holds (0 workers: nothing), in order."""
    return sizes_on_frontier(
        (
            np.ascontiguousarray(steps.terms),
            steps.per_worker_seconds,
            steps.per_server_seconds,
            steps.asynchronous,
            np.ascontiguousarray(steps.ring_seconds),
        ),
        np.ascontiguousarray(demands.worker, np.float64),
        np.ascontiguousarray(demands.server, np.float64),
        demands.limit * (1 + ROUNDING),
        least_workers,
        workers,
        servers,
    )
