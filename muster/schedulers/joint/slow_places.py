"""Running jobs that nodes of another kind would make faster."""

from __future__ import annotations

import numpy as np

from muster.cluster.held_rows import held_rows
from muster.cluster.ledger_arrays import Bools
from muster.schedulers.allocation.gangs import gangs_of, speed_by_kind
from muster.schedulers.contract import Snapshot

_SLOW = 0.9
"""At most so much of the speed that a job has on another kind of nodes is slow."""


def slow_on_their_nodes(snapshot: Snapshot) -> Bools:
    """Which running jobs are slow on the nodes that they have, beside those of the kind that suits them best."""
    jobs, books = snapshot.jobs, snapshot.ledger.books
    if (snapshot.resource_profiles.kinds["gpus"] > 0).sum() < 2:
        return np.zeros(len(jobs), np.bool_)
    gangs = gangs_of(snapshot)
    (speed, best), now = speed_by_kind(gangs), np.full(len(jobs), np.inf)
    for here, row in held_rows(books, jobs.index):
        kind = gangs.kind_of_node[books.rows["node"][row]]
        now[here] = np.minimum(now[here], speed[here, kind])
    slow: Bools = (now <= _SLOW * best) & (jobs.gpus > 0)
    return slow
