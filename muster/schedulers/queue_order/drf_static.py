"""Dominant resource fairness among jobs by what they demand at best, as the Synergy authors' program has it."""

from dataclasses import dataclass
from typing import ClassVar

from muster.schedulers.contract import Floats, Snapshot, State
from muster.schedulers.parts import Order
from muster.schedulers.queue_order.tetris import demand_over_cluster


@dataclass(frozen=True)
class DrfStatic(Order):
    """Smallest dominant share of its best-case demand first; a share never grows with service (Synergy)."""

    name: ClassVar[str] = "drf-static"
    static_priority: ClassVar[bool] = True

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """The largest of its parts of the cluster's GPUs, CPUs and memory."""
        return demand_over_cluster(snapshot).max(axis=1, initial=0.0), state
