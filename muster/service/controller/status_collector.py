"""Collects what runs: the starts that an earlier daemon left, what becomes of them, and what jobs report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from muster.cluster.ledger import DoesNotFit, NodeAllocation
from muster.formatting import counted, gpus
from muster.schedulers.contract import Trigger
from muster.service.controller.active_jobs import ActiveJobs
from muster.service.controller.engine_commands import EngineCommands
from muster.service.controller.exit_status import outcome, pause_seconds
from muster.service.controller.interruptions import lost_seconds, measured_stop
from muster.service.controller.starts import JobStart, on_ids_of, report_request_of
from muster.service.engines import EngineView, Exit, Observed, Report, ReportRequest
from muster.service.engines.report_watch import Heard, StartKey
from muster.service.learned_sizes import REMEMBERED, with_size
from muster.service.store import Store
from muster.service.store.rows import ENDED, JobRow, Phase, SizeSteps, State

_REPORT_SECONDS = 1.0
"""Between two reads of all reports; also how often a job reports."""
_WORDS = 500
"""Characters of what is wrong with a report that are kept."""
_SAVE_SECONDS = 10.0
"""Between two writes of how far running jobs are."""

_NOTED_APART = 0.01
"""Of the time since a job's first start: what lies between two reports that are kept, at the least."""

_LOOKS_APART = 5.0
"""Seconds between two looks at a job's reports within which its first step is seen soon enough to measure it."""
_PENDING_SECONDS = 2.0
"""For which a start may be pending before the engine's reason is shown to its owner."""
_REPORTED = ("steps_done", "steps_per_second", "size_steps")
"""What running jobs report, and the disk knows later."""


class StatusCollector:
    """Takes what the engine has found, and what jobs report through it."""

    def __init__(self, jobs: ActiveJobs, store: Store, commands: EngineCommands, home: Path) -> None:
        self._jobs, self._store, self._commands, self._home = jobs, store, commands, home
        self._pending_limit = jobs.pending_limit
        self._reported_at = self._saved_at = -inf
        self._requests: dict[StartKey, ReportRequest] = {}
        self._heard: dict[StartKey, tuple[float, Heard]] = {}
        """When reports were read, and what was found; those not taken yet."""
        self._unsaved: set[int] = set()
        """Jobs of which the disk does not know how far they are."""
        self._given_back: set[int] = set()
        """Jobs that were moved because what others had given them had no place; it is not asked of them again."""
        self._losses: dict[int, int] = {}
        """Ends in a row that were the machine's doing, by job."""

    def recover(self) -> None:
        """Find what an earlier daemon left: jobs, starts, allocations, the scheduler's memory."""
        now = self._store.now()
        self._jobs.newest = self._store.newest()
        rows = self._store.living()
        held = defaultdict(list)
        for interval in self._store.held_now():
            held[interval.job, interval.epoch].append(interval)
        self._jobs.columns.restart_costs.learn(self._store.restart_costs(REMEMBERED))
        for row in self._store.with_size_steps(REMEMBERED):
            self._jobs.columns.learned_sizes.learn(row)
        self._jobs.columns.admit(rows)
        for row in rows:
            self._jobs.newest = max(self._jobs.newest, row.id)
            # Its request is applied in the first turn, as if it came now.
            self._jobs.rows[row.id] = replace(row, state_request=None)
            if row.state is not State.HELD:
                self._jobs.active.add(row.id)
            if row.phase is Phase.NONE:
                continue
            intervals = held[row.id, row.epoch]
            since = min((interval.since for interval in intervals), default=now)
            since = row.last_start if row.last_start is not None else since
            allocations = tuple(interval.allocation for interval in intervals)
            start = JobStart(row.id, row.epoch, allocations, since, row.steps_before, row.output_read)
            start.first_step = row.first_step
            start.launched = row.phase is not Phase.STARTING
            self._jobs.starts.add(start)
            asked = report_request_of(row, start, self._home, begins=False)
            self._requests[start.job, start.epoch] = asked
            if row.phase is Phase.STOPPING:
                start.notice_at = min(since, now)  # It began later where the clock was set back since.
        self.place_starts(now)

    def place_starts(self, now: float) -> None:
        """Put what runs into a new ledger; what has no place there is asked to stop."""
        for start in self._jobs.starts.values():
            row = self._jobs.rows[start.job]
            if start.notice_at is not None or not self._place(row, start, now):
                self._jobs.columns.waiting(row.id, now)

    def _place(self, row: JobRow, start: JobStart, now: float) -> bool:
        """Put a running job into the ledger where it is; False if the cluster has no such place any more."""
        columns = self._jobs.columns
        if not start.allocations or row.id in columns.misfits:
            return False
        try:
            columns.place(row.id, start.allocations, now)
        except DoesNotFit:
            return False
        columns.began(row, start.since)
        # To a scheduler that leases, the lease of one that an other scheduler has placed is over.
        columns.set_lease_end(row.id, now if row.lease_end is None else row.lease_end)
        return True

    def observe(self, view: EngineView, polled: float, now: float) -> None:
        """Take what the engine knew of all starts when it was polled."""
        seen = {(one.job, one.epoch): one for one in view.starts}
        for start in list(self._jobs.starts.values()):
            one = seen.pop((start.job, start.epoch), None)
            if one is None:
                self._not_there(start, now)
                continue
            start.launched = True
            if one.ended is not None:
                self._ended(start, one, self._store.at(one.since), now)
                self._jobs.commands += self._commands.forgetting(one)
                continue
            start.seen = polled
            if one.allocations is not None:
                self._holds_really(start, one.allocations, now)
            self._pends(start, one, now)
            self._engine_knows(start, one)
            if self._jobs.rows[start.job].phase is Phase.STARTING and not one.pending:
                self._jobs.set(start.job, phase=Phase.RUNNING)
        for one in seen.values():  # Left over: its end is on record already, or its job is gone.
            over = one.ended is not None
            self._jobs.commands += self._commands.forgetting(one) if over else self._commands.killing(one)
        for one in view.ended_alone:
            self._ended_alone(one, now)

    def _holds_really(self, start: JobStart, reported: Iterable[NodeAllocation[str]], now: float) -> None:
        """Put on record what a start has: the GPUs that the engine has chosen, and what others have changed there."""
        by_node = {here.node: here for here in reported}
        given = start.allocations
        real = tuple(_as_reported(here, by_node.get(here.node, here)) for here in given)
        if start.job in self._given_back:
            real = on_ids_of(real, given)
        if real == given or any(len(a.gpu_ids) != len(b.gpu_ids) for a, b in zip(real, given, strict=True)):
            return
        if start.applied == given:
            start.applied = real
        if start.notice_sent is not None and start.notice_sent[1] == given:
            start.notice_sent = start.notice_sent[0], real
        self._jobs.starts.resize(start, real)
        self._jobs.changes.really_held[start.job, start.epoch] = real
        if on_ids_of(real, given) != real:
            self._has_other_amounts(start, now)

    def _has_other_amounts(self, start: JobStart, now: float) -> None:
        """Plan with what others have given a start; where that has no place, it is moved to what was planned, once."""
        has = "; ".join(
            f"{here.node}: {here.cpus:g} CPU, {here.memory_gb:.3g} GB" for here in start.allocations
        )
        self._jobs.changes.event(start.job, now, "has other amounts", f"{has}, not by Muster")
        planned = self._jobs.columns.plan.get(start.job)
        if planned is not None and start.notice_at is None:
            try:
                self._jobs.columns.place(start.job, on_ids_of(planned, start.allocations), now)
            except DoesNotFit:
                self._given_back.add(start.job)
        self._jobs.pending |= Trigger.CAPACITY

    def _pends(self, start: JobStart, one: Observed, now: float) -> None:
        """Take a start back whose engine does not give it what the plan has found free.

        At once where two polls have found that taken: each job that waits there keeps the plan from using the place.
        """
        is_hopeless = start.place_taken and one.place_taken
        start.place_taken = one.place_taken
        if not one.pending:
            start.pending_since = None
            self._jobs.accepted(start)
            return
        if start.pending_since is None:
            start.pending_since = now
        if start.taken_back or start.notice_at is not None:
            return
        waited = now - start.pending_since
        if is_hopeless or waited >= min(_PENDING_SECONDS, self._pending_limit):
            self._jobs.refused(start, one.pending, now, again=not start.pending_noted)
            start.pending_noted = True
        if is_hopeless or waited >= self._pending_limit:
            self._jobs.take_back(start, f"pending for {waited:.1f} s: {one.pending}", now)

    def _not_there(self, start: JobStart, now: float) -> None:
        """The engine does not know a start: not yet launched, stopped before its launch, or lost.

        Something of the latter may still run, so it is over: the next start of its job makes it stale.
        """
        end, words = Exit.LOST, "the engine has lost sight of it"
        if not start.launched:
            if self._commands.is_launching(start):
                return
            if start.notice_at is None:
                start.not_begun_by = now  # Perhaps the daemon before died before it could launch it.
                return
            end, words = Exit.STOPPED, "stopped before it began"
        self._ended(start, Observed(start.job, start.epoch, end, 0.0, None, words), start.seen, now)

    def _ended(self, start: JobStart, one: Observed, at: float, now: float) -> None:
        """Charge what a start held until then, and decide what becomes of its job."""
        self._engine_knows(start, one)
        self._take_report(start)
        row = self._jobs.rows[start.job]
        until = max(min(at, now), start.since)
        ran, held = start.ran(until), until - start.since
        self._jobs.starts.remove(start)
        self._jobs.changes.closed[start.job, start.epoch] = until
        after = outcome(row, start, one, until)
        ended = one.ended
        if ended is Exit.COMPLETED and after.state is not State.COMPLETED:
            ended = Exit.STOPPED
        self._jobs.changes.event(start.job, until, ended.value if ended else "", one.message)
        fields: dict[str, Any] = {
            "state": after.state,
            "deaths": after.deaths,
            "phase": Phase.NONE,
            # Perhaps reported a while ago, and not on record yet:
            "steps_done": row.steps_done,
            "size_steps": row.size_steps,
            "attained_gpu_seconds": row.attained_gpu_seconds + start.gpus * held,
            "run_seconds": row.run_seconds + ran,
            "restart_seconds": row.restart_seconds + self._lost(row, start, until, after.state),
            "last_stop": until,
            "output_read": start.output_read,
            "steps_per_second": 0.0,
            "status": one.status,
        }
        if after.state in ENDED:
            rank = one.failed_rank if after.state is State.FAILED else None
            fields |= {"finished": until, "message": after.message, "failed_rank": rank}
        stop = measured_stop(row, start, until)
        if stop is not None:
            fields |= {"stop_seconds": stop}
        self._jobs.set(row.id, **fields)
        self._unsaved.discard(row.id)
        last = start.reports_to_note(0.0)
        self._jobs.changes.steps += [one._replace(time=min(one.time, until)) for one in last]
        self._jobs.carried_out(row)
        self._losses[row.id] = self._losses.get(row.id, 0) + 1 if one.ended is Exit.LOST else 0
        if after.failed_to_run:
            self._jobs.not_before[row.id] = now + pause_seconds(self._losses[row.id] or after.deaths)
        self._settle_end(self._jobs.rows[row.id], until, now)
        if after.state in ENDED:  # The scheduler itself stops jobs; only an end is news to it.
            self._jobs.pending |= Trigger.COMPLETION

    def _ended_alone(self, one: Observed, now: float) -> None:
        """End a job that the engine has run to its end without Muster, and with it a start that is not launched yet."""
        start = self._jobs.starts.get(one.job)
        if start is not None and not start.launched and not self._commands.is_launching(start):
            words = "its job has run by itself before that"
            over = Observed(start.job, start.epoch, Exit.LOST, one.since, None, words)
            self._ended(start, over, start.since, now)
        row = self._jobs.rows.get(one.job)
        if row is None or row.id in self._jobs.starts:
            return
        state = State.COMPLETED if one.ended is Exit.COMPLETED else State.FAILED
        until = max(min(self._store.at(one.since), now), row.submitted)
        self._jobs.set(row.id, state=state, finished=until, status=one.status, message=one.message)
        self._jobs.changes.event(row.id, until, state.value, one.message)
        self._jobs.carried_out(row)
        self._settle_end(self._jobs.rows[row.id], until, now)
        self._jobs.pending |= Trigger.COMPLETION

    def _lost(self, row: JobRow, start: JobStart, until: float, state: State) -> float:
        expected = self._jobs.columns.restart_cost(row)
        return lost_seconds(row, start, until, expected, ended=state in ENDED)

    def _engine_knows(self, start: JobStart, one: Observed) -> None:
        """Take the first step of a job that its engine simulates."""
        if one.first_step is not None and start.first_step is None:
            first_step = max(self._store.at(one.first_step), start.since)
            self._works(start, first_step, measured=True, joined=True)

    def _settle_end(self, row: JobRow, until: float, now: float) -> None:
        """Update the columns and the ledger after the end of a start, or of a job that had none."""
        columns = self._jobs.columns
        if row.state is State.QUEUED:
            if row.id in columns.plan:  # It has a place to start again at.
                columns.not_begun(row.id, now)
            if row.id not in self._jobs.active:  # It had ended by itself just before its time limit.
                columns.release(row.id)
                self._jobs.active.add(row.id)
                self._jobs.pending |= Trigger.ARRIVAL
        else:
            columns.leave(row.id, row.state, until)
            self._jobs.active.discard(row.id)
            if row.state in ENDED:
                del self._jobs.rows[row.id]
                self._losses.pop(row.id, None)
                self._given_back.discard(row.id)
        columns.charged(row, until)

    def report_requests(self) -> list[ReportRequest]:
        """Where all starts report how far they are."""
        self._requests = {
            (start.job, start.epoch): self._requests.get((start.job, start.epoch))
            or report_request_of(self._jobs.rows[start.job], start, self._home, begins=not start.launched)
            for start in self._jobs.starts.values()
        }
        return list(self._requests.values())

    def wants_reports(self, now: float) -> bool:
        """Whether the reports of all starts are to be read: once a second."""
        due = not 0 <= now - self._reported_at < _REPORT_SECONDS
        if due:
            self._reported_at = now
        return due

    def note_reports(self, heard: Mapping[StartKey, Heard], at: float) -> None:
        """Reports were read; they are taken with the ends of their starts, or after them all."""
        self._heard |= {key: (at, one) for key, one in heard.items()}

    def take_reports(self, now: float) -> None:
        """How far jobs are; on disk less often, as their own run folders know it better."""
        for job, epoch in list(self._heard):
            start = self._jobs.starts.get(job)
            if start is not None and start.epoch == epoch:
                self._take_report(start)
        self._heard.clear()
        if now - self._saved_at >= _SAVE_SECONDS:
            self._saved_at = now
            for job in self._unsaved:
                row = self._jobs.rows[job]
                fields = {name: getattr(row, name) for name in _REPORTED}
                self._jobs.changes.job(job, **fields)
                self._note_steps(row, now)
            self._unsaved.clear()

    def _note_steps(self, row: JobRow, now: float) -> None:
        """Keep how far a job was, so that its speed over time can be shown; at distances that grow with its age."""
        start = self._jobs.starts.get(row.id)
        if start is not None:
            age = now - (start.since if row.first_start is None else row.first_start)
            self._jobs.changes.steps += start.reports_to_note(max(_SAVE_SECONDS, _NOTED_APART * age))

    def _take_report(self, start: JobStart) -> None:
        """Take what was found of a start's report, if it was looked for; an invalid one costs its own job only."""
        at, heard = self._heard.pop((start.job, start.epoch), (-inf, None))
        if heard is None:
            return
        found = heard.found
        start.joined = start.joined or found.uses_run_folder
        start.output_read = found.output_read
        if self._jobs.rows[start.job].output_read != heard.output_begins:
            self._jobs.set(start.job, output_read=heard.output_begins)
        if found.wrong and not start.report_rejected:
            start.report_rejected = True
            self._jobs.changes.event(start.job, at, "report not understood", found.wrong[:_WORDS])
        if found.report is not None and found.report != start.last_report:
            start.last_report = found.report
            self._reports(start, found.report, at)
        start.looked = at

    def _reports(self, start: JobStart, report: Report, now: float) -> None:
        """Take a report of how far a job is."""
        if start.first_report is None:
            self._reports_first(start, report, now)
        start.newest_report = now, report.step
        row = self._jobs.rows[start.job]
        steps, rate = report.step, report.steps_per_second or start.steps_per_second(report.step, now)
        fields: dict[str, Any] = {"steps_done": max(steps, row.steps_done), "steps_per_second": rate}
        seconds = start.step_seconds(steps, now) if row.request.changes_size else None
        if seconds is not None:
            size = SizeSteps(len(start.allocations), round(start.gpus), seconds)
            fields["size_steps"] = with_size(row.size_steps, size)
        self._jobs.rows[row.id] = row = replace(row, **fields)
        self._unsaved.add(row.id)
        if seconds is not None and self._jobs.columns.learned_sizes.learn(row):
            self._jobs.pending |= Trigger.TIMER
        if report.keeps_ranks:
            self._keeps_its_ranks(start, row, now)
        if start.notice_at is None and row.id in self._jobs.columns.plan:
            self._jobs.columns.reported(row, now)

    def _keeps_its_ranks(self, start: JobStart, row: JobRow, now: float) -> None:
        """Leave a job what its script needs for as many processes as now.

        With one for each GPU that is its GPUs; with one for each node it is its number of nodes, and GPUs as well, as
        other sizes take other numbers of nodes.
        """
        one_for_each_node = row.request.ranks == "one"
        if one_for_each_node and sum(node.gpus > 0 for node in self._jobs.columns.cluster.nodes) <= 1:
            return
        if row.request.changes_size:
            self._keeps_its_size(start, now)
        if one_for_each_node:
            self._keeps_its_nodes(start, now)

    def _keeps_its_nodes(self, start: JobStart, now: float) -> None:
        """Note the nodes of a start; the next one is on as many."""
        before = self._jobs.rows[start.job].fixed_nodes
        nodes = tuple(here.node for here in start.allocations)
        if nodes == before:
            return
        self._jobs.set(start.job, fixed_nodes=nodes)
        if not before:
            words = f"run.steps has no elastic=True, so it stays on {counted(len(nodes), 'node')} at a time"
            self._jobs.changes.event(start.job, now, "keeps its number of nodes", words)
        self._jobs.columns.keeps_its_nodes(self._jobs.rows[start.job])

    def _keeps_its_size(self, start: JobStart, now: float) -> None:
        """Leave a job its GPUs whose owner allows other numbers, but whose script does not."""
        if self._jobs.rows[start.job].fixed_gpus is not None:
            return
        count = len([gpu for here in start.allocations for gpu in here.gpu_ids])
        words = f"run.steps has no elastic=True, so it keeps {gpus(count)}"
        self._jobs.set(start.job, fixed_gpus=count)
        self._jobs.changes.event(start.job, now, "cannot change its size", words)
        self._jobs.columns.keeps_its_size(self._jobs.rows[start.job], now)
        self._jobs.pending |= Trigger.TIMER

    def _reports_first(self, start: JobStart, report: Report, now: float) -> None:
        """Take the first report of a start, or the first one to this daemon."""
        start.first_report = now, report.step
        fields = {"joined": True} if start.joined else {}
        if start.first_step is None:
            start_up_seen = now - start.looked <= _LOOKS_APART
            self._works(start, start.first_step_by(report, now), measured=start_up_seen, **fields)
        elif fields:
            self._jobs.set(start.job, **fields)

    def _works(self, start: JobStart, first_step: float, *, measured: bool, **fields: Any) -> None:
        """It has made its first step; what its start-up took is `measured` if that was seen soon enough."""
        start.first_step = fields["first_step"] = first_step
        if measured:
            fields["start_up_seconds"] = first_step - start.since
        self._jobs.set(start.job, **fields)
        row = self._jobs.rows[start.job]
        self._jobs.columns.restart_costs.learn_from(row)
        if row.id in self._jobs.columns.plan and start.notice_at is None:
            self._jobs.columns.price(row, start.since)
            # From now on it is known when it may be interrupted.
            if self._jobs.columns.restart_cost(row) > 0:
                self._jobs.pending |= Trigger.TIMER


def _as_reported(given: NodeAllocation[str], real: NodeAllocation[str]) -> NodeAllocation[str]:
    """Return what a start has on a node by the engine's account; of storage it has what it was given."""
    return replace(given, gpu_ids=real.gpu_ids, cpus=real.cpus, memory_gb=real.memory_gb)
