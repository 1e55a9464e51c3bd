"""Decides when to ask the scheduler, and writes its decision into the ledger."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from math import inf, isfinite
from typing import Any

import numpy as np
import structlog

from muster.cluster.ledger_arrays import MICRO, WHOLE
from muster.cluster.resources import BUILT_IN_COUNT
from muster.runtime.scheduler_memory import from_bytes, to_bytes
from muster.runtime.snapshots.taken import TakenSnapshot
from muster.schedulers.actions import Action, Start, actions_of
from muster.schedulers.contract import Decision, Ints, Jobs, Snapshot, Trigger
from muster.schedulers.honours import WITHOUT_GPUS, divides_gpus, honoured
from muster.schedulers.pending import Blockers
from muster.schedulers.reasons import FITS_NOWHERE, GPU_NOT_PARTED, ONLY_WITH_GPUS, reason
from muster.service.controller.active_jobs import ActiveJobs
from muster.service.controller.asking import Decided, decided
from muster.service.controller.conditions import Conditions
from muster.service.controller.kept_nodes import KeptNodes
from muster.service.controller.starts import same_place
from muster.service.daemon_status import SCHEDULER, DaemonStatus, Failing, LastDecision
from muster.service.store import Store
from muster.service.store.rows import PendingInterval
from muster.workload.jobs import RUNNING

_REST_FACTOR = 3.0
"""Between two decisions at least so many times as long as a decision takes, ..."""
_LONGEST_REST = 5.0
"""... but no longer than this."""
_LONGEST_LEAD = 5.0
"""Seconds by which a decision may come before its time."""
_SHORTEST_RETRY, _LONGEST_RETRY = 1.0, 60.0
"""Seconds after which a scheduler that failed is asked again: at first, and at last if nothing new happens."""
_BETWEEN_NOTES = 5.0
"""Seconds between two lines of what is in use, where no decision has changed it."""
_NOTHING_DECIDED: Mapping[str, float | None] = {
    "started": 0,
    "stopped": 0,
    "changed": 0,
    "value": None,
    "bound": None,
}
_FREE = ("free_gpus", "free_cpus", "free_memory_gb", "free_storage_gb_per_s")
_FITS_NOWHERE = reason(FITS_NOWHERE).name
_GPU_NOT_PARTED = reason(GPU_NOT_PARTED).name
_ONLY_WITH_GPUS = reason(ONLY_WITH_GPUS).name

log = structlog.get_logger()


class Planner:
    """Asks the scheduler and keeps its state."""

    def __init__(self, jobs: ActiveJobs, store: Store, status: DaemonStatus) -> None:
        self._jobs, self._store, self._status = jobs, store, status
        self._scheduler = status.policy
        self._conditions = Conditions(status, SCHEDULER)
        self._wake_on: int = Trigger.ALL
        # Seconds of the store's clock:
        self._timer = -inf  # when the last plan wants it to be asked, whatever happens
        self._lease_end = inf  # when the first job that runs is to give back what it holds
        self._rests_until = -inf
        self._retries_at = -inf
        self._unheeded = 0
        """Triggers of decisions that failed."""
        self._memory = store.scheduler_state()
        self._state = self._remembered()
        self._begins = True
        """Whether no decision has come yet that the memory is of."""
        self._noted: Mapping[str, float] = {}
        """What the newest line of decisions says of jobs and free resources, and when it was written."""
        self._noted_at = -inf

    def begin_again(self) -> None:
        """The cluster is another one: go on with what the scheduler's state says of it."""
        self._state = self._remembered()
        self._begins = True

    @property
    def next_wake(self) -> float:
        """When it is to be asked if nothing happens before; seconds of the store's clock.

        A little before its time, so that the next plan is there when the present one's time is over.
        """
        if self._status.failing is not None:
            return self._retries_at
        return max(min(self._timer, self._lease_end) - self._lead, self._rests_until)

    @property
    def _lead(self) -> float:
        return min(self._status.decision_seconds, _LONGEST_LEAD)

    def is_due(self, now: float) -> bool:
        """Whether to ask now. Anything new may make a failing scheduler work again."""
        if now >= self.next_wake:
            return True
        wake_on = Trigger.ALL if self._status.failing is not None else self._wake_on
        return now >= self._rests_until and bool(self._jobs.pending & wake_on)

    def decide(self, now: float) -> None:
        """Ask for a decision, and write it into the ledger."""
        soon = [due for due in (self._timer, self._lease_end) if due <= now + self._lead]
        moment = max(now, min(soon, default=now))
        triggers = self._jobs.pending | self._unheeded
        triggers |= Trigger.TIMER if moment >= self._timer else 0
        triggers |= Trigger.LEASE_END if moment >= self._lease_end else 0
        unserved = self._unserved()
        self._leave_out(unserved, now)
        index = np.array(sorted(self._jobs.active - unserved.keys()), np.int64)
        columns = self._jobs.columns
        not_begun = [job for job in self._jobs.columns.plan if not self._runs_as_planned(job)]
        for job in not_begun:
            columns.counts_as_running(job, moment)
        self._jobs.pending = 0
        began = time.perf_counter()
        try:
            snapshot, taken, answer = self._ask(moment, triggers, index)
        except Exception as error:
            self._not_begun_yet(not_begun, moment)
            self._unheeded = triggers
            self._failed(error, time.perf_counter() - began)
            return
        self._unheeded = 0
        self._status.failing = None
        self._conditions.clear()
        self._state, self._begins = answer.state, False
        self._status.last_decision = LastDecision(taken, answer.decision)
        self._wake_on, self._timer = answer.decision.wake_on, answer.decision.next_wake
        self._rests_until = self._store.now() + _rest(answer.seconds)
        self._status.blocked_by = Blockers(snapshot, answer.decision)
        self._apply(answer, moment)
        self._not_begun_yet(not_begun, moment)
        self._lend(answer, index, moment)
        self._explain(answer.decision, index, moment)
        if answer.memory != self._memory:
            self._jobs.changes.scheduler_state = self._memory = answer.memory
        for note in answer.decision.notes:
            log.warning("decision", scheduler=self._scheduler.name, note=note)
        self._status.decisions += 1
        self._status.decision_seconds = answer.seconds
        self._status.decision_seconds_sum += answer.seconds

    def _ask(self, moment: float, triggers: int, index: Ints) -> tuple[Snapshot, TakenSnapshot, Decided]:
        """Return the decision, and what it was made from; ValueError if it is wrong."""
        kept = KeptNodes(self._jobs, index)
        try:
            while True:
                snapshot = self._snapshot(moment, triggers, index)
                taken = TakenSnapshot.of(snapshot, self._memory_now())
                answer = decided(self._scheduler, snapshot, self._state, self._jobs.columns.spec)
                if not kept.refuse(answer.decision.changes):
                    return snapshot, taken, answer
        finally:
            kept.end()

    def _snapshot(self, moment: float, triggers: int, index: Ints) -> Snapshot:
        """What the scheduler sees."""
        columns = self._jobs.columns
        return Snapshot(
            moment,
            triggers,
            Jobs(columns.table, index, moment),
            columns.table,
            columns.ledger,
            columns.resource_profiles,
            columns.forms,
            resize_restarts=not self._status.engine_capabilities.can_resize,
            keeps_amounts=not self._status.engine_capabilities.can_resize,
            size_speeds=columns.learned_sizes or None,
        )

    def _memory_now(self) -> bytes:
        """The scheduler's memory before the next decision."""
        if self._begins or self._memory is None:
            return to_bytes(self._state, self._scheduler.name)
        return self._memory

    def _unserved(self) -> dict[int, str]:
        """Jobs that came while cluster or scheduler were others, with the reason why these have no place for them."""
        active, columns = self._jobs.active, self._jobs.columns
        found = dict.fromkeys(active & columns.misfits, _FITS_NOWHERE)
        if not divides_gpus(self._scheduler):
            shares = (job for job in active - columns.plan.keys() if columns.spec[job]["milli"] < WHOLE)
            found |= dict.fromkeys(shares, _GPU_NOT_PARTED)
        if WITHOUT_GPUS not in honoured(self._scheduler):
            found |= dict.fromkeys((job for job in active if columns.spec[job]["gpus"] == 0), _ONLY_WITH_GPUS)
        return found

    def _leave_out(self, unserved: Mapping[int, str], now: float) -> None:
        """Note why jobs wait of which the scheduler is not asked."""
        for job, why in unserved.items():
            if self._jobs.rows[job].reason != why:
                self._jobs.set(job, reason=why, reason_parameters={}, reason_since=now)

    def _failed(self, error: Exception, took: float) -> None:
        """Keep the last plan and ask again later: 1, 2, 4 .. 60 s after a failure."""
        before, failed = self._status.failing, self._store.now()
        count, since = (1, failed) if before is None else (before.count + 1, before.since)
        words = f"{type(error).__name__}: {error}"
        log.error("decision failed", scheduler=self._scheduler.name, error=words, in_a_row=count)
        self._conditions.set("the scheduler fails: what runs goes on, and nothing new starts", error)
        self._rests_until = failed + max(_SHORTEST_RETRY, _rest(took))
        self._retries_at = failed + min(_SHORTEST_RETRY * 2.0 ** min(count - 1, 10), _LONGEST_RETRY)
        self._status.decision_failures += 1
        self._status.failing = Failing(since, count, words)

    def _apply(self, answer: Decided, now: float) -> None:
        """Carry the decision out in the ledger, and note what it changes."""
        columns, plan = self._jobs.columns, answer.decision
        for action in actions_of(plan, columns.ledger):
            _log_action(action)
        before = {job: columns.plan.get(job, ()) for job in np.sort(plan.changes.jobs).tolist()}
        columns.carry_out(plan.changes, now)
        started = stopped = changed = 0
        for job, old in before.items():
            new = columns.plan.get(job, ())
            if old == new:
                continue
            started += not old
            stopped += not new
            changed += bool(old and new)
            if new and not self._runs_as_planned(job):
                columns.not_begun(job, now)
        if started or stopped or changed:
            counts = {"started": started, "stopped": stopped, "changed": changed}
            self._note(self._use(), now, counts | {"value": plan.value, "bound": plan.bound})

    def note_use(self, now: float) -> None:
        """Note how many jobs run and wait, and what is free, where that has changed without a decision that did it."""
        if now >= self._noted_at + _BETWEEN_NOTES and (use := self._use()) != self._noted:
            self._note(use, now, _NOTHING_DECIDED)

    def _use(self) -> Mapping[str, float]:
        """How many jobs run and wait by the plan, and what no job holds then, on drained nodes too."""
        columns, active = self._jobs.columns, self._jobs.active
        running = len(active & columns.plan.keys())
        unheld = columns.ledger.free() + columns.ledger.books.nodes["unavailable"].sum(axis=0) / MICRO
        free = dict(zip(_FREE, unheld.tolist()[:BUILT_IN_COUNT], strict=True))
        return {"running": running, "waiting": len(active) - running, **free}

    def _note(self, use: Mapping[str, float], now: float, decided: Mapping[str, float | None]) -> None:
        self._noted, self._noted_at = use, now
        self._jobs.changes.decisions.append({"time_seconds": now, **use, **decided})

    def _runs_as_planned(self, job: int) -> bool:
        """Whether a start of it is where it is to be, and not on its way out."""
        start = self._jobs.starts.get(job)
        return (
            start is not None
            and start.notice_at is None
            and same_place(self._jobs.planned(start), start.allocations)
        )

    def _not_begun_yet(self, jobs: Iterable[int], now: float) -> None:
        for job in jobs:
            if job in self._jobs.columns.plan:
                self._jobs.columns.not_begun(job, now)

    def _lend(self, answer: Decided, index: Ints, now: float) -> None:
        """Note the ends of leases, and the next one to come."""
        for job, end in answer.decision.lease_ends.items():
            self._jobs.columns.set_lease_end(job, end)
            self._jobs.set(int(job), lease_end=float(end) if isfinite(end) else None)
        # One that is over and was not renewed is no reason to ask again.
        status = self._jobs.columns.status
        lent = status["lease_end"][index[status["state"][index] == RUNNING]]
        self._lease_end = (
            float(lent[lent > now].min(initial=inf)) if self._wake_on & Trigger.LEASE_END else inf
        )

    def _explain(self, plan: Decision, index: Ints, now: float) -> None:
        """Note the reasons that are new."""
        before = self._jobs.columns.status["reason"][index]
        for line in self._jobs.columns.note_reasons(index, plan, now):
            kind = reason(int(line["code"]))
            parameters = kind.parameters(float(line["a"]), float(line["b"]))
            since, until = float(line["from"]), float(line["to"])
            self._jobs.changes.pending.append(
                PendingInterval(int(line["job"]), kind.name, parameters, since, until)
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


def _log_action(action: Action) -> None:
    """Log a change and its cause; interruptions as information, the rest for debugging."""
    kind = type(action).__name__.lower()
    if isinstance(action, Start):
        log.debug(kind, job=action.job, takes_from=action.takes_from)
    else:
        log.info(kind, job=action.job, makes_room_for=action.makes_room_for)


def _rest(took: float) -> float:
    """Seconds that a decision which took so long is to be left alone."""
    return min(_REST_FACTOR * took, _LONGEST_REST)
