"""The loop of the real world: look at what is, ask the scheduler what should be, carry out the difference.

The ledger holds the plan; `starts` hold what really runs. A job that should go is asked to stop; one that should
begin waits until its seats are empty; so a plan is true at once on the books and soon after on the machines. Every
change is on disk before it is acted upon, and every act may be repeated, so that the daemon may be killed at any
moment: a new one finds its starts again by the engine's word and goes on.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from muster.cluster import books as b
from muster.cluster.ledger import DoesNotFit, Share
from muster.schedulers.contract import Jobs, Plan, Trigger, View
from muster.schedulers.reasons import reason
from muster.service.board import Board
from muster.service.columns import LiveColumns
from muster.service.engines import Engine, Exit, Observed, Seat
from muster.service.memory import from_bytes, to_bytes
from muster.service.starts import (
    Start,
    cache_gb,
    has_room,
    launch_of,
    read_report,
    same_place,
    seats_held,
    seats_of,
    shares_of,
)
from muster.service.store import Store, StoreUnavailable
from muster.service.store.rows import ENDED, Changes, Explained, JobRow, Phase, State, Wish
from muster.training.run_folder import give_notice
from muster.workload.jobs import WAITING
from muster.world import bookkeeping as keep
from muster.world.bookkeeping import EXPLAINED

_TURN_SECONDS = 0.2
"""Between two looks at the machines."""
_SHORTEST_PAUSE = 0.03
"""Between two turns, however many submissions come: they are taken together."""
_REPORT_SECONDS = 1.0
"""Between two looks at what jobs tell; also how often a job tells it."""
_SAVE_SECONDS = 10.0
"""Between two writes of how far running jobs are: their own run folders know it better."""
_RETRY_SECONDS = 1.0
_REST_FACTOR = 3.0
"""Between two decisions at least so many times as long as a decision takes, ..."""
_LONGEST_REST = 5.0
"""... but no longer than this."""
_LONGEST_PAUSE = 60.0
"""Before a job whose processes keep dying is started once more."""

log = structlog.get_logger()


class Conductor:
    """One cluster, one scheduler, one engine."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        board: Board,
        home: Path,
    ) -> None:
        self.rows: dict[int, JobRow] = {}
        self.starts: dict[int, Start] = {}
        self._store = store
        self._engine = engine
        self._scheduler = board.policy
        self._board = board
        self._home = home
        self._columns = LiveColumns(board.cluster, board.models)
        self._planned: dict[int, tuple[Share, ...]] = {}
        self._active: set[int] = set()
        self._newest = 0
        self._drained: set[str] = set()
        self._not_before: dict[int, float] = {}
        self._reported_at = self._saved_at = -inf
        self._pending = Trigger.ARRIVAL
        self._wake_on = Trigger.ALL
        self._next_wake = -inf
        self._decided_at = -inf
        self._stopping = False
        self._memory = store.scheduler_state()
        self._state = self._remembered()

    def run(self) -> None:
        """Until `stop`; the jobs that run go on without it."""
        self.recover()
        self._board.ready = True
        while not self._stopping:
            self.turn()
            time.sleep(_SHORTEST_PAUSE)
            self._board.wait(max(min(_TURN_SECONDS, self._next_wake - self._store.now()), 0.001))

    def stop(self) -> None:
        """Leave the loop after this turn."""
        self._stopping = True
        self._board.wake()

    def turn(self) -> None:
        """Look, decide if it is time to, write down, act."""
        now = self._store.now()
        changes = Changes()
        acts: list[Callable[[], None]] = []
        self._observe(now, changes, acts)
        self._read_reports(now, changes)
        self._admit(now)
        self._heed_wishes(now, changes)
        self._drain(now)
        if self._is_due(now):
            self._decide(now, changes)
            now = self._store.now()
        self._carry_out(now, changes, acts)
        self._write(changes)
        for act in acts:
            self._do(act)
        self._board.looked_at = time.time()

    # What is

    def recover(self) -> None:
        """Find what the daemon before this one left: jobs, starts, seats, the scheduler's memory."""
        now = self._store.now()
        rows = self._store.living()
        held = defaultdict(list)
        for holding in self._store.holdings(open_only=True):
            held[holding.job, holding.epoch].append(holding)
        self._columns.admit(rows)
        for row in rows:
            self._newest = max(self._newest, row.id)
            self.rows[row.id] = row
            if row.state is not State.HELD and row.wish is None:
                self._active.add(row.id)
            if row.phase is Phase.NONE:
                continue
            holdings = held[row.id, row.epoch]
            since = min((holding.since for holding in holdings), default=now)
            since = row.last_start if row.last_start is not None else since
            start = Start(row.id, row.epoch, seats_held(holdings, row), since, row.steps_done)
            self.starts[row.id] = start
            if (
                row.phase is Phase.STOPPING
                or row.wish is not None
                or not self._seat(row.id, start.seats, now)
            ):
                start.notice_at = now
                self._columns.waiting(row.id, now)
        self._decided_at = -inf

    def _seat(self, job: int, seats: Sequence[Seat], now: float) -> bool:
        """Put a running job on the books where it is; False where the cluster has no such place any more."""
        shares = shares_of(seats, self._columns.cluster)
        if not shares:
            return False
        try:
            self._columns.seat(job, shares, now)
        except DoesNotFit:
            return False
        self._planned[job] = self._columns.holding(job)
        self._columns.began(job, now)
        return True

    def _observe(self, now: float, changes: Changes, acts: list[Callable[[], None]]) -> None:
        """What became of the starts; those that the engine has lost sight of are launched again, the same ones."""
        seen = {(one.job, one.epoch): one for one in self._engine.observe()}
        for start in list(self.starts.values()):
            one = seen.pop((start.job, start.epoch), None)
            if one is None:
                acts.append(self._launching(start))
            elif one.ended is not None:
                self._ended(start, one, now, changes)
                acts.append(self._forgetting(one))
            elif self.rows[start.job].phase is Phase.STARTING:
                self._set(changes, start.job, phase=Phase.RUNNING)
        for one in seen.values():  # Left over: its end is on record already, or its job is gone.
            acts.append(self._forgetting(one) if one.ended is not None else self._killing(one))

    def _ended(self, start: Start, one: Observed, now: float, changes: Changes) -> None:
        """Charge what a start had, and see what is to become of its job."""
        row = self.rows[start.job]
        if read_report(row, start, self._home):
            self._heard(start, row, now, changes)
            row = self.rows[start.job]
        until = min(max(one.since - self._store.origin, start.since), now)
        ran = until - start.since
        del self.starts[start.job]
        changes.closed[start.job, start.epoch] = until
        changes.event(start.job, until, one.ended.value if one.ended else "", one.message)
        progressed = row.steps_done > start.steps_before
        fields: dict[str, Any] = {
            "phase": Phase.NONE,
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
            self._not_before[row.id] = now + min(2.0 ** (deaths - 1), _LONGEST_PAUSE)
            if deaths > row.request.max_restarts:
                what = one.message or f"it ended with status {one.status}"
                fields |= {
                    "state": State.FAILED,
                    "message": f"{what}; {deaths} starts in a row ended so without any progress",
                }
        if fields["state"] in ENDED:
            fields |= {"finished": until}
        self._set(changes, row.id, **fields)
        self._carried_out(changes, row)
        self._settle_end(self.rows[row.id], until, now)
        if fields["state"] in ENDED:  # That a job has stopped is no news to whoever stopped it.
            self._pending |= Trigger.COMPLETION

    def _settle_end(self, row: JobRow, until: float, now: float) -> None:
        """What an ended start means for the books."""
        columns = self._columns
        if row.state is State.QUEUED:
            if row.id in self._planned:  # It has a place to start again at.
                columns.planned(row.id, now)
        else:
            columns.leave(row.id, row.state, until)
            self._planned.pop(row.id, None)
            self._active.discard(row.id)
            if row.state in ENDED:
                del self.rows[row.id]
        columns.charged(row.id, row.steps_done, row.attained_gpu_seconds, row.run_seconds, until)

    def _read_reports(self, now: float, changes: Changes) -> None:
        if now - self._reported_at < _REPORT_SECONDS:
            return
        self._reported_at = now
        save = now - self._saved_at >= _SAVE_SECONDS
        if save:
            self._saved_at = now
        for start in self.starts.values():
            if read_report(self.rows[start.job], start, self._home):
                self._heard(start, self.rows[start.job], now, changes if save else None)

    def _heard(self, start: Start, row: JobRow, now: float, changes: Changes | None) -> None:
        """A job has told how far it is."""
        steps = float(start.told.get("step", row.steps_done))
        rate = float(start.told.get("steps_per_second", 0.0))
        if rate <= 0 and steps > start.steps_before and now > start.since:
            rate = (steps - start.steps_before) / (now - start.since)
        if start.lost is None and rate > 0:
            start.lost = max(now - start.since - max(steps - start.steps_before, 0.0) / rate, 0.0)
        fields: dict[str, Any] = {"steps_done": max(steps, row.steps_done), "steps_per_second": rate}
        self.rows[row.id] = replace(row, **fields)
        if changes is not None:
            changes.job(row.id, **fields)
        if start.notice_at is None and row.id in self._planned:
            self._columns.reported(row.id, fields["steps_done"], rate, now)

    # What is wanted

    def _admit(self, now: float) -> None:
        rows = self._store.after(self._newest)
        if not rows:
            return
        self._columns.admit(rows)
        for row in rows:
            self.rows[row.id] = row
            if row.state is State.QUEUED:
                self._active.add(row.id)
                self._columns.facts[row.id]["state"] = WAITING
        self._newest = rows[-1].id
        self._pending |= Trigger.ARRIVAL

    def _heed_wishes(self, now: float, changes: Changes) -> None:
        for asked in self._store.wishes():
            row = self.rows.get(asked.id)
            if row is None or (row.wish is asked.wish and row.id in self.starts):
                continue
            assert asked.wish is not None
            self.rows[row.id] = row = replace(row, wish=asked.wish)
            if asked.wish is Wish.RELEASE:
                self._released(row, now, changes)
                continue
            self._active.discard(row.id)
            self._planned.pop(row.id, None)
            self._columns.leave(row.id, State.HELD, now)
            self._pending |= Trigger.CAPACITY
            if row.id not in self.starts:
                self._let_go(row, now, changes)

    def _released(self, row: JobRow, now: float, changes: Changes) -> None:
        """A held job competes again; one that is still stopping does once it has stopped."""
        state = State.QUEUED if row.state is State.HELD else row.state
        self._set(changes, row.id, state=state)
        self._carried_out(changes, row)
        changes.event(row.id, now, "released")
        self._columns.facts[row.id]["state"] = WAITING
        self._active.add(row.id)
        self._pending |= Trigger.ARRIVAL

    def _let_go(self, row: JobRow, now: float, changes: Changes) -> None:
        """A job of which nothing runs is held or cancelled at once."""
        if row.wish is Wish.HOLD:
            self._set(changes, row.id, state=State.HELD)
            self._carried_out(changes, row)
            changes.event(row.id, now, "held")
            return
        self._set(changes, row.id, state=State.CANCELLED, finished=now, message="cancelled by its owner")
        self._carried_out(changes, row)
        changes.event(row.id, now, "cancelled")
        del self.rows[row.id]

    def _drain(self, now: float) -> None:
        """Nothing new starts on a drained node, and what runs there is moved away."""
        wanted = {node.name for node in self._store.nodes() if node.drained}
        for name in sorted(wanted ^ self._drained):
            node = self._columns.cluster.node_index.get(name)
            if node is None:
                continue
            if name in self._drained:
                b.bring_up(self._columns.ledger.books, node)
            else:
                for job, shares in list(self._planned.items()):
                    if any(share.node == node for share in shares):
                        self._columns.waiting(job, now)
                        del self._planned[job]
                b.take_down(self._columns.ledger.books, node)
            self._pending |= Trigger.CAPACITY
        self._drained = wanted

    # Decisions

    def _is_due(self, now: float) -> bool:
        """A little before its time, so that the next plan is there when the present one's time is over."""
        took = self._board.decision_seconds
        if now < self._decided_at + min(_REST_FACTOR * took, _LONGEST_REST):
            return False
        return bool(self._pending & self._wake_on) or now >= self._next_wake - took

    def _decide(self, now: float, changes: Changes) -> None:
        moment = max(now, self._next_wake) if now >= self._next_wake - self._board.decision_seconds else now
        if moment >= self._next_wake:
            self._pending |= Trigger.TIMER
        index = np.array(sorted(self._active), np.int64)
        table, ledger = self._columns.table, self._columns.ledger
        view = View(moment, self._pending, Jobs(table, index, moment), table, ledger, self._columns.wants)
        began = time.perf_counter()
        try:
            with self._board.thinking:
                plan, self._state = self._scheduler.decide(view, self._state)
            self._check(plan, len(index))
        except Exception as error:
            view.draft().undo()
            self._board.trouble = f"the scheduler failed: {type(error).__name__}: {error}"
            self._decided_at, self._next_wake = now, now + _RETRY_SECONDS
            log.error("decision failed", scheduler=self._scheduler.name, exc_info=True)
            return
        took = time.perf_counter() - began
        self._board.trouble = ""
        self._pending = 0
        self._decided_at = now + took
        self._wake_on, self._next_wake = plan.wake_on, plan.next_wake
        for job, end in plan.lease_ends.items():
            self._columns.facts[job]["lease_end"] = end
            self._next_wake = min(self._next_wake, end)
        self._apply(plan, index, moment, changes)
        self._explain(plan, index, moment, changes)
        memory = to_bytes(self._state, self._scheduler.name)
        if memory != self._memory:
            changes.scheduler_state = self._memory = memory
        self._board.decisions += 1
        self._board.decision_seconds = took
        self._board.decision_seconds_sum += took
        self._board.free = tuple(ledger.free().tolist())

    def _check(self, plan: Plan, jobs: int) -> None:
        """Refuse what no plan may be."""
        if len(plan.reasons) != jobs:
            raise ValueError(f"{len(plan.reasons)} reasons for {jobs} jobs")
        books = self._columns.ledger.books
        broken = int(keep.broken_gang(books, self._columns.asked))
        if broken >= 0:
            raise ValueError(
                f"job {broken} would hold other than the GPUs it asked for; a gang is whole or absent"
            )
        rows = {int(books.heads[int(entry["job"])]) for entry in books.journal[: books.totals[b.ENTRIES]]}
        if any(row >= 0 and books.rows[row]["group"] >= 0 for row in rows):
            raise ValueError("jobs would take turns on a GPU by time slices, which no engine can do yet")

    def _apply(self, plan: Plan, index: Any, now: float, changes: Changes) -> None:
        """Make the draft true on the books, and note what it changes."""
        columns = self._columns
        books = columns.ledger.books
        touched = {int(entry["job"]) for entry in books.journal[: books.totals[b.ENTRIES]]}
        columns.settle_draft(now)
        started = stopped = changed = 0
        for job in sorted(touched):
            old, new = self._planned.get(job, ()), columns.holding(job)
            if old == new:
                continue
            started += not old
            stopped += not new
            changed += bool(old and new)
            if not new:
                del self._planned[job]
                continue
            self._planned[job] = new
            start = self.starts.get(job)
            seats = seats_of(new, columns.cluster, self.rows[job])
            if start is None or start.notice_at is not None or not same_place(seats, start.seats):
                columns.planned(job, now)
        if started or stopped or changed:
            waiting = int(np.count_nonzero(plan.reasons))
            free = dict(zip(_FREE, columns.ledger.free().tolist(), strict=True))
            counts = {"running": len(index) - waiting, "waiting": waiting}
            counts |= {"started": started, "stopped": stopped, "changed": changed}
            changes.decisions.append(
                {"time_seconds": now, **counts, **free, "value": plan.value, "bound": plan.bound}
            )

    def _explain(self, plan: Plan, index: Any, now: float, changes: Changes) -> None:
        """Note the reasons that are new."""
        before = self._columns.facts["reason"][index]
        ended = np.zeros(len(index), EXPLAINED)
        count = keep.note_reasons(
            self._columns.facts, index, plan.reasons, plan.reason_a, plan.reason_b, now, ended
        )
        for line in ended[:count]:
            kind = reason(int(line["code"]))
            parameters = kind.parameters(float(line["a"]), float(line["b"]))
            since, until = float(line["from"]), float(line["to"])
            changes.explained.append(Explained(int(line["job"]), kind.name, parameters, since, until))
        for at in np.flatnonzero(before != plan.reasons).tolist():
            kind = reason(int(plan.reasons[at]))
            parameters = kind.parameters(float(plan.reason_a[at]), float(plan.reason_b[at]))
            self._set(
                changes, int(index[at]), reason=kind.name, reason_parameters=parameters, reason_since=now
            )

    # What is done

    def _carry_out(self, now: float, changes: Changes, acts: list[Callable[[], None]]) -> None:
        """Stops, then other sizes, smaller ones first, then starts wherever the seats are empty by now."""
        resized: list[tuple[float, Start, tuple[Seat, ...]]] = []
        for start in self.starts.values():
            row = self.rows[start.job]
            shares = self._planned.get(start.job, ())
            wanted = seats_of(shares, self._columns.cluster, row)
            if start.notice_at is None and not (wanted and same_place(wanted, start.seats)):
                self._give_notice(start, row, now, moves=bool(wanted), changes=changes, acts=acts)
            elif start.notice_at is None and wanted != start.seats and self._engine.resizes:
                more = sum(seat.cpus for seat in wanted) - sum(seat.cpus for seat in start.seats)
                resized.append((more, start, wanted))
            if start.notice_at is not None and not start.killed:
                if now >= start.notice_at + row.request.grace_seconds:
                    start.killed = True
                    changes.event(start.job, now, "grace is over")
                    acts.append(self._killing(start))
        for _, start, wanted in sorted(resized, key=lambda one: one[0]):
            others = (other for other in self.starts.values() if other is not start)
            if not has_room(wanted, others, self._columns.cluster):
                continue  # Somebody who has been asked to go still has what it is to get.
            start.seats = wanted
            changes.closed[start.job, start.epoch] = now
            changes.opened += start.holdings(now)
            acts.append(self._resizing(start))
        for job, shares in self._planned.items():
            if job not in self.starts and now >= self._not_before.get(job, -inf):
                seats = seats_of(shares, self._columns.cluster, self.rows[job])
                if has_room(seats, self.starts.values(), self._columns.cluster):
                    self._start(job, seats, now, changes, acts)

    def _give_notice(
        self,
        start: Start,
        row: JobRow,
        now: float,
        *,
        moves: bool,
        changes: Changes,
        acts: list[Callable[[], None]],
    ) -> None:
        start.notice_at = now
        counts = {"moves": row.moves + 1} if moves else {"preemptions": row.preemptions + 1}
        if row.wish is not None:
            counts = {}
        self._set(changes, row.id, phase=Phase.STOPPING, **counts)
        changes.event(row.id, now, "asked to stop")
        acts.append(self._notifying(start, row))

    def _start(
        self,
        job: int,
        seats: tuple[Seat, ...],
        now: float,
        changes: Changes,
        acts: list[Callable[[], None]],
    ) -> None:
        row = self.rows[job]
        start = Start(job, row.epoch + 1, seats, now, row.steps_done)
        self.starts[job] = start
        self._not_before.pop(job, None)
        self._set(
            changes,
            job,
            state=State.RUNNING,
            phase=Phase.STARTING,
            epoch=start.epoch,
            first_start=now if row.first_start is None else row.first_start,
            last_start=now,
        )
        where = ", ".join(f"{seat.node}: {len(seat.gpus)} GPU, {seat.cpus:g} CPU" for seat in seats)
        changes.event(job, now, "started", where)
        changes.opened += start.holdings(now)
        self._columns.began(job, now)
        acts.append(self._launching(start))

    def _launching(self, start: Start) -> Callable[[], None]:
        row = self.rows[start.job]
        return lambda: self._engine.launch(launch_of(row, start, self._home))

    def _notifying(self, start: Start, row: JobRow) -> Callable[[], None]:
        def notify() -> None:
            run_dir = launch_of(row, start, self._home).run_dir
            if run_dir.is_dir():
                give_notice(run_dir, start.epoch, stop=True)
            if not start.joined:
                self._engine.signal(start.job, start.epoch, row.request.stop_signal or "SIGTERM")

        return notify

    def _resizing(self, start: Start) -> Callable[[], None]:
        row, seats = self.rows[start.job], start.seats

        def resize() -> None:
            self._engine.resize(start.job, start.epoch, seats)
            if start.joined:
                run_dir = launch_of(row, start, self._home).run_dir
                give_notice(run_dir, start.epoch, cache_gb=cache_gb(row, seats))

        return resize

    def _killing(self, one: Start | Observed) -> Callable[[], None]:
        return lambda: self._engine.kill(one.job, one.epoch)

    def _forgetting(self, one: Observed) -> Callable[[], None]:
        return lambda: self._engine.forget(one.job, one.epoch)

    def _do(self, act: Callable[[], None]) -> None:
        """An act that fails now is tried again at a later turn: what is and what is planned still differ."""
        try:
            act()
        except OSError as error:
            self._board.trouble = f"this machine refuses: {error.strerror or error}"
            log.error("an act failed", exc_info=True)

    def _set(self, changes: Changes, job: int, **fields: Any) -> None:
        changes.job(job, **fields)
        self.rows[job] = replace(self.rows[job], **fields)

    def _carried_out(self, changes: Changes, row: JobRow) -> None:
        """What was wished of a job has happened; a wish that came meanwhile stays."""
        if row.wish is not None:
            changes.carried_out[row.id] = row.wish
            self.rows[row.id] = replace(self.rows[row.id], wish=None)

    def _write(self, changes: Changes) -> None:
        """Bring it to disk; where the disk is full or the database away, nothing goes on until it is back."""
        while changes:
            try:
                self._store.commit(changes)
            except StoreUnavailable as error:
                self._board.trouble = str(error)
                self._board.looked_at = time.time()
                log.error("the store cannot be written", error=str(error))
                if self._stopping:
                    return
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def _remembered(self) -> Any:
        """The scheduler's memory from the daemon before, if it was the same scheduler's."""
        fresh = self._scheduler.initial(self._columns.cluster)
        if self._memory is None:
            return fresh
        return from_bytes(self._memory, self._scheduler.name, fresh)


_FREE = ("free_gpus", "free_cpus", "free_memory_gb", "free_storage_gb_per_s")
