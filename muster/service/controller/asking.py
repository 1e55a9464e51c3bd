"""Asks the scheduler for a decision and checks it: a wrong decision is an exception."""

from __future__ import annotations

import time
from dataclasses import dataclass

from muster.cluster.ledger import Changes
from muster.runtime import lifecycle as keep
from muster.runtime.checked_decisions import check_decision
from muster.runtime.scheduler_memory import to_bytes
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State, asked_for_decision
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
    check_decision(decision, snapshot)
    _check_changes(decision.changes, asked)
    return Decided(decision, after, to_bytes(after, scheduler.name), time.perf_counter() - began)


def _check_changes(changes: Changes, asked: AskedArray) -> None:
    """Check what jobs would hold after a decision."""
    broken = int(keep.broken_gang(asked, *changes))
    if broken >= 0:
        raise ValueError(
            f"job {broken} would hold other than the GPUs it asked for; a gang is whole or absent"
        )
    if (changes.rows["group"] >= 0).any():
        raise ValueError("jobs would take turns on a GPU by time slices, which no engine can do yet")
