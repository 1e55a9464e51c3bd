"""Smallest gang first."""

from dataclasses import dataclass
from typing import ClassVar

from muster.schedulers.contract import Ints, Jobs
from muster.schedulers.parts import Order


@dataclass(frozen=True)
class Smallest(Order):
    """Fewest GPUs first, preemptive; by arrival among equals."""

    name: ClassVar[str] = "smallest"
    compiled: ClassVar[int | None] = 2
    static_priority: ClassVar[bool] = True

    def key(self, jobs: Jobs) -> Ints:
        """GPUs asked for."""
        return jobs.gpus
