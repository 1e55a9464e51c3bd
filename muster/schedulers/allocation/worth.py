"""What a plan is worth: the speed of all its jobs, less what its changes of running jobs cost."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth_core import worth_of
from muster.schedulers.contract import Snapshot
from muster.schedulers.interruption import HORIZON_SECONDS

REACHED = 1e-9
"""A worth that is less by no more than this is as much."""


class ForRunning(NamedTuple):
    """What it counts that a job runs, as a part of its reference speed: in full from the speed `up_to` on."""

    worth: float
    up_to: float


SPEED_ALONE = ForRunning(0.0, 1.0)
"""That a job runs counts nothing."""


class Worth:
    """What the plans of one decision are worth.

    A plan that is worth more than another repays its changes: the rule of `interruption.repays`, over all jobs.
    """

    def __init__(self, snapshot: Snapshot, gangs: Gangs, running: ForRunning = SPEED_ALONE) -> None:
        self._view = snapshot
        self._gangs = gangs
        self._running = running
        jobs = snapshot.jobs
        self.lost: Floats = np.where(jobs.running, jobs.interruption_cost, 0.0) / HORIZON_SECONDS
        """By position: the part of a running job's speed that an interruption loses within the horizon."""

    def of(self, plan: PlacementDraft, relative: Floats | None = None, restarts: bool = True) -> float:
        """Return the weighted speed of all jobs of a plan, less the part of it that its restarts lose in the horizon.

        That they run counts as well. Each job counts `relative` times its weight; without `restarts` these lose
        nothing. Where a resize restarts nothing, gangs on several machines first get what is left there.
        """
        snapshot, gangs = self._view, self._gangs
        books, index = snapshot.ledger.books, snapshot.jobs.index
        if relative is not None:
            gangs = gangs._replace(weight=gangs.weight * relative)
        return worth_of(
            books, index, gangs, plan, self.lost * restarts, snapshot.resize_restarts, self._running
        )

    @cached_property
    def most_of_each(self) -> Floats:
        """By position: what a job counts at most in a plan, with the best speed that any machine gives it."""
        gangs = self._gangs
        fastest = gangs.demands.fastest
        if len(gangs.forms.line):
            # On a slow machine the best place may hide what the input stage loses.
            fastest = np.maximum(fastest, 1.0)
        most: Floats = gangs.weight * (fastest[gangs.classes] + self._running.worth)
        return most

    def at_most(self, may_run: Ints, gpus: int) -> float:
        """Return what a plan is worth at most that has no jobs but these, on so many GPUs.

        Those have them first that are worth most for a GPU, the last in part.
        """
        each, wants = self.most_of_each[may_run], self._gangs.gpus[may_run]
        if wants.sum() <= gpus:
            return float(each.sum())
        order = np.argsort(-each / wants)
        each, wants = each[order], wants[order]
        has = np.clip(gpus - (np.cumsum(wants) - wants), 0, wants)
        return float(each @ (has / wants))
