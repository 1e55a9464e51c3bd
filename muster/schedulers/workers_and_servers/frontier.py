"""Every size of a job that is worth paying for: faster than all sizes that hold no more (SMD's outer problem)."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.compiling import njit
from muster.schedulers.workers_and_servers.sizes import ROUNDING, Demands, Sizes
from muster.speed.parameter_server import StepTime


def frontier(steps: StepTime, demands: Demands, least_workers: Ints | None = None) -> tuple[Ints, Sizes]:
    """Job by job, every pair that is faster than all pairs with no more workers and no more servers.

    What any accounting of usage could want is among them. Pairs with fewer than `least_workers` are none. Returns
    the job of each pair, ascending, and the pairs.
    """
    least = np.ones(len(demands), np.int64) if least_workers is None else least_workers
    job, workers, servers, seconds = _frontier(
        (
            np.ascontiguousarray(steps.terms),
            steps.per_worker_seconds,
            steps.per_server_seconds,
            steps.asynchronous,
            np.ascontiguousarray(steps.ring_seconds),
        ),
        demands.worker,
        demands.server,
        demands.limit * (1 + ROUNDING),
        least,
    )
    return job, Sizes(workers.astype(np.float64), servers.astype(np.float64), seconds)


@njit(cache=True)
def _frontier(
    step_columns: tuple[Floats, Floats, Floats, Bools, Floats],
    worker: Floats,
    server: Floats,
    limit: Floats,
    least_workers: Ints,
) -> tuple[Ints, Ints, Ints, Floats]:
    """The pairs of `frontier`, worker by worker; times as `StepTime.iteration_seconds` has them."""
    terms, per_worker, per_server, asynchronous, ring_seconds = step_columns
    found = np.empty((1024, 3), np.int64)
    seconds = np.empty(1024)
    count = 0
    for job in range(len(limit)):
        most_servers = _room(limit[job], server[job])
        # The best with fewer workers and no more servers, by servers.
        before = np.full(most_servers + 1, np.inf)
        w = least_workers[job]
        while True:
            room = min(_room(limit[job] - w * worker[job], server[job]), most_servers)
            if room < 1:
                break
            best_here = np.inf
            for p in range(1, room + 1):
                step = -np.inf
                load = w / p
                for term in range(terms.shape[1]):
                    a, b, c = terms[job, term, 0], terms[job, term, 1], terms[job, term, 2]
                    step = max(step, (a / w + b) + c * load)
                if ring_seconds.shape[1] > 0:
                    step += ring_seconds[job, min(w, ring_seconds.shape[1]) - 1]
                step += per_worker[job] * w + per_server[job] * p
                if asynchronous[job]:
                    step /= w
                if step < best_here and step < before[p]:
                    if count == len(found):
                        found = np.concatenate((found, np.empty_like(found)))
                        seconds = np.concatenate((seconds, np.empty_like(seconds)))
                    found[count, 0], found[count, 1], found[count, 2] = job, w, p
                    seconds[count] = step
                    count += 1
                best_here = min(best_here, step)
                before[p] = min(before[p], best_here)
            w += 1
    return found[:count, 0].copy(), found[:count, 1].copy(), found[:count, 2].copy(), seconds[:count].copy()


@njit(cache=True)
def _room(left: Floats, needs: Floats) -> int:
    """How many fit in what is left."""
    count = np.inf
    for resource in range(len(left)):
        if needs[resource] > 0:
            count = min(count, left[resource] / needs[resource])
        elif left[resource] < 0:
            return 0
    return int(count)
