"""GPU-proportional allocation: what every scheduler does that sees only GPUs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.contract import Ints, Jobs, Snapshot
from muster.schedulers.parts import Allocation
from muster.schedulers.placement.job_columns import PROPORTIONAL, proportional_needs

_SHARE_OF_THE_NODE = np.full((1, 1, RESOURCE_COUNT), PROPORTIONAL)


@dataclass(frozen=True)
class Proportional(Allocation):
    """Each GPU brings its node's share of CPU, memory and storage, or what the owner asks for where that is more."""

    name: ClassVar[str] = "proportional"
    compiled: ClassVar[int | None] = 0

    def resource_options(self, snapshot: Snapshot, jobs: Jobs) -> Ints:
        """One rung, the same for all unless a job asks for more than a share."""
        if not snapshot.table.some_request:
            return _SHARE_OF_THE_NODE
        return proportional_needs(snapshot.ledger.books.nodes, jobs.requested_per_gpu)
