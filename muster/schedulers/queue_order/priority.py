"""The owners' priorities."""

from dataclasses import dataclass
from typing import ClassVar

from muster.schedulers.contract import Floats, Jobs
from muster.schedulers.honours import PRIORITY
from muster.schedulers.parts import Order


@dataclass(frozen=True)
class Priority(Order):
    """Highest priority first, preemptive; by arrival within a priority."""

    name: ClassVar[str] = "priority"
    compiled: ClassVar[int | None] = 3
    static_priority: ClassVar[bool] = True
    honours: ClassVar[frozenset[str]] = frozenset({PRIORITY})

    def key(self, jobs: Jobs) -> Floats:
        """Minus the priority."""
        return -jobs.priority
