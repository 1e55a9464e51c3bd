"""Applies what owners and operators request: new jobs, cancel, hold, release, another priority."""

from __future__ import annotations

from dataclasses import replace

from muster.schedulers.contract import Trigger
from muster.service.controller.active_jobs import ActiveJobs
from muster.service.store import Store
from muster.service.store.rows import JobRow, State, StateRequest


class RequestHandler:
    """Reads requests from the store."""

    def __init__(self, jobs: ActiveJobs, store: Store) -> None:
        self._jobs, self._store = jobs, store
        self._read_until = store.newest_event()
        """Up to where the histories have been searched for new priorities; what a recovered job asks for is newer."""

    def admit(self) -> None:
        """Take jobs that were submitted since the last turn."""
        rows = self._store.after(self._jobs.newest)
        if not rows:
            return
        self._jobs.columns.admit(rows)
        for row in rows:
            self._jobs.rows[row.id] = row
            if row.state is State.QUEUED:
                self._jobs.active.add(row.id)
        self._jobs.newest = rows[-1].id
        self._jobs.pending |= Trigger.ARRIVAL

    def apply_requests(self, now: float) -> None:
        """Cancel, hold and release."""
        for asked in self._store.state_requests():
            row = self._jobs.rows.get(asked.id)
            if row is None or (row.state_request is asked.state_request and row.id in self._jobs.starts):
                continue
            assert asked.state_request is not None
            self._jobs.rows[row.id] = row = replace(row, state_request=asked.state_request)
            if asked.state_request is StateRequest.RELEASE:
                self._released(row, now)
                continue
            self._jobs.active.discard(row.id)
            self._jobs.columns.leave(row.id, State.HELD, now)
            self._jobs.pending |= Trigger.CAPACITY
            if row.id not in self._jobs.starts:
                self._let_go(row, now)

    def apply_priorities(self) -> None:
        """Take priorities that were changed since the last turn."""
        newest = self._store.newest_event()
        if newest == self._read_until:
            return
        for found in self._store.with_new_priority(self._read_until, newest):
            row = self._jobs.rows.get(found.id)
            if row is not None and row.request.priority != found.request.priority:
                self._jobs.rows[row.id] = row = replace(row, request=found.request)
                self._jobs.columns.reprioritize(row)
                self._jobs.pending |= Trigger.ARRIVAL
        self._read_until = newest

    def end_overdue(self, now: float) -> None:
        """Stop jobs whose time limit is over; they do not start again."""
        for start in self._jobs.starts.values():
            row = self._jobs.rows[start.job]
            if row.id in self._jobs.active and row.is_over_time(start.ran(now)):
                self._jobs.active.discard(row.id)
                self._jobs.columns.leave(row.id, State.HELD, now)
                self._jobs.pending |= Trigger.CAPACITY
                self._jobs.changes.event(row.id, now, "time limit is over")

    def _released(self, row: JobRow, now: float) -> None:
        """A held job competes again; one that is still stopping does once it has stopped."""
        state = State.QUEUED if row.state is State.HELD else row.state
        self._jobs.set(row.id, state=state)
        self._jobs.carried_out(row)
        self._jobs.changes.event(row.id, now, "released")
        self._jobs.columns.release(row.id)
        self._jobs.active.add(row.id)
        self._jobs.pending |= Trigger.ARRIVAL

    def _let_go(self, row: JobRow, now: float) -> None:
        """Hold or cancel a job of which nothing runs."""
        if row.state_request is StateRequest.HOLD:
            self._jobs.set(row.id, state=State.HELD)
            self._jobs.carried_out(row)
            self._jobs.changes.event(row.id, now, "held")
            return
        self._jobs.set(row.id, state=State.CANCELLED, finished=now, message="cancelled as asked")
        self._jobs.carried_out(row)
        self._jobs.changes.event(row.id, now, "cancelled")
        del self._jobs.rows[row.id]
