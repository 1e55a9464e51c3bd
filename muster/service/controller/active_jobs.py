"""The jobs that have not ended, and the changes of this turn that are to be committed and carried out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Trigger
from muster.service.controller.columns import LiveColumns
from muster.service.controller.running_starts import RunningStarts
from muster.service.controller.starts import JobStart, on_ids_of
from muster.service.daemon_status import DaemonStatus
from muster.service.engines import Command
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
