"""Asks the scheduler for a decision and checks it: a wrong decision is an exception."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger import Changes
from muster.formatting import counted
from muster.runtime import lifecycle as keep
from muster.runtime.scheduler_memory import to_bytes
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State, asked_for_decision
from muster.schedulers.reasons import reason
from muster.workload.jobs import AskedArray


@dataclass(frozen=True)
class Decided:
    """A decision that was checked."""

    decision: Decision
    state: State
    memory: bytes
    """The state, for the store."""
    seconds: float
    """It took."""


def decided(scheduler: Scheduler, snapshot: Snapshot, state: State, asked: AskedArray) -> Decided:
    """Return the scheduler's decision; ValueError if it is wrong. Nothing has changed yet."""
    began = time.perf_counter()
    decision, after = asked_for_decision(scheduler, snapshot, state)
    _check_answer(decision, snapshot)
    _check_changes(decision.changes, snapshot, asked)
    return Decided(decision, after, to_bytes(after, scheduler.name), time.perf_counter() - began)


def _check_answer(plan: Decision, snapshot: Snapshot) -> None:
    """Check all of a decision except its changes."""
    count = len(snapshot.jobs)
    kinds = {"reasons": np.integer, "reason_a": np.floating, "reason_b": np.floating}
    for name, kind in kinds.items():
        column = np.asarray(getattr(plan, name))
        if column.shape != (count,) or not np.issubdtype(column.dtype, kind):
            said = f"{column.dtype} of shape {column.shape}"
            raise ValueError(
                f"{name}: allowed: {kind.__name__} numbers, one for each of {counted(count, 'job')}, not {said}"
            )
    for code in np.unique(plan.reasons).tolist():
        if code < 0:
            raise ValueError(f"there is no reason {code}")
        reason(code)
    strangers = plan.lease_ends.keys() - set(snapshot.jobs.index.tolist() if plan.lease_ends else ())
    if strangers:
        raise ValueError(f"a lease for jobs that it was not asked about: {sorted(strangers)}")
    moments = [plan.next_wake, *plan.lease_ends.values()]
    if any(math.isnan(moment) for moment in moments):
        raise ValueError("next_wake and the ends of leases have to be numbers")
    if not all(
        isinstance(figure, int | float | np.number) for figure in (plan.value, plan.bound, plan.wake_on)
    ):
        raise ValueError("value, bound and wake_on have to be numbers")
    if not all(isinstance(note, str) for note in plan.notes):
        raise ValueError("notes have to be sentences")


def _check_changes(changes: Changes, snapshot: Snapshot, asked: AskedArray) -> None:
    """Check what jobs would hold after a decision."""
    strangers = np.setdiff1d(changes.jobs, snapshot.jobs.index)
    if len(strangers):
        raise ValueError(f"it changes jobs that it was not asked about: {strangers.tolist()}")
    broken = int(keep.broken_gang(asked, *changes))
    if broken >= 0:
        raise ValueError(
            f"job {broken} would hold other than the GPUs it asked for; a gang is whole or absent"
        )
    if (changes.rows["group"] >= 0).any():
        raise ValueError("jobs would take turns on a GPU by time slices, which no engine can do yet")
