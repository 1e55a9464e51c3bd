"""What is: the starts that a daemon before this one left, what becomes of them, and what jobs tell of themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from muster.cluster.ledger import DoesNotFit
from muster.schedulers.contract import Trigger
from muster.service.conductor.living import LivingJobs
from muster.service.conductor.orders import Orders
from muster.service.conductor.starts import Start, read_report, seats_held, seats_of, shares_of
from muster.service.engines import Engine, Exit, Observed, Seat
from muster.service.store import Store
from muster.service.store.rows import ENDED, JobRow, Phase, State, Wish

_REPORT_SECONDS = 1.0
"""Between two looks at what jobs tell; also how often a job tells it."""
_SAVE_SECONDS = 10.0
"""Between two writes of how far running jobs are."""
_LONGEST_PAUSE = 60.0
"""Before a job whose processes keep dying is started once more."""


class Observer:
    """Looks at the machines."""

    def __init__(self, jobs: LivingJobs, store: Store, engine: Engine, orders: Orders, home: Path) -> None:
        self._jobs, self._store, self._engine, self._orders, self._home = jobs, store, engine, orders, home
        self._reported_at = self._saved_at = -inf

    def recover(self) -> None:
        """Find what the daemon before this one left: jobs, starts, seats, the scheduler's memory."""
        now = self._store.now()
        rows = self._store.living()
        held = defaultdict(list)
        for holding in self._store.holdings(open_only=True):
            held[holding.job, holding.epoch].append(holding)
        self._jobs.columns.admit(rows)
        for row in rows:
            self._jobs.newest = max(self._jobs.newest, row.id)
            self._jobs.rows[row.id] = row
            if row.state is not State.HELD and row.wish is None:
                self._jobs.active.add(row.id)
            if row.phase is Phase.NONE:
                continue
            holdings = held[row.id, row.epoch]
            since = min((holding.since for holding in holdings), default=now)
            since = row.last_start if row.last_start is not None else since
            start = Start(row.id, row.epoch, seats_held(holdings, row), since, row.steps_done)
            self._jobs.begin(start)
            if row.phase is Phase.STOPPING or row.wish is not None or not self._seat(row, start.seats, now):
                start.notice_at = now
                self._jobs.columns.waiting(row.id, now)

    def _seat(self, row: JobRow, seats: Sequence[Seat], now: float) -> bool:
        """Put a running job on the books where it is; False where the cluster has no such place any more."""
        shares = shares_of(seats, self._jobs.columns.cluster)
        if not shares:
            return False
        columns = self._jobs.columns
        try:
            columns.seat(row.id, shares, now)
        except DoesNotFit:
            return False
        self._jobs.planned[row.id] = seats_of(columns.holding(row.id), columns.cluster, row)
        columns.began(row.id, now)
        return True

    def observe(self, now: float) -> None:
        """What became of the starts; those that the engine has lost sight of are launched again, the same ones."""
        seen = {(one.job, one.epoch): one for one in self._engine.observe()}
        for start in list(self._jobs.starts.values()):
            one = seen.pop((start.job, start.epoch), None)
            if one is None:
                self._jobs.acts.append(self._orders.launching(start))
            elif one.ended is not None:
                self._ended(start, one, now)
                self._jobs.acts.append(self._orders.forgetting(one))
            elif self._jobs.rows[start.job].phase is Phase.STARTING:
                self._jobs.set(start.job, phase=Phase.RUNNING)
        for one in seen.values():  # Left over: its end is on record already, or its job is gone.
            self._jobs.acts.append(
                self._orders.forgetting(one) if one.ended is not None else self._orders.killing(one)
            )

    def _ended(self, start: Start, one: Observed, now: float) -> None:
        """Charge what a start had, and see what is to become of its job."""
        row = self._jobs.rows[start.job]
        if read_report(row, start, self._home):
            self._heard(start, row, now, save=False)
            row = self._jobs.rows[start.job]
        until = min(max(one.since - self._store.origin, start.since), now)
        ran = until - start.since
        self._jobs.end(start)
        self._jobs.changes.closed[start.job, start.epoch] = until
        self._jobs.changes.event(start.job, until, one.ended.value if one.ended else "", one.message)
        progressed = row.steps_done > start.steps_before
        fields: dict[str, Any] = {
            "phase": Phase.NONE,
            "steps_done": row.steps_done,  # perhaps told a while ago, and not on record yet
            "attained_gpu_seconds": row.attained_gpu_seconds + start.gpus * ran,
            "run_seconds": row.run_seconds + ran,
            "restart_seconds": row.restart_seconds + (ran if start.lost is None else min(start.lost, ran)),
            "last_stop": until,
            "steps_per_second": 0.0,
            "status": one.status,
        }
        asked_to = start.notice_at is not None
        if one.ended is Exit.COMPLETED:
            fields |= {"state": State.COMPLETED, "message": ""}
            if row.steps_done == 0:  # It never told of a step: nobody knows what it lost.
                fields |= {"restart_seconds": 0.0}
        elif row.wish is Wish.CANCEL:
            fields |= {"state": State.CANCELLED, "message": "cancelled by its owner"}
        elif one.ended is Exit.FAILED and not asked_to:
            fields |= {"state": State.FAILED, "message": one.message or f"it ended with status {one.status}"}
        elif row.wish is Wish.HOLD:
            fields |= {"state": State.HELD}
        elif asked_to:
            fields |= {"state": State.QUEUED, "deaths": 0 if progressed else row.deaths}
        else:
            deaths = 1 if progressed else row.deaths + 1
            fields |= {"state": State.QUEUED, "deaths": deaths}
            self._jobs.not_before[row.id] = now + min(2.0 ** (deaths - 1), _LONGEST_PAUSE)
            if deaths > row.request.max_restarts:
                what = one.message or f"it ended with status {one.status}"
                fields |= {
                    "state": State.FAILED,
                    "message": f"{what}; {deaths} starts in a row ended so without any progress",
                }
        if fields["state"] in ENDED:
            fields |= {"finished": until}
        self._jobs.set(row.id, **fields)
        self._jobs.carried_out(row)
        self._settle_end(self._jobs.rows[row.id], until, now)
        if fields["state"] in ENDED:  # That a job has stopped is no news to whoever stopped it.
            self._jobs.pending |= Trigger.COMPLETION

    def _settle_end(self, row: JobRow, until: float, now: float) -> None:
        """What an ended start means for the books."""
        columns = self._jobs.columns
        if row.state is State.QUEUED:
            if row.id in self._jobs.planned:  # It has a place to start again at.
                columns.planned(row.id, now)
        else:
            columns.leave(row.id, row.state, until)
            self._jobs.planned.pop(row.id, None)
            self._jobs.active.discard(row.id)
            if row.state in ENDED:
                del self._jobs.rows[row.id]
        columns.charged(row.id, row.steps_done, row.attained_gpu_seconds, row.run_seconds, until)

    def read_reports(self, now: float) -> None:
        """How far jobs are, once a second; on disk less often, as their own run folders know it better."""
        if 0 <= now - self._reported_at < _REPORT_SECONDS:
            return
        self._reported_at = now
        save = now - self._saved_at >= _SAVE_SECONDS
        if save:
            self._saved_at = now
        for start in self._jobs.starts.values():
            if read_report(self._jobs.rows[start.job], start, self._home):
                self._heard(start, self._jobs.rows[start.job], now, save=save)

    def _heard(self, start: Start, row: JobRow, now: float, *, save: bool) -> None:
        """A job has told how far it is."""
        steps = float(start.told.get("step", row.steps_done))
        rate = float(start.told.get("steps_per_second", 0.0))
        if rate <= 0 and steps > start.steps_before and now > start.since:
            rate = (steps - start.steps_before) / (now - start.since)
        if start.lost is None and rate > 0:
            start.lost = max(now - start.since - max(steps - start.steps_before, 0.0) / rate, 0.0)
        fields: dict[str, Any] = {"steps_done": max(steps, row.steps_done), "steps_per_second": rate}
        self._jobs.rows[row.id] = replace(row, **fields)
        if save:
            self._jobs.changes.job(row.id, **fields)
        if start.notice_at is None and row.id in self._jobs.planned:
            self._jobs.columns.reported(row.id, fields["steps_done"], rate, now)
