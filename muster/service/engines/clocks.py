"""By how much the clocks of other machines differ from this one's: the one place that knows it.

An engine reads times of other machines: when a process of theirs ended, or what time it is there. Of the latter it
knows before and after which moments of this machine's clock it was read. This bounds the difference; several readings
bound it more closely, until they contradict each other because a clock was set.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from math import inf

import structlog

NOTABLE_SECONDS = 2.0
"""Difference from which on it is named; clocks that are kept right differ by milliseconds."""
_SET_SECONDS = 0.5
"""By which this machine's clock is set at the least where that is noticed."""

log = structlog.get_logger()


class MachineClocks:
    """The clocks of other machines, by name."""

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        """`steady` goes on alike where this machine's clock is set."""
        self._now, self._steady = now, steady
        self._began = now() - steady()
        """What the clock showed when `steady` began, as it was set at the last reading."""
        self._bounds: dict[str, tuple[float, float]] = {}
        """Lower and upper bound of how far each is ahead of this machine's clock, in seconds."""
        self._named: set[str] = set()

    def note(self, machine: str, shown: float, asked: float, step: float = 0.0) -> None:
        """Take what a clock has shown at a moment from `asked` to now; it counts in steps of so many seconds."""
        if self.was_set:
            by = self._now() - self._steady() - self._began
            self._bounds = {name: (low - by, high - by) for name, (low, high) in self._bounds.items()}
            self._began += by
        least, most = shown - self._now(), shown + step - asked
        before = self._bounds.get(machine, (-inf, inf))
        both = max(least, before[0]), min(most, before[1])
        self._bounds[machine] = both if both[0] <= both[1] else (least, most)
        self._name(machine)

    @property
    def was_set(self) -> bool:
        """This machine's clock was set since the last reading; a machine beside it may be this one."""
        return abs(self._now() - self._steady() - self._began) >= _SET_SECONDS

    def ahead(self, machine: str) -> float:
        """Return by how many seconds a clock is ahead at the least; negative: it is behind; 0: none was read.

        In tenths, so that it stays as it is while the bounds come closer.
        """
        least, most = self._bounds.get(machine, (0.0, 0.0))
        return round(min(max(least, 0.0), most), 1)

    def here(self, machine: str, moment: float) -> float:
        """Return a time of another machine by this one's clock, both in Unix seconds."""
        return moment - self.ahead(machine)

    def at_the_latest(self, machine: str, moment: float) -> float:
        """Return the latest that a time of another machine may be by this one's clock."""
        return moment - self._bounds.get(machine, (0.0, 0.0))[0]

    def keep(self, machines: Collection[str]) -> None:
        """Forget the clocks of all other machines."""
        self._bounds = {name: bounds for name, bounds in self._bounds.items() if name in machines}

    def differences(self) -> dict[str, float]:
        """Return by how many seconds each clock is ahead at the least."""
        return {machine: self.ahead(machine) for machine in self._bounds}

    def _name(self, machine: str) -> None:
        """Log a difference once."""
        ahead = self.ahead(machine)
        if abs(ahead) < NOTABLE_SECONDS:
            self._named.discard(machine)
        elif machine not in self._named:
            self._named.add(machine)
            log.warning("a clock differs", machine=machine, ahead_seconds=round(ahead, 1))
