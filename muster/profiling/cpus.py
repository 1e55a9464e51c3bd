"""How a running job is given more or less CPU: by quota where this machine has control groups, else by affinity."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from muster import formatting
from muster.cgroups import Ability, Cgroups, Group
from muster.cgroups.own_limits import own_limits
from muster.problems import InputError, Problem
from muster.processes import run_on

_HIGH_WEIGHT, _ORDINARY_WEIGHT = 10_000, 100
"""CPU weights while a job is measured, and else."""
_FINE_UP_TO = 4
"""Cores up to which a quota is tried in quarters of one; above, in whole ones."""


class CpuGrants(Protocol):
    """Gives a running job CPU."""

    def give(self, cores: float) -> None:
        """From now on the job has so many cores, all its processes together."""


@dataclass(frozen=True)
class QuotaGrants:
    """CPU time by a control group that a busy machine disturbs little."""

    cgroups: Cgroups
    group: Group

    def give(self, cores: float) -> None:
        """Sets the quota; and the weight again, which another profile that ended may have lowered."""
        self.group.set_cpu_quota(cores)
        if Ability.CPU_WEIGHT in self.cgroups.abilities:
            self.group.set_cpu_weight(_HIGH_WEIGHT)
            self.cgroups.set_cpu_weight_of_all(_HIGH_WEIGHT)

    def used_seconds(self) -> float | None:
        """CPU time that the job has had so far; None where groups do not count it."""
        return self.group.cpu_seconds() if Ability.CPU_SECONDS in self.cgroups.abilities else None

    def take_back(self) -> None:
        """Lowers the weight of Muster's groups together to that of an ordinary process."""
        if Ability.CPU_WEIGHT in self.cgroups.abilities:
            self.cgroups.set_cpu_weight_of_all(_ORDINARY_WEIGHT)


@dataclass(frozen=True)
class AffinityGrants:
    """Whole CPUs, shared with whatever else runs on them; what a process starts inherits them."""

    pids: Callable[[], Iterable[int]]

    def give(self, cores: float) -> None:
        """Pins every thread. Twice, as one not yet pinned may have started another meanwhile."""
        cpus = sorted(os.sched_getaffinity(0))[: round(cores)]
        for _ in range(2):
            run_on(self.pids(), cpus)


def has_quota(cgroups: Cgroups) -> bool:
    """Whether fractions of a core can be given."""
    return Ability.CPU_QUOTA in cgroups.abilities


def cpu_points(most: float | None, *, fractions: bool) -> tuple[float, ...]:
    """The CPU amounts that may be tried, ascending; refuses what this machine cannot show."""
    quota, _ = own_limits()
    real = min(float(len(os.sched_getaffinity(0))), quota)
    wanted = real if most is None else most
    if not (math.isfinite(wanted) and 0 < wanted <= real):
        what = f"allowed: more than 0 and at most {formatting.cores(real)}; this process may use no more"
        raise InputError(Problem("--cpus", what, found=most))
    step = 0.25 if fractions and wanted <= _FINE_UP_TO else 1.0
    points = tuple(step * number for number in range(1, math.floor(wanted / step + 1e-9) + 1))
    if len(points) < 2:
        what = (
            "at least two amounts of CPU have to be compared; give it more"
            if fractions
            else "without a CPU quota only whole cores can be given, and two amounts of them are needed to compare"
        )
        raise InputError(Problem("--cpus", what, found=wanted))
    return points
