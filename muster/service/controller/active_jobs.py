"""The jobs that have not ended, and the changes of this turn that are to be committed and carried out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Trigger
from muster.service.controller.columns import LiveColumns
from muster.service.controller.exit_status import pause_seconds
from muster.service.controller.running_starts import RunningStarts
from muster.service.controller.starts import JobStart, on_ids_of
from muster.service.daemon_status import DaemonStatus, RefusedStart
from muster.service.engines import Command
from muster.service.honoured import amounts_if_unstated
from muster.service.store.rows import JobRow, StoreChanges


class ActiveJobs:
    """State that the parts of the controller share; only they change it."""

    def __init__(self, status: DaemonStatus) -> None:
        self.rows: dict[int, JobRow] = {}
        """Rows of the store, with the changes that are not committed yet."""
        self._status = status
        self.starts = RunningStarts(
            status.cluster, chooses_gpu_ids=status.engine_capabilities.chooses_gpu_ids
        )
        """What runs; some of them may have been asked to stop."""
        self.active: set[int] = set()
        """Jobs that compete: neither held nor on their way out."""
        self.not_before: dict[int, float] = {}
        """When a job whose processes keep dying may be started again."""
        self.columns = self._columns_of(status.cluster)
        """The scheduler's view, and the plan: what should run."""
        self.pending: int = Trigger.ARRIVAL
        """Triggers since the last decision."""
        self.newest = 0
        """The largest id that is known."""
        self.changes = StoreChanges()
        self.commands: list[Command] = []
        """To send once the changes are on disk; each may be repeated."""

    @property
    def pending_limit(self) -> float:
        """Seconds for which a start may be pending with the engine."""
        return self._status.engine_capabilities.pending_limit_seconds

    def refused(self, start: JobStart, words: str, now: float, *, again: bool) -> None:
        """Note the engine's answer to a start that it has not begun; `again`: to a further try."""
        known = self._status.refusals.get(start.job, RefusedStart(words, 0, now))
        refusal = RefusedStart(words, known.tries + again, known.since)
        others = {job: one for job, one in self._status.refusals.items() if job in self.rows}
        self._status.refusals = {**others, start.job: refusal}

    def accepted(self, start: JobStart) -> None:
        """The engine has begun a start."""
        if start.job in self._status.refusals:
            kept = {job: one for job, one in self._status.refusals.items() if job != start.job}
            self._status.refusals = kept

    def take_back(self, start: JobStart, words: str, now: float) -> None:
        """Have a start stop that the engine has not begun; its job waits longer the more often it was tried."""
        self.changes.event(start.job, now, "taken back", words)
        start.taken_back = True
        pause = self.pending_limit
        if not start.place_taken:
            pause = max(pause, pause_seconds(self._status.refusals[start.job].tries))
        self.not_before[start.job] = now + pause
        self.pending |= Trigger.CAPACITY

    def change_cluster(self, cluster: Cluster) -> None:
        """Make a new scheduler's view for another cluster; what runs has to be placed again."""
        costs = self.columns.restart_costs
        self._status.cluster = self.starts.cluster = cluster
        self.columns = self._columns_of(cluster)
        self.columns.restart_costs = costs
        self.columns.admit(list(self.rows.values()))

    def _columns_of(self, cluster: Cluster) -> LiveColumns:
        status = self._status
        return LiveColumns(
            cluster,
            status.models,
            status.restart_cost_seconds,
            resize_restarts=not status.engine_capabilities.can_resize,
            any_gpus=status.engine_capabilities.chooses_gpu_ids,
            even_gangs=status.engine_capabilities.same_amounts_on_each_node,
            if_unstated=amounts_if_unstated(status.policy, cluster),
        )

    def nothing_new(self) -> None:
        """All changes are committed."""
        self.changes, self.commands = StoreChanges(), []

    def set(self, job: int, **fields: Any) -> None:
        """New values for some fields of a job."""
        self.changes.job(job, **fields)
        self.rows[job] = replace(self.rows[job], **fields)

    def planned(self, start: JobStart) -> tuple[NodeAllocation[str], ...]:
        """What a start should hold; where the engine chooses GPU ids, a plan on others of a node is the same plan."""
        wanted = self.columns.plan.get(start.job, ())
        chooses = self._status.engine_capabilities.chooses_gpu_ids
        return on_ids_of(start.allocations, wanted) if chooses else wanted

    def carried_out(self, row: JobRow) -> None:
        """The requested state of a job is reached; a request that came meanwhile stays."""
        if row.state_request is not None:
            self.changes.carried_out[row.id] = row.state_request
            self.rows[row.id] = replace(self.rows[row.id], state_request=None)
