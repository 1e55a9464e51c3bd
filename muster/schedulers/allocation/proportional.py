"""GPU-proportional allocation: what every scheduler does that sees only GPUs."""

from dataclasses import dataclass
from typing import ClassVar

from muster.schedulers.contract import Ints, Jobs, View
from muster.schedulers.parts import Allocation
from muster.schedulers.placement.kernels import proportional_needs


@dataclass(frozen=True)
class Proportional(Allocation):
    """Each GPU brings its node's share of CPU, memory and storage, or what the owner asks for where that is more."""

    name: ClassVar[str] = "proportional"

    def ladder(self, view: View, jobs: Jobs) -> Ints:
        """One rung, the same for all unless somebody asks for more than a share."""
        return proportional_needs(view.ledger.books.nodes, jobs.requested_per_gpu)
