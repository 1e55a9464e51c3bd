"""The resources that nodes have and jobs hold, each described once.

GPUs, CPU cores, memory and storage bandwidth come with Muster. A further one, such as GPU power, is an entry point of
the group `muster.resources` that names a `Resource` (docs/resources.md); nothing else in Muster knows of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata

from muster.problems import InputError, Problem

ENTRY_POINTS = "muster.resources"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Resource:
    """One kind of thing that a node has an amount of."""

    name: str
    """Its key in a cluster file and its column in traces and records; ends with the unit (`power_watts`)."""
    unit: str
    """As people read it: `W`."""
    per_gpu: bool
    """A job states the amount for each of its GPUs; else for all of them together."""
    divisible: bool = True
    """Any amount is possible; else whole numbers, as of licences."""
    requested: bool = True
    """A job can state beside its GPUs how much it needs."""

    def in_all(self, amount: float, gpus: int) -> float:
        """What a job of so many GPUs needs that states this amount."""
        return amount * gpus if self.per_gpu else amount

    def allows(self, amount: float) -> bool:
        """Whether there can be such an amount of it."""
        return self.divisible or amount == int(amount)


BUILT_IN = (
    Resource("gpus", "GPUs", per_gpu=False, requested=False),
    Resource("cpus", "CPU cores", per_gpu=False),
    Resource("memory_gb", "GB", per_gpu=False),
    Resource("storage_gb_per_s", "GB/s", per_gpu=False, requested=False),
)


MOST_RESOURCES = 8
"""For which the records of compiled code have room."""


def installed_resources() -> tuple[Resource, ...]:
    """The resources that installed packages add, by name. InputError if an entry point names none that can be used."""
    found: list[Resource] = []
    for point in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        where = f"entry point {point.name} of {ENTRY_POINTS}"
        try:
            resource = point.load()
        except Exception as error:
            what = f"cannot be loaded: {type(error).__name__}: {error}"
            raise InputError(Problem(where, what, found=point.value)) from error
        if not isinstance(resource, Resource):
            raise InputError(
                Problem(where, "allowed: a muster.cluster.resources.Resource", found=point.value)
            )
        if not _NAME.fullmatch(resource.name):
            what = "a name of lower-case letters, digits and _ is needed, such as power_watts"
            raise InputError(Problem(where, what, column="name", found=resource.name))
        if resource.name in {one.name for one in (*BUILT_IN, *found)}:
            what = "two resources have this name; each needs its own"
            raise InputError(Problem(where, what, column="name", found=resource.name))
        found.append(resource)
    if len(BUILT_IN) + len(found) > MOST_RESOURCES:
        what = f"at most {MOST_RESOURCES - len(BUILT_IN)} further resources can be counted"
        raise InputError(Problem(f"entry points of {ENTRY_POINTS}", what, found=len(found)))
    return tuple(found)


FURTHER = installed_resources()
"""Those that do not come with Muster. A job holds exactly its request: no model says what more of them is worth."""
UNKNOWN = f"no installed package describes this resource; there are: {', '.join(one.name for one in FURTHER) or 'none'}"
"""Of a name in a request or a cluster file."""
RESOURCES = (*BUILT_IN, *FURTHER)
"""All, in the order of the ledger's columns."""
RESOURCE_COUNT, BUILT_IN_COUNT = len(RESOURCES), len(BUILT_IN)
"""Constants of the compiled functions that walk over resources."""
