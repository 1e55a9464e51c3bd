"""Migration: running jobs move to places on which the network costs them less, where that repays the interruption.

All of them are placed again beside the jobs that may not be interrupted, as `least-loss` does it; either all moves that
follow are made, or none. A job that moves keeps the
number of its GPUs and its lease.
"""

from __future__ import annotations

from math import inf

import numpy as np

from muster.cluster.ledger_arrays import WHOLE
from muster.schedulers.contract import Ints, Snapshot
from muster.schedulers.interruption import HORIZON_SECONDS
from muster.schedulers.placement.job_columns import ReasonColumns, job_columns
from muster.schedulers.placement.network_aware import (
    PlacementLimits,
    RankedGangs,
    Shapes,
    arrange,
    most_sensitive_first,
)
from muster.speed.network.forms import PlacementShapes

_ANY_PLACE = PlacementLimits(enough=0.0, least=0.0, horizon_seconds=HORIZON_SECONDS)


def migrate(snapshot: Snapshot, positions: Ints, needs: Ints) -> tuple[bool, float]:
    """Move some of the running jobs at these positions; whether any moves, and when the next of them may be moved.

    `needs[position or 0]` is what each job holds beside each of its GPUs; the first option counts.
    """
    jobs = snapshot.jobs
    movable = positions[(jobs.gpu_milli[positions] == WHOLE) & (jobs.gpus[positions] > 0)]
    line, forms = (snapshot.forms or PlacementShapes(None, snapshot.cluster)).of(jobs.model, jobs.gpus)
    order = most_sensitive_first(movable, forms.share_anywhere[line], jobs.gpus)
    # As for least-loss: a job may be tried on several places before it is put back.
    books = snapshot.ledger.reserve(4 * snapshot.cluster.total_gpus + len(jobs), 8 * len(jobs))
    before = books.heads[jobs.index[movable]]
    everyone = np.ones(len(jobs), np.bool_)
    unread = ReasonColumns(np.zeros(len(jobs), np.int64), np.zeros(len(jobs)), np.zeros(len(jobs)))
    arrange(
        books,
        job_columns(snapshot),
        RankedGangs(order, order, everyone, jobs.pinned, jobs.interruption_cost),
        Shapes(line, forms.kinds, forms.speeds, needs),
        _ANY_PLACE,
        unread,
    )
    until = jobs.protected_until[movable]
    next_movable = float(until[until > snapshot.now].min(initial=inf))
    return bool((books.heads[jobs.index[movable]] != before).any()), next_movable
