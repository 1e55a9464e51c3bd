"""Which real CPUs a start runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

Key = TypeVar("Key")


class AssignedCpus(NamedTuple):
    """The CPUs of one start."""

    cpus: tuple[int, ...]
    alone: bool
    """No other start runs on them."""


def assign_cpus(
    cpus: Sequence[int], grants: Mapping[Key, float], held: Mapping[Key, Sequence[int]]
) -> dict[Key, AssignedCpus]:
    """CPUs for each grant: a whole number of CPUs is exclusive, all other grants share what is left.

    A start that has exclusive CPUs (`held`) keeps as many of them as it may. If more is granted than there is, the
    last whole ones share as well.
    """
    alone: dict[Key, list[int]] = {}
    taken: set[int] = set()
    whole = {key: round(grant) for key, grant in grants.items() if _is_whole(grant)}
    for key, count in whole.items():
        alone[key] = [cpu for cpu in held.get(key, ()) if cpu in cpus and cpu not in taken][:count]
        taken.update(alone[key])
    for key, count in whole.items():
        free = [cpu for cpu in cpus if cpu not in taken]
        missing = count - len(alone[key])
        if missing > len(free):
            taken.difference_update(alone.pop(key))
        else:
            alone[key] += free[:missing]
            taken.update(free[:missing])
    shared = tuple(cpu for cpu in cpus if cpu not in taken) or tuple(cpus)
    return {
        key: AssignedCpus(tuple(sorted(alone[key])), True) if key in alone else AssignedCpus(shared, False)
        for key in grants
    }


def _is_whole(grant: float) -> bool:
    return grant >= 1 and abs(grant - round(grant)) < 1e-6
