"""What joint's plans are worth: the weighted speed of all jobs, and a little for each that runs at all."""

from __future__ import annotations

from muster.cluster.ledger_arrays import Ints
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.joint.joint_core import FOR_RUNNING


class JointWorth(Worth):
    """What the plans of one decision of joint are worth."""

    def of(self, plan: PlacementDraft) -> float:
        """Return what `Worth` says, and `FOR_RUNNING` of the weight of each job that has a place."""
        return super().of(plan) + FOR_RUNNING * float(self.gangs.weight[plan.first >= 0].sum())

    def at_most(self, served: Ints) -> float:
        """Return the worth if each of these jobs has the best speed that any machine gives it."""
        return super().at_most(served) + FOR_RUNNING * float(self.gangs.weight[served].sum())
