"""What joint remembers of the plans of earlier decisions, so that it need not make them again each time."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from muster.cluster.ledger_arrays import Floats
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.joint.looked_for import LookedFor
from muster.schedulers.joint.modelled_speeds import TypedSizes
from muster.schedulers.joint.placed_again import PlacedAgain


@dataclass(frozen=True)
class Remembered:
    """Of plans that were made before; None: none was."""

    again: PlacedAgain | None = None
    """The last ones in which all jobs were placed again."""
    looked_for: LookedFor | None = None
    """On a network, for which jobs other places were last looked for."""
    prices: Floats | None = None
    """What one more GPU of each type was worth when sizes were last chosen by a knapsack."""

    def again_may_be_worth(self, given: AllocationInput, sizes: TypedSizes, most: Floats) -> float:
        """Return what plans in which all jobs are placed again may be worth; `most` counts each job, by position."""
        return inf if self.again is None else self.again.may_be_worth(given, sizes, most)

    def changed(self, given: AllocationInput, gangs: Gangs, kept: PlacementDraft, lost: Floats) -> float:
        """Return the part of the GPUs for which other places than those of `kept` were not looked for as it is now."""
        return inf if self.looked_for is None else self.looked_for.changed(given, gangs, kept, lost)


NOTHING = Remembered()
