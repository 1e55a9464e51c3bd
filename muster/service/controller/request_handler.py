"""Applies what owners and operators request: new jobs, cancel, hold, release."""

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

    def end_overdue(self, now: float) -> None:
        """Stop jobs whose time limit is over; they do not start again."""
        for start in self._jobs.starts.values():
            row = self._jobs.rows[start.job]
            if row.id in self._jobs.active and row.is_over_time(start.since, now):
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
