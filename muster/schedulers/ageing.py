"""Against starvation: a job that has waited too long since it last ran is promoted, and goes first from then on."""

from __future__ import annotations

import numpy as np

from muster.cluster.books import Ints, Rows
from muster.compiling import njit
from muster.workload.jobs import WAITING

_LATE = 1e-6
"""Seconds by which the moment of a promotion is asked for too late, so that rounding cannot make it too early."""


@njit(cache=True)
def overdue(facts: Rows, index: Ints, now: float, seconds: float) -> Ints:
    """The waiting jobs that arrived or last ran more than so many seconds ago."""
    found = np.empty(len(index), np.int64)
    count = 0
    for job in index:
        fact = facts[job]
        if fact["state"] == WAITING and now - fact["last_stop"] > seconds:
            found[count] = job
            count += 1
    return found[:count]


@njit(cache=True)
def next_overdue(facts: Rows, jobs: Ints, now: float, seconds: float) -> float:
    """When the next of these jobs will have waited so long; inf if none that has not already."""
    soonest = np.inf
    for job in jobs:
        due = facts[job]["last_stop"] + seconds + _LATE
        if now < due < soonest:
            soonest = due
    return soonest


@njit(cache=True)
def promoted_first(ranked: Ints, index: Ints, promoted: Ints) -> Ints:
    """Ranked positions, those of promoted jobs before the others; `index` and `promoted` are ascending."""
    first = np.zeros(len(index), np.bool_)
    at = 0
    for job in promoted:
        while at < len(index) and index[at] < job:
            at += 1
        if at < len(index) and index[at] == job:
            first[at] = True
    regrouped = np.empty_like(ranked)
    count = 0
    for whether in (True, False):
        for position in ranked:
            if first[position] == whether:
                regrouped[count] = position
                count += 1
    return regrouped
