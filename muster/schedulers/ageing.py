"""Against starvation: a job that has waited too long since it last ran goes first until it has had a turn.

The promoted jobs are served by how long they wait. While the first of them has no place, no waiting job behind it is
served, and running jobs make room for it where they may be interrupted: so it waits no longer than the bound and
what those before it and the protected jobs take.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.interruption import WORK_PER_INTERRUPTION
from muster.workload.jobs import RUNNING, WAITING, FactArray

LEAST_TURN_SECONDS = 300.0
"""That a promoted job runs before others may go before it again; longer where its interruption costs more."""
LATE = 1e-6
"""Seconds by which the moment of a promotion is asked for too late, so that rounding cannot make it too early."""


def overdue(facts: FactArray, index: Ints, now: float, seconds: float) -> Ints:
    """The waiting jobs that arrived or last ran more than so many seconds ago."""
    late: Ints = index[(facts["state"][index] == WAITING) & (now - facts["last_stop"][index] > seconds)]
    return late


def next_overdue(facts: FactArray, jobs: Ints, now: float, seconds: float) -> float:
    """When the next of these jobs will have waited so long; inf if none that has not already."""
    due = facts["last_stop"][jobs] + seconds + LATE
    return float(due[due > now].min(initial=np.inf))


def turn_ends(facts: FactArray, jobs: Ints) -> Floats:
    """When each of these jobs has had its turn; inf for one that waits."""
    of_jobs = facts[jobs]
    begins = np.maximum(of_jobs["last_start"], of_jobs["resumes"])
    turn = np.maximum(LEAST_TURN_SECONDS, WORK_PER_INTERRUPTION * of_jobs["restart_cost"])
    return np.where(of_jobs["state"] == RUNNING, begins + turn, np.inf)


def promoted_now(facts: FactArray, index: Ints, now: float, before: tuple[int, ...], seconds: float) -> Ints:
    """The jobs that go first now: those that were promoted before and have not had their turn, and the overdue ones.

    `index` are the jobs in the system; the answer ascends.
    """
    kept = np.array(before, np.int64)
    kept = kept[among(kept, np.sort(index))]
    kept = kept[turn_ends(facts, kept) > now]
    return np.union1d(kept, overdue(facts, index, now, seconds))


def among(jobs: Ints, ascending: Ints) -> Bools:
    """Which of the jobs are in a list of jobs that ascends."""
    return places_among(jobs, ascending)[1] if len(ascending) else np.zeros(len(jobs), np.bool_)


def places_among(jobs: Ints, ascending: Ints) -> tuple[Ints, Bools]:
    """Where each of the jobs is in a list of jobs that ascends, which is not empty, and whether it is there."""
    place = np.minimum(np.searchsorted(ascending, jobs), len(ascending) - 1)
    return place, ascending[place] == jobs


def promoted_first(ranked: Ints, promoted: Bools, since: Floats) -> Ints:
    """Ranked positions, the promoted ones before the others; among them whichever has waited longest, first.

    `promoted` and `since`, when each job last lost its GPUs, are by position.
    """
    first = ranked[promoted[ranked]]
    first = first[np.lexsort((first, since[first]))]
    return np.concatenate([first, ranked[~promoted[ranked]]])
