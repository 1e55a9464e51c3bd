"""Why a running job of the daemon has what it has: its row and the plan, for `runtime.holding`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from muster.runtime.holding import AllHeld, HoldingJob, what_it_would_gain
from muster.service.daemon_status import DaemonStatus
from muster.service.learned_sizes import LearnedSizes
from muster.service.store.rows import AllocationInterval, JobRow
from muster.speed.gains import network_for


def reasons_of_holding(
    row: JobRow,
    held: Sequence[AllocationInterval],
    status: DaemonStatus,
    listed: Callable[[Collection[int]], str],
    learned: LearnedSizes,
) -> list[str]:
    """Return sentences about the size, the share and the place of a running job.

    `held` is what all jobs hold now; `listed` names jobs as far as the asker may see them; `learned` has the measured
    steps of all jobs.
    """
    everywhere = [(interval.job, interval.allocation) for interval in held]
    holdings = AllHeld(status.cluster, everywhere, listed, status.others)
    model = status.models().get((row.request.model or "").lower())
    job = HoldingJob(
        row.id,
        row.usual_gpus * row.request.gpu_share,
        row.gpu_bounds,
        model,
        "`muster profile` measures it" if row.request.model is None else "no model of that name is known",
        None if model is None else network_for(model, status.cluster),
        _measured_gain(row, sum(len(here.gpu_ids) for here in holdings.of(row.id)), status, learned),
        HoldingJob.one_size_because if row.fixed_gpus is None else "its script cannot change its size",
    )
    return what_it_would_gain(job, holdings)


def _measured_gain(row: JobRow, gpus: int, status: DaemonStatus, learned: LearnedSizes) -> float | None:
    """Return how many times as fast it is with one more GPU, by the sizes that were measured; None: too few."""
    now, then = (
        learned.usual_over(row, size, status.cluster.most_gpus_per_node) for size in (gpus, gpus + 1)
    )
    return None if now is None or then is None else then / now
