"""Jobs for which nothing is to be decided until others come: each has its fastest size, and there is more than that."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.ageing import among
from muster.schedulers.contract import Snapshot
from muster.schedulers.workers_and_servers.tasks import Tasks
from muster.workload.jobs import RUNNING


@dataclass(frozen=True, eq=False)
class Settled:
    """The jobs present at a decision, all of them running, and what they are charged.

    It follows from the snapshot of that decision, and stays true while jobs end and no node comes or goes.
    """

    jobs: Ints
    """Their numbers, in the order of the snapshot."""
    usage: Floats
    """(jobs, RESOURCES)."""
    tasks: Tasks
    up: Bools
    """By node."""

    def among(self, snapshot: Snapshot) -> Settled | None:
        """Those that are still there; None if another job runs, or other nodes are up."""
        index = snapshot.jobs.index
        running = index[snapshot.table.facts["state"][index] == RUNNING]
        kept = among(self.jobs, np.sort(running))
        if np.count_nonzero(kept) < len(running):
            return None
        if not np.array_equal(self.up, snapshot.ledger.books.nodes["up"]):
            return None
        if kept.all():
            return self
        tasks = Tasks._make(column[kept] for column in self.tasks)
        return Settled(self.jobs[kept], self.usage[kept], tasks, self.up)

    def beside(self, job: Ints, usage: Floats, tasks: Tasks) -> Settled:
        """These and one more."""
        all_tasks = Tasks._make(np.concatenate(pair) for pair in zip(self.tasks, tasks, strict=True))
        return Settled(np.append(self.jobs, job), np.vstack([self.usage, usage]), all_tasks, self.up)

    def all_settled(self) -> Settled:
        """The same, and each keeps what it holds."""
        return replace(self, tasks=self.tasks._replace(settled=np.ones(len(self.jobs), np.bool_)))
