"""Delay timers (Dally §Offers): how long a job holds out for a machine, and for a rack, before it takes less.

A job competes again when its lease ends, so timers count leases. A scheduler with one of these placements is
a `muster.schedulers.leased.Leased`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil, inf
from typing import ClassVar, Literal

import numpy as np

from muster.schedulers.contract import Floats, Ints, Snapshot, State
from muster.schedulers.parts import Placement, check_seconds, setting
from muster.schedulers.placement.delay_scheduling import MACHINE, RACK

Waits = tuple[tuple[float, float], ...]
"""When a wait succeeded, and how many leases it took."""


@dataclass(frozen=True)
class Timers(Placement):
    """What all timers share; each kind says how long a gang waits for what."""

    leases: ClassVar[bool] = True

    lease_seconds: float = setting(3600.0, "seconds after which a job gives its GPUs back and bids again")
    fit: Literal["best", "published"] = setting(
        "best",
        "which of the places on one level: the fullest, or the first in the order of the published program",
    )
    bids: Literal["always", "with-offers"] = setting(
        "always",
        "when jobs bid: also when a timer runs out, or only when GPUs have become free or jobs have come",
    )

    learns: ClassVar[bool] = False
    """Whether the timers go by waits that succeeded."""

    def __post_init__(self) -> None:
        check_seconds(self, "lease_seconds", finite=True)
        for name, value in vars(self).items():
            if name.endswith("_leases") and not value >= 0:
                raise ValueError(f"{name}: allowed: a number of leases from 0 on")

    def limits(self, gpus: int, memory: State) -> tuple[float, float]:
        """Leases that a gang of so many GPUs waits for a machine, and for a rack; inf: as long as it takes."""
        raise NotImplementedError

    def limits_of(self, gpus: Ints, memory: State) -> tuple[Floats, Floats]:
        """Likewise of many gangs."""
        by_size = np.zeros((2, int(gpus.max(initial=0)) + 1))
        for size in set(gpus.tolist()):
            by_size[:, size] = self.limits(size, memory)
        return by_size[0, gpus], by_size[1, gpus]

    def limits_for(self, snapshot: Snapshot, positions: Ints, memory: State) -> tuple[Floats, Floats]:
        """Likewise of these jobs of the view; for timers that go by more than the size."""
        return self.limits_of(snapshot.jobs.at(positions).gpus, memory)

    def nothing_learned(self) -> State:
        """The memory before the first wait."""
        return None

    def learned(self, memory: State, gpus: int, level: int, now: float, waited_leases: float) -> State:
        """The memory after a wait that got a machine or a rack."""
        return memory


@dataclass(frozen=True)
class ManualTimers(Timers):
    """Delay timers set by hand: so many leases for a machine, so many in all for a rack, then anywhere."""

    name: ClassVar[str] = "manual-timers"

    machine_leases: float = setting(1.0, "leases that a job waits for a machine; inf: always")
    rack_leases: float = setting(2.0, "leases that a job waits for a rack, from the same moment; inf: always")

    def limits(self, gpus: int, memory: State) -> tuple[float, float]:
        """The settings."""
        return self.machine_leases, self.rack_leases


@dataclass(frozen=True)
class NoWait(Timers):
    """Dally without waiting: the best place there is, at once."""

    name: ClassVar[str] = "no-wait"

    def limits(self, gpus: int, memory: State) -> tuple[float, float]:
        """Nothing is waited for."""
        return 0.0, 0.0


@dataclass(frozen=True)
class FullyConsolidated(Timers):
    """Dally that never takes less: one machine, or where no machine is large enough one rack."""

    name: ClassVar[str] = "fully-consolidated"

    def limits(self, gpus: int, memory: State) -> tuple[float, float]:
        """As long as it takes."""
        return inf, inf


@dataclass(frozen=True)
class DelayTimers(Timers):
    """Dally's delay timers, tuned by what waits of gangs of the same size have led to."""

    name: ClassVar[str] = "delay-timers"
    learns: ClassVar[bool] = True

    history_leases: float = setting(
        24.0, "H: waits of so many leases ago are forgotten, timers never exceed it"
    )
    least_machine_leases: float = setting(6.0, "the machine timer is at least so long, as far as H allows")
    least_rack_leases: float = setting(12.0, "the rack timer is at least so long, as far as H allows")
    forgets: Literal["all", "published"] = setting(
        "all",
        "which of the waits older than H are dropped: all, or every second one as in the published program",
    )

    def limits(self, gpus: int, memory: State) -> tuple[float, float]:
        """As learned for this size."""
        limits: tuple[float, float] = memory["limits"].get(gpus) or _untaught(self)
        return limits

    def tuned(self, for_machine: Waits, for_rack: Waits) -> tuple[float, float]:
        """Mean and two standard deviations of the waits that succeeded, within bounds (Dally §Auto-tuner)."""
        machine = max(self.least_machine_leases, ceil(_mean_and_two_deviations(for_machine)))
        rack = max(self.least_rack_leases, ceil(_mean_and_two_deviations(for_rack)))
        most_for_a_machine = ceil(0.8 * self.history_leases) if self.history_leases < inf else inf
        return min(most_for_a_machine, machine), min(self.history_leases, rack)

    def nothing_learned(self) -> State:
        """No waits by level and gang size, and no timers that follow from them."""
        return {"machine": {}, "rack": {}, "limits": {}}

    def learned(self, memory: State, gpus: int, level: int, now: float, waited_leases: float) -> State:
        """With this wait, if it took a lease or more, and without those that are too old."""
        if waited_leases < 1 or level > RACK:
            return memory
        kind = "machine" if level <= MACHINE else "rack"
        oldest = now - self.history_leases * self.lease_seconds
        waits: Waits = (*memory[kind].get(gpus, ()), (now, waited_leases))
        if self.forgets == "published":
            recent = _every_second_dropped(waits, oldest)
        else:
            recent = tuple(wait for wait in waits if wait[0] >= oldest)
        memory = {**memory, kind: {**memory[kind], gpus: recent}}
        tuned = self.tuned(memory["machine"].get(gpus, ()), memory["rack"].get(gpus, ()))
        return {**memory, "limits": {**memory["limits"], gpus: tuned}}


@cache
def _untaught(timers: DelayTimers) -> tuple[float, float]:
    """The timers of a size that has not waited yet."""
    return timers.tuned((), ())


def _every_second_dropped(waits: Waits, oldest: float) -> Waits:
    """The waits without the old ones; whichever moves into the place of a dropped one is not looked at."""
    left = list(waits)
    at = 0
    while at < len(left):
        if left[at][0] < oldest:
            del left[at]
        at += 1
    return tuple(left)


def _mean_and_two_deviations(waits: Waits) -> float:
    """Of the population; 1 lease where there is none."""
    if not waits:
        return 1.0
    leases = np.array([wait[1] for wait in waits])
    return float(leases.mean() + 2.0 * leases.std())
