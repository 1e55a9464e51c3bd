"""Which points are measured to test a profile, and how long each model may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

SHARES = (1.0, 0.6, 0.25)
"""Cached parts of the data set, the largest first: a cache is filled once and then shrunk, which takes no time."""
_LEAST_PART = 8
"""Of the most cores: below an eighth of them a step takes longer than a window."""


def held_out_points(
    points: Sequence[float], visited: Collection[float], count: int
) -> list[tuple[float, list[float]]]:
    """Cached share and cores to run there, evenly spread over those that the profile did not visit.

    Cores ascend within a share, so that no batches wait that were prepared with more of them. Where the profile
    visited all, the points differ from its own by the cached share alone.
    """
    enough = [cores for cores in points if cores >= points[-1] / _LEAST_PART]
    free = [cores for cores in enough if cores not in visited] or enough
    last, wanted = len(free) - 1, min(count, len(free))
    spread = [free[round(number * last / max(wanted - 1, 1))] for number in range(wanted)]
    by_share = ((share, spread[at :: len(SHARES)]) for at, share in enumerate(SHARES))
    return [(share, cores) for share, cores in by_share if cores]


class OutOfTime(Exception):
    """A model has had its part of the time."""


@dataclass(frozen=True)
class Budget:
    """The time for all models."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    begin: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begin", self.clock())

    @property
    def spent(self) -> float:
        """Seconds since the begin."""
        return self.clock() - self.begin

    def deadline(self, models: int) -> float:
        """Seconds since the begin at which the next of so many models has to be done: an equal part of what is left."""
        return self.spent + (self.seconds - self.spent) / models

    def check(self, deadline: float) -> None:
        """Raises if it has passed."""
        if self.spent > deadline:
            raise OutOfTime


def affordable(seconds: float, seconds_each: float, most: int) -> int:
    """How many points can be measured in so much time."""
    return max(0, min(most, int(seconds / seconds_each)))
