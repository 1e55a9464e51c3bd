"""What should be: when the scheduler is asked, and its plan on the books."""

from __future__ import annotations

import time
from collections.abc import Iterable
from math import inf
from typing import Any

import numpy as np
import structlog

from muster.cluster import books as b
from muster.schedulers.contract import Ints, Jobs, Plan, Trigger, View
from muster.schedulers.reasons import reason
from muster.service.board import Board
from muster.service.conductor.living import LivingJobs
from muster.service.conductor.memory import from_bytes, to_bytes
from muster.service.conductor.starts import same_place, seats_of
from muster.service.store import Store
from muster.service.store.rows import Explained
from muster.world import bookkeeping as keep
from muster.world.bookkeeping import EXPLAINED

_RETRY_SECONDS = 1.0
_REST_FACTOR = 3.0
"""Between two decisions at least so many times as long as a decision takes, ..."""
_LONGEST_REST = 5.0
"""... but no longer than this."""
_FREE = ("free_gpus", "free_cpus", "free_memory_gb", "free_storage_gb_per_s")

log = structlog.get_logger()


class Decider:
    """Asks the scheduler, and keeps its memory."""

    def __init__(self, jobs: LivingJobs, store: Store, board: Board) -> None:
        self.next_wake = -inf
        """When it wants to be asked whatever happens; seconds of the store's clock."""
        self._jobs, self._board = jobs, board
        self._scheduler = board.policy
        self._wake_on: int = Trigger.ALL
        self._decided_at = -inf
        self._memory = store.scheduler_state()
        self._state = self._remembered()

    def is_due(self, now: float) -> bool:
        """A little before its time, so that the next plan is there when the present one's time is over."""
        took = self._board.decision_seconds
        if 0 <= now - self._decided_at < min(_REST_FACTOR * took, _LONGEST_REST):
            return False
        return bool(self._jobs.pending & self._wake_on) or now >= self.next_wake - took

    def decide(self, now: float) -> None:
        """Ask for a plan, and make it true on the books."""
        moment = max(now, self.next_wake) if now >= self.next_wake - self._board.decision_seconds else now
        if moment >= self.next_wake:
            self._jobs.pending |= Trigger.TIMER
        index = np.array(sorted(self._jobs.active), np.int64)
        table, ledger = self._jobs.columns.table, self._jobs.columns.ledger
        view = View(
            moment, self._jobs.pending, Jobs(table, index, moment), table, ledger, self._jobs.columns.wants
        )
        began = time.perf_counter()
        not_begun = [job for job in self._jobs.planned if not self._runs_as_planned(job)]
        for job in not_begun:
            self._jobs.columns.counts_as_running(job, moment)
        try:
            with self._board.thinking:
                plan, self._state = self._scheduler.decide(view, self._state)
            self._check(plan, len(index))
        except Exception as error:
            view.draft().undo()
            self._not_begun_yet(not_begun, moment)
            self._board.trouble = f"the scheduler failed: {type(error).__name__}: {error}"
            self._decided_at, self.next_wake = now, now + _RETRY_SECONDS
            log.error("decision failed", scheduler=self._scheduler.name, exc_info=True)
            return
        took = time.perf_counter() - began
        for note in plan.notes:
            log.warning("decision", scheduler=self._scheduler.name, note=note)
        self._board.trouble = ""
        self._jobs.pending = 0
        self._decided_at = now + took
        self._wake_on, self.next_wake = plan.wake_on, plan.next_wake
        for job, end in plan.lease_ends.items():
            self._jobs.columns.facts[job]["lease_end"] = end
            self.next_wake = min(self.next_wake, end)
        self._apply(plan, index, moment)
        self._not_begun_yet(not_begun, moment)
        self._explain(plan, index, moment)
        memory = to_bytes(self._state, self._scheduler.name)
        if memory != self._memory:
            self._jobs.changes.scheduler_state = self._memory = memory
        self._board.decisions += 1
        self._board.decision_seconds = took
        self._board.decision_seconds_sum += took
        self._board.free = tuple(ledger.free().tolist())

    def _check(self, plan: Plan, jobs: int) -> None:
        """Refuse what no plan may be."""
        if len(plan.reasons) != jobs:
            raise ValueError(f"{len(plan.reasons)} reasons for {jobs} jobs")
        books = self._jobs.columns.ledger.books
        broken = int(keep.broken_gang(books, self._jobs.columns.asked))
        if broken >= 0:
            raise ValueError(
                f"job {broken} would hold other than the GPUs it asked for; a gang is whole or absent"
            )
        rows = {int(books.heads[int(entry["job"])]) for entry in books.journal[: books.totals[b.ENTRIES]]}
        if any(row >= 0 and books.rows[row]["group"] >= 0 for row in rows):
            raise ValueError("jobs would take turns on a GPU by time slices, which no engine can do yet")

    def _apply(self, plan: Plan, index: Ints, now: float) -> None:
        """Make the draft true on the books, and note what it self._jobs.changes."""
        columns = self._jobs.columns
        books = columns.ledger.books
        touched = {int(entry["job"]) for entry in books.journal[: books.totals[b.ENTRIES]]}
        columns.settle_draft(now)
        started = stopped = changed = 0
        for job in sorted(touched):
            old = self._jobs.planned.get(job, ())
            new = seats_of(columns.holding(job), columns.cluster, self._jobs.rows[job])
            if old == new:
                continue
            started += not old
            stopped += not new
            changed += bool(old and new)
            if not new:
                del self._jobs.planned[job]
                continue
            self._jobs.planned[job] = new
            if not self._runs_as_planned(job):
                columns.planned(job, now)
        if started or stopped or changed:
            waiting = int(np.count_nonzero(plan.reasons))
            free = dict(zip(_FREE, columns.ledger.free().tolist(), strict=True))
            counts = {"running": len(index) - waiting, "waiting": waiting}
            counts |= {"started": started, "stopped": stopped, "changed": changed}
            self._jobs.changes.decisions.append(
                {"time_seconds": now, **counts, **free, "value": plan.value, "bound": plan.bound}
            )

    def _runs_as_planned(self, job: int) -> bool:
        """Whether a start of it is where it is to be, and not on its way out."""
        start = self._jobs.starts.get(job)
        return (
            start is not None and start.notice_at is None and same_place(self._jobs.planned[job], start.seats)
        )

    def _not_begun_yet(self, jobs: Iterable[int], now: float) -> None:
        for job in jobs:
            if job in self._jobs.planned:
                self._jobs.columns.planned(job, now)

    def _explain(self, plan: Plan, index: Ints, now: float) -> None:
        """Note the reasons that are new."""
        before = self._jobs.columns.facts["reason"][index]
        ended = np.zeros(len(index), EXPLAINED)
        count = keep.note_reasons(
            self._jobs.columns.facts, index, plan.reasons, plan.reason_a, plan.reason_b, now, ended
        )
        for line in ended[:count]:
            kind = reason(int(line["code"]))
            parameters = kind.parameters(float(line["a"]), float(line["b"]))
            since, until = float(line["from"]), float(line["to"])
            self._jobs.changes.explained.append(
                Explained(int(line["job"]), kind.name, parameters, since, until)
            )
        for at in np.flatnonzero(before != plan.reasons).tolist():
            kind = reason(int(plan.reasons[at]))
            parameters = kind.parameters(float(plan.reason_a[at]), float(plan.reason_b[at]))
            self._jobs.set(int(index[at]), reason=kind.name, reason_parameters=parameters, reason_since=now)

    def _remembered(self) -> Any:
        """The scheduler's memory from the daemon before, if it was the same scheduler's."""
        fresh = self._scheduler.initial(self._jobs.columns.cluster)
        if self._memory is None:
            return fresh
        return from_bytes(self._memory, self._scheduler.name, fresh)
