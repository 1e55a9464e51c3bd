"""Why each waiting job waits, and behind which jobs: derived from a decision when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import Bools, Ints
from muster.schedulers.contract import Snapshot
from muster.schedulers.decision import Decision
from muster.schedulers.reasons import BEHIND_HEAD, FITS_NOWHERE, GPU_NOT_PARTED, OVER_LIMIT, PLACED, reason

_ALONE = (FITS_NOWHERE, GPU_NOT_PARTED)
"""Reasons that no other job has to do with."""


@dataclass(frozen=True)
class Pending:
    """One waiting job: the name of the reason, the jobs it waits for, and the reason's numbers."""

    job: int
    reason: str
    blocked_by: tuple[int, ...]
    details: Mapping[str, float]


def pending_jobs(snapshot: Snapshot, decision: Decision) -> Iterator[Pending]:
    """The waiting jobs of a snapshot, by arrival; to be read before the decision is carried out.

    A job is blocked by the jobs that hold something on nodes it may use and that are served before it. If the
    scheduler ranks jobs, those are the ones of a better rank.
    """
    jobs = snapshot.jobs
    holders = np.flatnonzero(decision.reasons == PLACED)
    on_node = _nodes_held(snapshot, decision, holders)
    rank = np.full(len(jobs), -1)
    rank[decision.ranked] = np.arange(len(decision.ranked))
    waits = decision.reasons[decision.ranked] != PLACED
    for at in np.flatnonzero(decision.reasons != PLACED).tolist():
        code = int(decision.reasons[at])
        if code in _ALONE:
            blockers = holders[:0]
        elif code == BEHIND_HEAD and waits.any():
            blockers = decision.ranked[waits][:1]
        elif code == OVER_LIMIT:
            blockers = holders[jobs.tenant[holders] == jobs.tenant[at]]
        else:
            usable = snapshot.table.node_allowed[jobs.constraint[at]]
            near = (on_node & usable).any(axis=1)
            before = rank[holders] < rank[at] if rank[at] >= 0 else np.ones(len(holders), np.bool_)
            blockers = holders[near & before]
        kind = reason(code)
        details = kind.parameters(float(decision.reason_a[at]), float(decision.reason_b[at]))
        numbers = tuple(jobs.index[blockers[blockers != at]].tolist())
        yield Pending(int(jobs.index[at]), kind.name, numbers, details)


def _nodes_held(snapshot: Snapshot, decision: Decision, holders: Ints) -> Bools:
    """Whether each holder has something on each node once the decision is carried out."""
    changes, ledger = decision.changes, snapshot.ledger
    place = {job: at for at, job in enumerate(changes.jobs.tolist())}
    on_node = np.zeros((len(holders), len(ledger.books.nodes)), np.bool_)
    for line, job in enumerate(snapshot.jobs.index[holders].tolist()):
        if (at := place.get(job)) is not None:
            on_node[line, changes.rows["node"][changes.first[at] : changes.first[at + 1]]] = True
        else:
            on_node[line, [share.node for share in ledger.holding(job)]] = True
    return on_node
