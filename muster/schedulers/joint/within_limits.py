"""Which jobs may start, and what is left to others, beside running jobs that keep what they hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muster.cluster.ledger_arrays import Bools, Ints
from muster.schedulers.contract import Jobs, Snapshot
from muster.schedulers.gpu_limits import GpuLimits


def within_limits(
    jobs: Jobs, ranked: Ints, limits: Sequence[GpuLimits], stays: Bools
) -> tuple[Ints, Sequence[GpuLimits]]:
    """Return the ranked jobs that may be served where these running ones keep their GPUs, and the limits beside them.

    No job starts in a group that has more than it may have: a filter admits jobs beside the fewest GPUs of others.
    """
    if not limits:
        return ranked, limits
    beside = beside_running(jobs, limits, stays)
    barred = jobs.waiting & np.any([limit.exceeded for limit in beside], axis=0)
    return ranked[~barred[ranked]], beside


def goes_on(snapshot: Snapshot) -> Bools:
    """Return the running jobs that hold something: a filter has stopped those that it excludes."""
    jobs = snapshot.jobs
    held: Bools = snapshot.ledger.books.heads[jobs.index] >= 0
    return jobs.running & held


def beside_running(jobs: Jobs, limits: Sequence[GpuLimits], stays: Bools) -> Sequence[GpuLimits]:
    """Return what is left to others where these running jobs keep their GPUs."""
    at = np.flatnonzero(jobs.running & stays) if limits else np.zeros(0, np.int64)
    return [limit.beside(at, jobs.held_gpus[at]) for limit in limits]
