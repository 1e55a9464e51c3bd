"""Carries out the difference between the plan and what runs: stops, resizes, starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import inf

from muster.cluster.ledger import NodeAllocation
from muster.formatting import gpus
from muster.service.controller.active_jobs import ActiveJobs
from muster.service.controller.engine_commands import EngineCommands
from muster.service.controller.starts import JobStart, same_place
from muster.service.store.rows import ASKED_TO_STOP, STARTED, Phase, State, StateRequest, StopReason
from muster.service.tenant_shares import LEAST_GPUS

_REQUESTED = {StateRequest.CANCEL: StopReason.CANCEL, StateRequest.HOLD: StopReason.HOLD}


class Executor:
    """Finds the difference; the commands follow once it is on disk."""

    def __init__(
        self, jobs: ActiveJobs, commands: EngineCommands, limits: Mapping[str, float], *, can_resize: bool
    ) -> None:
        """`limits`: the most GPUs that a tenant may hold; none for the others."""
        self._jobs, self._commands, self._limits, self._can_resize = jobs, commands, limits, can_resize

    def carry_out(self, now: float) -> None:
        """Stop, then resize, smaller ones first, then start whatever has room by now, and is within its limit."""
        resized: list[tuple[float, JobStart, tuple[NodeAllocation[str], ...]]] = []
        for start in self._jobs.starts.values():
            wanted = self._jobs.planned(start)
            if start.notice_at is None and (start.taken_back or wanted != start.allocations):
                if start.taken_back or not (self._can_resize and same_place(wanted, start.allocations)):
                    self._ask_to_stop(start, now, moves=bool(wanted))
                else:
                    more = sum(here.cpus for here in wanted) - sum(here.cpus for here in start.allocations)
                    resized.append((more, start, wanted))
            if start.stop_sent is not None and not start.grace_over:
                self._end_grace(start, start.stop_sent, now)
        to_start = [
            job
            for job in self._jobs.columns.plan
            if job not in self._jobs.starts and now >= self._jobs.not_before.get(job, -inf)
        ]
        for _, start, wanted in sorted(resized, key=lambda one: one[0]):
            self._resize(start, wanted, now)
        held = self._held_by_tenant()
        for job in to_start:
            allocations = self._jobs.columns.plan[job]
            tenant, more = self._tenant(job), sum(here.gpus for here in allocations)
            is_within = more <= max(self._limits.get(tenant, inf) - held[tenant], 0.0) + LEAST_GPUS
            if is_within and self._jobs.starts.has_room(allocations):
                self._start(job, allocations, now)
                held[tenant] += more
        self._jobs.commands += self._commands.outstanding(now)

    def _held_by_tenant(self) -> dict[str, float]:
        """GPUs that tenants really hold, if any has a limit: a job that saves has all that it had."""
        held: dict[str, float] = defaultdict(float)
        for job, start in self._jobs.starts.items() if self._limits else ():
            held[self._tenant(job)] += start.gpus
        return held

    def _tenant(self, job: int) -> str:
        return self._jobs.rows[job].request.tenant or ""

    def _resize(self, start: JobStart, wanted: tuple[NodeAllocation[str], ...], now: float) -> None:
        """Resize a start, unless a job that was asked to stop still holds what it is to get."""
        if self._jobs.starts.has_room(wanted, instead_of=start.allocations):
            self._jobs.starts.resize(start, wanted)
            self._jobs.changes.closed[start.job, start.epoch] = now
            self._jobs.changes.opened += start.intervals(now)

    def _end_grace(self, start: JobStart, asked: float, now: float) -> None:
        if now >= asked + self._jobs.rows[start.job].request.grace_seconds:
            start.grace_over = True
            self._jobs.changes.event(start.job, now, "grace is over")

    def _ask_to_stop(self, start: JobStart, now: float, *, moves: bool) -> None:
        row = self._jobs.rows[start.job]
        start.notice_at = now
        why = self._why_stopped(start, now, moves=moves)
        counts = {}
        if why is StopReason.MOVE:
            counts["moves"] = row.moves + 1
        elif why is StopReason.PREEMPTED:
            counts["preemptions"] = row.preemptions + 1
        self._jobs.set(row.id, phase=Phase.STOPPING, **counts)
        self._jobs.changes.event(row.id, now, ASKED_TO_STOP, why or "")

    def _why_stopped(self, start: JobStart, now: float, *, moves: bool) -> StopReason | None:
        row = self._jobs.rows[start.job]
        if row.state_request is not None:
            return _REQUESTED.get(row.state_request)
        if start.taken_back:
            return StopReason.TAKEN_BACK
        if row.is_over_time(start.ran(now)):
            return StopReason.TIME_LIMIT
        return StopReason.MOVE if moves else StopReason.PREEMPTED

    def _start(self, job: int, allocations: tuple[NodeAllocation[str], ...], now: float) -> None:
        row = self._jobs.rows[job]
        start = JobStart(job, row.epoch + 1, allocations, now, row.steps_done, row.output_read, looked=now)
        self._jobs.starts.add(start)
        self._jobs.not_before.pop(job, None)
        self._jobs.set(
            job,
            state=State.RUNNING,
            phase=Phase.STARTING,
            epoch=start.epoch,
            first_start=now if row.first_start is None else row.first_start,
            last_start=now,
            first_step=None,
            steps_before=start.steps_before,
        )
        where = ", ".join(f"{here.node}: {gpus(here.gpus)}, {here.cpus:g} CPU" for here in allocations)
        self._jobs.changes.event(job, now, STARTED, where)
        self._jobs.changes.opened += start.intervals(now)
        self._jobs.columns.began(self._jobs.rows[job], now)
