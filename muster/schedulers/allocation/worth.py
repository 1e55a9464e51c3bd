"""What a plan is worth: the speed of all its jobs, less what its changes of running jobs cost."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth_core import worth_of
from muster.schedulers.contract import Snapshot
from muster.schedulers.interruption import HORIZON_SECONDS


class Worth:
    """What the plans of one decision are worth.

    A plan that is worth more than another repays its changes: the rule of `interruption.repays`, over all jobs.
    """

    def __init__(self, snapshot: Snapshot, gangs: Gangs) -> None:
        self._view = snapshot
        self.gangs = gangs
        jobs = snapshot.jobs
        self.lost: Floats = np.where(jobs.running, jobs.interruption_cost, 0.0) / HORIZON_SECONDS
        """By position: the part of a running job's speed that an interruption loses within the horizon."""

    def of(self, plan: PlacementDraft) -> float:
        """Return the weighted speed of all jobs of a plan, less the part of it that its restarts lose in the horizon.

        Where a resize restarts nothing, gangs on several machines first get what is left there.
        """
        snapshot = self._view
        books, index = snapshot.ledger.books, snapshot.jobs.index
        return worth_of(books, index, self.gangs, plan, self.lost, snapshot.resize_restarts)

    def at_most(self, served: Ints) -> float:
        """Return the weighted speed of these jobs if each has the best speed that any machine gives it."""
        gangs = self.gangs
        fastest = gangs.demands.best_speed[:, gangs.kinds["gpus"] > 0].max(axis=1)
        return float(gangs.weight[served] @ fastest[gangs.classes[served]])
