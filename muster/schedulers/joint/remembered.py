"""What joint remembers of the plans of earlier decisions, so that it need not make them again each time."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from muster.cluster.ledger_arrays import Floats
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.joint.kept_places import KeptPlaces
from muster.schedulers.joint.placed_again import PlacedAgain


@dataclass(frozen=True)
class Remembered:
    """Of plans that were made before; None: none was."""

    again: PlacedAgain | None = None
    """The last ones in which all jobs were placed again."""
    kept: KeptPlaces | None = None
    """On a network, the last one with other places for the jobs that stay."""

    def again_may_be_worth(self, given: AllocationInput, most: Floats) -> float:
        """Return what plans in which all jobs are placed again may be worth; `most` counts each job, by position."""
        return inf if self.again is None else self.again.may_be_worth(given, most)

    def others_may_lack(
        self, given: AllocationInput, kept: PlacementDraft, worth: Worth, relative: Floats | None
    ) -> float:
        """Return what other places than those of `kept` lack at least, where each job is so fast beside the others."""
        if self.kept is None:
            return -inf
        return self.kept.may_lack(given, kept, worth.lost, worth.most_of_each, worth.of_each(kept, relative))


NOTHING = Remembered()
