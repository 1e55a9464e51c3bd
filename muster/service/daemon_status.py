"""What the controller shows the rest of the daemon, in memory; all that must survive is in the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.formatting import duration
from muster.gpu_use import GpuUse
from muster.runtime.snapshots.taken import TakenSnapshot
from muster.schedulers.contract import Decision, Scheduler
from muster.service.engines import EngineCapabilities, UntakenJob
from muster.service.request import DEFAULT_RESTART_COST_SECONDS
from muster.workload.models import Model

STORE, MACHINE, SCHEDULER = "store", "machine", "scheduler"
"""The sources of conditions."""


@dataclass(frozen=True)
class Failing:
    """A scheduler that has failed at each of its last tries; what runs goes on, and nothing new starts."""

    since: float
    """Its first failure in a row; seconds of the store's clock."""
    count: int
    """Failures in a row."""
    words: str
    """Of the last one; they may name jobs."""


@dataclass(frozen=True)
class RefusedStart:
    """What the engine answers instead of starting a job."""

    words: str
    """Its last answer; it may name the job, its owner and folders."""
    tries: int
    since: float
    """The first of these tries; seconds of the store's clock."""

    def described(self, engine: str, now: float) -> str:
        """The answer of the engine of this name, and how often it was tried."""
        passed = duration(max(now - self.since, 0.0))
        often = "once" if self.tries == 1 else f"{self.tries:,} times in {passed}"
        return f"{engine}: {self.words}; tried {often}"


@dataclass(frozen=True)
class LastDecision:
    """The last decision and all that it went by."""

    taken: TakenSnapshot
    decision: Decision


@dataclass
class DaemonStatus:
    """Written by the controller, read by the API; each field is replaced as a whole."""

    policy: Scheduler
    engine: str
    """The engine's name, for people; `engine_capabilities` says what depends on it."""
    engine_capabilities: EngineCapabilities
    enforces: str
    """How CPU and memory grants are enforced, for people."""
    cluster: Cluster
    models: Callable[[], Mapping[str, Model]]
    """Whose sensitivity is known now, by lower-case name."""
    round_seconds: float
    scheduler_named: str = ""
    """By which the scheduler can be made again, as a file and a class; empty: its own name."""
    restart_cost_seconds: float = DEFAULT_RESTART_COST_SECONDS
    """Expected of an interruption of a job of which nothing is known."""
    ready: bool = False
    """The starts that were there before this daemon have been found again."""
    looked_at: float = field(default_factory=time.monotonic)
    """When the controller went through its loop last, by `time.monotonic`; long ago means that it hangs."""
    deciding: bool = False
    """Whether the controller decides, or writes down and sends what it has decided: what can wait gives way to it."""
    decisions: int = 0
    decision_seconds: float = 0.0
    """Of the last decision."""
    decision_seconds_sum: float = 0.0
    decision_failures: int = 0
    blocked_by: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Of each waiting job the jobs that it waits for, as the last decision has it."""
    last_decision: LastDecision | None = None
    """None: there has been none since this daemon began."""
    others: Mapping[str, NodeAllocation[str]] = field(default_factory=dict)
    """What jobs that are not Muster's hold, by node."""
    away: frozenset[str] = frozenset()
    """Nodes that the engine cannot use now: down, drained there or gone."""
    failing: Failing | None = None
    """None: the last decision was a good one."""
    refusals: Mapping[int, RefusedStart] = field(default_factory=dict)
    """By job; a job that the engine has started has none."""
    untaken: Sequence[UntakenJob] = ()
    """Jobs that were submitted to the engine and cannot be taken."""
    gpu_use: Mapping[str, Sequence[GpuUse | None]] = field(default_factory=dict)
    """How busy the GPUs of each node are, where that is known."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """By how many seconds the clock of each machine is ahead of this one's, where the engine knows that."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """What keeps it from its work, a sentence for each source; they name no user, job or host."""
    _something_new: threading.Event = field(default_factory=threading.Event)

    @property
    def scheduler(self) -> str:
        """The scheduler's full name."""
        return self.policy.name

    def configuration(self) -> dict[str, Any]:
        """What this daemon serves, as the record keeps it."""
        return {
            "cluster": self.cluster.to_dict(),
            "scheduler": self.policy.describe(),
            "settings": {
                "round_seconds": self.round_seconds,
                "engine": self.engine,
                "enforces": self.enforces,
            },
        }

    @property
    def condition(self) -> str:
        """All conditions in one line; empty if there are none."""
        return "; ".join(self.conditions[source] for source in sorted(self.conditions))

    def set_condition(self, source: str, words: str) -> None:
        """Something keeps this source from its work until `clear_condition`."""
        self.conditions = {**self.conditions, source: words}

    def clear_condition(self, source: str) -> None:
        """Nothing keeps this source from its work any more."""
        if source in self.conditions:
            self.conditions = {name: words for name, words in self.conditions.items() if name != source}

    def wake(self) -> None:
        """Wake the controller: there is something new in the store."""
        self._something_new.set()

    def wait(self, seconds: float) -> None:
        """The controller's pause: until `wake`, at most so long."""
        self._something_new.wait(seconds)
        self._something_new.clear()
