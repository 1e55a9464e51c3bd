"""The owners' deadlines."""

from dataclasses import dataclass
from typing import ClassVar

from muster.schedulers.contract import Floats, Jobs
from muster.schedulers.honours import DEADLINE
from muster.schedulers.parts import Order


@dataclass(frozen=True)
class EarliestDeadline(Order):
    """Earliest deadline first, preemptive; jobs without a deadline come last, by arrival."""

    name: ClassVar[str] = "edf"
    compiled: ClassVar[int | None] = 4
    static_priority: ClassVar[bool] = True
    honours: ClassVar[frozenset[str]] = frozenset({DEADLINE})

    def key(self, jobs: Jobs) -> Floats:
        """The deadline."""
        return jobs.deadline
