"""Which jobs Slurm's partitions take, from what Slurm says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

_UNLIMITED = ("", "-1", "(null)", "infinite", "n/a", "none", "unlimited")


@dataclass(frozen=True)
class PartitionLimits:
    """What a job of one partition may ask for; None: any amount."""

    name: str
    is_default: bool
    """Whether jobs without a partition are in this one."""
    state: str
    """UP, or why no job starts."""
    default_seconds: float | None
    """Time limit of a job that states none; None: `max_seconds`."""
    max_seconds: float | None
    max_nodes: int | None
    min_nodes: int


def limits_of(
    partitions: Iterable[Mapping[str, str]], seconds: Callable[[str, str], int]
) -> dict[str, PartitionLimits]:
    """The limits of each partition by its name; `seconds` reads a time, and settings have names in lower case."""
    found = {}
    for one in partitions:
        default, time = (
            None if (stated := _stated(one.get(name.lower(), ""))) is None else float(seconds(name, stated))
            for name in ("DefaultTime", "MaxTime")
        )
        most, least = (_stated(one.get(name, "")) for name in ("maxnodes", "minnodes"))
        found[one["partitionname"]] = PartitionLimits(
            one["partitionname"],
            one.get("default", "").lower() == "yes",
            one.get("state", "").upper() or "UP",
            default,
            time,
            int(most) if most and most.isdigit() else None,
            int(least) if least and least.isdigit() else 1,
        )
    return found


def _stated(value: str) -> str | None:
    return None if value.lower() in _UNLIMITED else value
