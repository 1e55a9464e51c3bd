"""Each gang where the network costs it least (ours): places weighed by what the network model says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import Books
from muster.schedulers.contract import Bools, Ints, Proposal, Snapshot
from muster.schedulers.honours import FURTHER_RESOURCES, REQUESTS
from muster.schedulers.interruption import HORIZON_SECONDS
from muster.schedulers.parts import GangAllocator, check_seconds, setting
from muster.schedulers.placement.job_columns import job_columns, proportional_needs, reason_columns
from muster.schedulers.placement.network_aware import (
    PlacementLimits,
    RankedGangs,
    Shapes,
    arrange,
    most_sensitive_first,
    place_beside_all,
)
from muster.schedulers.placement.reachable import LEAST_SHARE, within_reach
from muster.speed.network.forms import Forms, PlacementShapes


@dataclass(frozen=True)
class LeastLoss(GangAllocator):
    """Gangs where the network costs them least; running jobs move where the gain repays their interruption."""

    name: ClassVar[str] = "least-loss"
    stable_when_queue_empty: ClassVar[bool] = False
    changes_amounts: ClassVar[bool] = False
    honours: ClassVar[frozenset[str]] = frozenset({REQUESTS, FURTHER_RESOURCES})

    enough: float = setting(0.7, "share of its best speed for which a gang takes a place before others do")
    least: float = setting(LEAST_SHARE, "share of its best speed below which a gang rather waits")
    horizon_seconds: float = setting(
        HORIZON_SECONDS, "seconds in which a better place must repay the interruption of those that move"
    )

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.enough <= 1:
            raise ValueError("least and enough: allowed: 0 <= least <= enough <= 1")
        check_seconds(self, "horizon_seconds", finite=True)

    def settle(self, snapshot: Snapshot, proposal: Proposal) -> bool:
        """Place the only job that waits, if all jobs are then where the network costs them nothing."""
        if snapshot.table.some_request or np.count_nonzero(snapshot.jobs.waiting) > 1:
            return False
        return place_beside_all(
            self._reserved(snapshot), job_columns(snapshot), self._shapes(snapshot), self.enough
        )

    def allocate(self, snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools) -> None:
        """The first in rank, then large gangs that the network can hurt, then the others."""
        jobs = snapshot.jobs
        line, forms = self._forms(snapshot)
        served = ranked[chosen[ranked]]
        by_sensitivity = most_sensitive_first(served[1:], forms.share_anywhere[line], jobs.gpus)
        order = np.concatenate([served[:1], by_sensitivity])
        arrange(
            self._reserved(snapshot),
            job_columns(snapshot),
            RankedGangs(ranked, order, chosen, jobs.pinned, jobs.interruption_cost),
            self._shapes(snapshot),
            PlacementLimits(self.enough, self.least, self.horizon_seconds),
            reason_columns(proposal),
        )

    def _reserved(self, snapshot: Snapshot) -> Books:
        """The ledger, with room for all jobs to be placed again, and once more where that was in vain.

        More than `reserve_decision`: a gang may be tried on several forms of place before one is kept.
        """
        jobs = len(snapshot.jobs)
        return snapshot.ledger.reserve(4 * snapshot.cluster.total_gpus + jobs, 8 * jobs)

    def _forms(self, snapshot: Snapshot) -> tuple[Ints, Forms]:
        """Which line of the forms is each job's, and the forms."""
        jobs, book = snapshot.jobs, snapshot.forms or PlacementShapes(None, snapshot.cluster)
        return within_reach(
            book.of(jobs.model, jobs.gpus),
            jobs.gpus,
            jobs.requested_per_gpu,
            jobs.constraint,
            snapshot.table.node_allowed,
            snapshot.ledger.books.nodes,
            self.least,
        )

    def _shapes(self, snapshot: Snapshot) -> Shapes:
        """The forms and needs of all jobs."""
        line, forms = self._forms(snapshot)
        nodes = snapshot.ledger.books.nodes
        needs = proportional_needs(nodes, snapshot.jobs.requested_per_gpu)
        return Shapes(line, forms.kinds, forms.speeds, needs)
