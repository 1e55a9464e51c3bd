"""How many GPUs jobs have together where they may be on some nodes only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muster.cluster.ledger_arrays import NONE
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.gpu_limits import GpuLimits


def limits_of_nodes(given: AllocationInput) -> Iterator[GpuLimits]:
    """Yield a limit for each set of nodes to which an elastic job is bound: what is left there, for all such jobs.

    A job that is bound to a part of those nodes counts too.
    """
    jobs, gangs, left = given.snapshot.jobs, given.gangs, np.maximum(given.opened.free[:, 0], 0)
    at = given.ranked[given.opened.movable[given.ranked]]
    present = np.unique(gangs.constraint[at])
    with_gpus = given.snapshot.ledger.books.nodes["gpus"] > 0
    allowed = gangs.node_allowed[:, with_gpus]
    for constraint in np.unique(gangs.constraint[at[jobs.elastic[at]]]).tolist():
        here = allowed[constraint]
        if here.all():
            continue
        inside = np.zeros(len(allowed), np.bool_)
        inside[present] = (here | ~allowed[present]).all(axis=1)
        group = np.where(inside[gangs.constraint], 0, NONE)
        yield GpuLimits(group, np.zeros(len(jobs)), np.array([float(left[with_gpus][here].sum())]))
