"""Which nodes a job should take first: those that jobs with less choice cannot do without are for these."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import NONE, Bools, Ints
from muster.schedulers.allocation.gangs import Gangs


def with_preferred_nodes(gangs: Gangs, at: Ints) -> Gangs:
    """Return the jobs with the nodes that each should take first, beside the jobs at these positions.

    These are its nodes without those of jobs that may use a part of them only.
    """
    if not len(at) or (gangs.constraint[at] == gangs.constraint[at[0]]).all():
        return gangs
    present = np.unique(gangs.constraint[at])
    allowed = gangs.node_allowed[present]
    has = allowed.astype(np.int64)
    outside: Ints = has @ (1 - has).T  # by row: how many of its nodes the other one has not
    parts = (outside == 0) & (outside.T > 0) & (has.sum(axis=1) > 0)[:, None]
    of_others: Bools = (parts.T.astype(np.int64) @ has) > 0
    left = allowed & ~of_others
    some = np.flatnonzero(of_others.any(axis=1) & left.any(axis=1))
    if not len(some):
        return gangs
    row = np.full(len(gangs.node_allowed), NONE)
    row[present[some]] = len(gangs.node_allowed) + np.arange(len(some))
    node_allowed = np.concatenate([gangs.node_allowed, left[some]])
    return gangs._replace(node_allowed=node_allowed, preferred=row[gangs.constraint])
