"""Where the program of Dally's authors puts the jobs of its Tiresias and its Gandiva; for comparison, not for use."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Floats, Ints, Snapshot, State
from muster.schedulers.honours import EVEN_GANGS
from muster.schedulers.parts import Placement, setting
from muster.schedulers.placement.delay_timers import Timers
from muster.schedulers.placement.job_columns import PACK, SPREAD
from muster.schedulers.placement.skew import skews_of


@dataclass(frozen=True)
class SkewLeases(Timers):
    """Leases of Tiresias in Dally's program: skewed models wait for one rack, the others take anything at once."""

    name: ClassVar[str] = "skew-leases"
    honours: ClassVar[frozenset[str]] = frozenset()

    threshold: float = setting(
        0.4, "share of the gradients in the largest one, from which on a gang waits for a rack"
    )

    def limits_for(self, snapshot: Snapshot, positions: Ints, memory: State) -> tuple[Floats, Floats]:
        """No job waits for a machine."""
        skewed = skews_of(snapshot)[positions] >= self.threshold
        return np.zeros(len(skewed)), np.where(skewed, inf, 0.0)


@dataclass(frozen=True)
class Scatter(Placement):
    """Gandiva in Dally's program: what is larger than a machine is scattered over all of them."""

    name: ClassVar[str] = "scatter"
    honours: ClassVar[frozenset[str]] = frozenset({EVEN_GANGS})

    def rules(self, snapshot: Snapshot) -> Ints:
        """Spread or pack, by the size of the gang."""
        largest = max(node.gpus for node in snapshot.cluster.nodes)
        return np.where(snapshot.jobs.gpus > largest, SPREAD, PACK)
