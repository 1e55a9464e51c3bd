"""Why each waiting job waits, and behind which jobs: derived from a decision when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from muster.cluster.held_rows import held_rows
from muster.cluster.ledger_arrays import Bools, Ints
from muster.schedulers.contract import Snapshot
from muster.schedulers.decision import Decision
from muster.schedulers.reasons import (
    BEHIND_HEAD,
    FITS_NOWHERE,
    GPU_NOT_PARTED,
    ONLY_WITH_GPUS,
    OVER_LIMIT,
    PLACED,
    reason,
)

_ALONE = (FITS_NOWHERE, GPU_NOT_PARTED, ONLY_WITH_GPUS)
"""Reasons that no other job has to do with."""


@dataclass(frozen=True)
class Pending:
    """One waiting job: the name of the reason, the jobs it waits for, and the reason's numbers."""

    job: int
    reason: str
    blocked_by: tuple[int, ...]
    details: Mapping[str, float]


class Blockers(Mapping[int, tuple[int, ...]]):
    """Of each waiting job the jobs that it waits for; to be made before the decision is carried out.

    A job is blocked by the jobs that hold something on nodes it may use and that are served before it. If the
    scheduler ranks jobs, those are the ones of a better rank. They are found when they are asked for: thousands of jobs
    may wait for thousands each.
    """

    def __init__(self, snapshot: Snapshot, decision: Decision) -> None:
        jobs = snapshot.jobs
        self._index, self._reasons = jobs.index, decision.reasons
        self._constraint, self._tenant = jobs.constraint, jobs.tenant
        self._node_allowed = snapshot.table.node_allowed
        self._holders: Ints = np.flatnonzero(decision.reasons == PLACED)
        self._of_holder, self._node = _nodes_held(snapshot, decision, jobs.index[self._holders])
        self._rank = np.full(len(jobs), -1)
        self._rank[decision.ranked] = np.arange(len(decision.ranked))
        self._head: Ints = decision.ranked[decision.reasons[decision.ranked] != PLACED][:1]
        self._waiting = np.flatnonzero(decision.reasons != PLACED)
        self._place = dict(zip(jobs.index[self._waiting].tolist(), self._waiting.tolist(), strict=True))

    def __getitem__(self, job: int) -> tuple[int, ...]:
        at = self._place[job]
        found = self._before(at)
        return tuple(self._index[found[found != at]].tolist())

    def __iter__(self) -> Iterator[int]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)

    def _before(self, at: int) -> Ints:
        code = int(self._reasons[at])
        if code == BEHIND_HEAD and self._head.size:
            return self._head
        found: Ints = self._holders[self._is_before(at, code)]
        return found

    def _is_before(self, at: int, code: int) -> Bools:
        holders = self._holders
        found: Bools = np.zeros(len(holders), np.bool_)
        if code in _ALONE:
            return found
        if code == OVER_LIMIT:
            found |= self._tenant[holders] == self._tenant[at]
            return found
        found[self._of_holder[self._node_allowed[self._constraint[at]][self._node]]] = True
        return found & (self._rank[holders] < self._rank[at]) if self._rank[at] >= 0 else found


def pending_jobs(snapshot: Snapshot, decision: Decision) -> Iterator[Pending]:
    """The waiting jobs of a snapshot, by arrival; to be read before the decision is carried out."""
    blockers = Blockers(snapshot, decision)
    waiting = np.flatnonzero(decision.reasons != PLACED)
    for at, job in zip(waiting.tolist(), snapshot.jobs.index[waiting].tolist(), strict=True):
        kind = reason(int(decision.reasons[at]))
        details = kind.parameters(float(decision.reason_a[at]), float(decision.reason_b[at]))
        yield Pending(job, kind.name, blockers[job], details)


def _nodes_held(snapshot: Snapshot, decision: Decision, holders: Ints) -> tuple[Ints, Ints]:
    """What holders have once the decision is carried out: the place of a holder, and a node of it, again and again."""
    changes, books = decision.changes, snapshot.ledger.books
    lines = np.full(len(books.heads), -1)
    lines[holders] = np.arange(len(holders))
    changed = lines[changes.jobs]
    counts = np.diff(changes.first)
    places, nodes = [np.repeat(changed, counts)], [changes.rows["node"][changes.first[0] : changes.first[-1]]]
    kept = holders[~np.isin(holders, changes.jobs)]
    for here, row in held_rows(books, kept):
        places.append(lines[kept[here]])
        nodes.append(books.rows["node"][row])
    place: Ints = np.concatenate(places)
    node: Ints = np.concatenate(nodes)
    return place[place >= 0], node[place >= 0]
