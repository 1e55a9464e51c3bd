"""The best numbers of workers and parameter servers of one job (SMD's inner problem, by trying all)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from muster.schedulers.workers_and_servers.sizes import Demands, FloatArray, surface
from muster.speed.parameter_server import StepTime, stack

RESOURCES = ("gpu", "cpu", "memory_gb")
NEARLY = 0.05
"""How much longer than the best a thrifty size may take."""


@dataclass(frozen=True, eq=False)
class Sized:
    """The best pair of one job, and the completion time with every pair within its limit."""

    workers: int
    servers: int
    thrifty: tuple[int, int]
    """Workers and servers that take the smallest share of the limit and are nearly as fast."""
    surface_seconds: FloatArray
    """(workers, servers) from 1 on; infinite beyond the limit."""
    stage_seconds: Mapping[str, float]
    """Of one iteration with the best pair."""
    usage: Mapping[str, float]

    def completion_seconds(self, workers: int, servers: int) -> float:
        """With this pair."""
        return float(self.surface_seconds[workers - 1, servers - 1])

    @property
    def best_seconds(self) -> float:
        """Completion with the best pair."""
        return self.completion_seconds(self.workers, self.servers)


def sized(
    step: StepTime,
    batch: int,
    worker: Mapping[str, float],
    server: Mapping[str, float],
    limits: Mapping[str, float],
    iterations: int,
) -> Sized:
    """The best pair that the limits allow, with a sample of the batch for each worker; of equals the fewest workers.

    InputError if not even one worker and one server fit.
    """
    limited = [resource for resource in RESOURCES if resource in limits]
    of_worker, of_server, of_job = (
        [held.get(resource, 0.0) for resource in limited] for held in (worker, server, limits)
    )
    demands = Demands.checked(of_worker, of_server, of_job, limited, ["--limit"])
    seconds = surface(stack([step]), demands)[0][:batch]
    best = [float(at + 1) for at in np.unravel_index(seconds.argmin(), seconds.shape)]
    stages = step.stage_seconds(*best)
    held = demands.usage(*(np.array([count]) for count in best))[0]
    workers, servers = np.nonzero(seconds <= seconds.min() * (1 + NEARLY))
    share = (demands.usage(workers + 1, servers + 1) / demands.limit).max(axis=-1)
    least = share.argmin()
    return Sized(
        int(best[0]),
        int(best[1]),
        (int(workers[least]) + 1, int(servers[least]) + 1),
        iterations * seconds,
        dict(zip(("compute", "communication", "update"), map(float, stages), strict=True)),
        dict(zip(limited, map(float, held), strict=True)),
    )
