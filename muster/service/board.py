"""What the conductor tells the rest of the daemon about itself, in memory; all that must survive is in the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.cluster import Cluster
from muster.schedulers.contract import Scheduler
from muster.workload.models import Model


@dataclass
class Board:
    """Written by the conductor, read by the API; each field is replaced as a whole."""

    policy: Scheduler
    engine: str
    enforces: str
    """How CPU and memory grants are kept to, in words."""
    cluster: Cluster
    models: Callable[[], Mapping[str, Model]]
    """Whose sensitivity is known now, by lower-case name."""
    round_seconds: float
    ready: bool = False
    """The starts that were there before this daemon have been found again."""
    looked_at: float = 0.0
    """Unix seconds of the conductor's last turn of its loop; an old one means that it hangs."""
    decisions: int = 0
    decision_seconds: float = 0.0
    """Of the last decision."""
    decision_seconds_sum: float = 0.0
    free: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """GPUs, CPU cores, GB, GB/s, after the last decision."""
    trouble: str = ""
    """In words, what keeps it from working now: `no space left on the disk of the store`."""
    thinking: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever decides or forecasts: one at a time, so that neither slows the other down or compiles with it."""
    _something_new: threading.Event = field(default_factory=threading.Event)

    @property
    def scheduler(self) -> str:
        """Its full name."""
        return self.policy.name

    def wake(self) -> None:
        """Tell the conductor that there is something new in the store."""
        self._something_new.set()

    def wait(self, seconds: float) -> None:
        """The conductor's pause: until somebody wakes it, at most so long."""
        self._something_new.wait(seconds)
        self._something_new.clear()
