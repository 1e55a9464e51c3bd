"""Decide a snapshot again, by the scheduler that decided it or by another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.cluster.ledger import DoesNotFit
from muster.problems import InputError, Problem
from muster.runtime.snapshots.decided import saved_decision
from muster.runtime.snapshots.file import SavedDecision, SnapshotFile
from muster.runtime.snapshots.restored import RestoredSnapshot
from muster.runtime.snapshots.taken import settings_of_scheduler
from muster.schedulers.contract import HasClocks, Scheduler, Snapshot, State, asked_for_decision
from muster.schedulers.registry import build
from muster.schedulers.user_code import errors_of_policies


@dataclass(frozen=True)
class Replayed:
    """A snapshot's decision, decided again."""

    scheduler: Scheduler
    remembers: bool
    """Whether the scheduler had the memory of the one that decided: it is the same one, with the same settings."""
    decision: SavedDecision


def replay(
    file: SnapshotFile, where: str, scheduler: str | None = None, settings: Mapping[str, str] | None = None
) -> Replayed:
    """The decision of a scheduler (default: the snapshot's own) on a snapshot; `where` names the file.

    Another scheduler, or other settings, begin without a memory. InputError if the file or the name cannot be used.
    """
    own = scheduler is None
    name = file.scheduler.name if scheduler is None else scheduler
    given = {**(file.scheduler.settings if own else {}), **(settings or {})}
    try:
        policy = build(name, given)
    except InputError as error:
        if not own or settings:
            raise
        what = f"it cannot be made of its name here ({error.problems[0]}). Hint: --scheduler FILE.py:CLASS"
        raise InputError(Problem(where, what, column="scheduler.name", found=name)) from None
    restored = RestoredSnapshot(file, where)
    same = policy.name == file.scheduler.name and settings_of_scheduler(policy) == file.scheduler.settings
    snapshot = restored.snapshot()
    with errors_of_policies():
        state = restored.state(policy) if same else _without_memory(policy, snapshot)
        decision, _ = asked_for_decision(policy, snapshot, state)
    saved = saved_decision(decision, snapshot.jobs.index, restored.table, restored.ledger, restored.cluster)
    try:
        restored.ledger.carry_out(decision.changes)
    except DoesNotFit as error:
        what = f"its decision does not fit on the nodes of the snapshot: {error}"
        raise InputError(Problem("--scheduler", what, found=policy.name)) from None
    return Replayed(policy, same, saved)


def _without_memory(policy: Scheduler, snapshot: Snapshot) -> State:
    """The state before a first decision; what a scheduler does by clocks of its own is due."""
    state = policy.initial(snapshot.cluster)
    return policy.due(state, snapshot.now) if isinstance(policy, HasClocks) else state
