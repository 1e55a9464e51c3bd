"""What joint's plans are worth: the weighted speed of all jobs, and something for each that runs at all."""

from __future__ import annotations

from muster.cluster.ledger_arrays import Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.contract import Snapshot
from muster.schedulers.joint.for_running import ForRunning
from muster.schedulers.joint.joint_core import running_worth


class JointWorth(Worth):
    """What the plans of one decision of joint are worth."""

    def __init__(self, snapshot: Snapshot, gangs: Gangs, running: ForRunning) -> None:
        super().__init__(snapshot, gangs)
        self.running = running

    def of(self, plan: PlacementDraft) -> float:
        """Return what `Worth` says, and what it counts that jobs run."""
        return super().of(plan) + running_worth(plan, self.gangs, self.running)

    def at_most(self, served: Ints) -> float:
        """Return the worth if each of these jobs has the best speed that any machine gives it."""
        return super().at_most(served) + self.running.worth * float(self.gangs.weight[served].sum())
