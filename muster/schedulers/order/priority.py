"""The owners' priorities."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from muster.schedulers.contract import Floats, Ints, Jobs, View
from muster.schedulers.parts import Order


@dataclass(frozen=True)
class Priority(Order):
    """Highest priority first, preemptive; by arrival within a priority."""

    name: ClassVar[str] = "priority"

    def key(self, jobs: Jobs) -> Floats:
        """Minus the priority."""
        return -jobs.priority

    def overtaken_at(self, view: View, keys: Floats, running: Ints, waiting: Ints) -> float:
        """Never: priorities do not change."""
        return inf
