"""What owners may ask for that not every scheduler takes into account.

A scheduler lists what it honours in `honours`. The service refuses a job that asks for something else; a simulation
names the columns of the trace that have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

REQUESTS = "requests"
"""CPUs and memory: no allocation is smaller."""
PRIORITY = "priority"
DEADLINE = "deadline"
SIZES = "sizes"
"""More GPUs than asked for, up to `max_gpus`."""
FEWER_GPUS = "fewer GPUs"
"""Fewer GPUs than asked for, down to `min_gpus`."""
BATCH = "batch"
"""A total batch above the initial one, up to `max_batch`."""
WITHOUT_GPUS = "without GPUs"
"""Jobs with CPUs and memory only."""
WORKERS_AND_SERVERS = "workers and servers"
"""What each worker and server of a job with `sync` needs; to others such a job is the GPUs that it asks for."""
FURTHER_RESOURCES = "further resources"
"""Resources that do not come with Muster."""
EVEN_GANGS = "even gangs"
"""The same number of GPUs on each node of a job, where the engine needs it."""
NODES = "nodes"
"""As many nodes as a job requests, each with the same part of what it requests, as Slurm divides it."""

CPUS_AND_MEMORY = frozenset({REQUESTS, FURTHER_RESOURCES, WITHOUT_GPUS})
ALL = frozenset(
    {REQUESTS, FURTHER_RESOURCES, PRIORITY, DEADLINE, SIZES, FEWER_GPUS, WITHOUT_GPUS, EVEN_GANGS}
)
"""What one that is not shipped and says nothing is taken to honour."""
KNOWN = ALL | {BATCH, WORKERS_AND_SERVERS, NODES}


def honoured(scheduler: Any) -> frozenset[str]:
    """What a scheduler, or a part of one, states that it honours; else nothing, or `ALL` if it is not shipped."""
    shipped = type(scheduler).__module__.startswith("muster.")
    return frozenset(getattr(scheduler, "honours", frozenset() if shipped else ALL))


def divides_gpus(scheduler: Any) -> bool:
    """Whether a scheduler gives shares of a GPU. One that does not say so is taken to give them."""
    return bool(getattr(scheduler, "divides_gpus", True))


def gives_only_requests(scheduler: Any) -> bool:
    """Whether a job that requests no CPUs or memory gets none. A scheduler that does not say so gives it a share."""
    return bool(getattr(scheduler, "gives_only_requests", False))


def honoured_by_all(parts: Iterable[Any]) -> frozenset[str]:
    """What any of these parts honours."""
    return frozenset().union(*map(honoured, parts))
