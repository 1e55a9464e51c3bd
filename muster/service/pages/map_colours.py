"""The colours of jobs on the map of GPUs and on the timeline, and what each of them means."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, TypeAlias, get_args

from muster.service.pages.rendering import COLOURS, colour_class
from muster.service.store.rows import AllocationInterval, Holder

OTHERS = "others"
"""The class of all that has no colour of its own."""
Attribute: TypeAlias = Literal["job", "user", "tenant", "model", "name"]
"""Of a job, by which it has its colour."""
WITH_KEY = ("user", "tenant", "model")
"""Of which few are many: their colours are by turns, and have a key."""
NAMELESS = {"tenant": "no tenant", "model": "unknown"}
"""What stands for none."""


def first_jobs(machines: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Of each node, as the API has them, the jobs that are the first on a GPU, as far as they may be seen."""
    known = [[[job for job in here if job is not None] for here in one["gpu_jobs"]] for one in machines]
    return [list(dict.fromkeys(here[0] for here in node if here)) for node in known]


def first_jobs_held(intervals: Iterable[AllocationInterval], seen: Container[int]) -> list[list[int]]:
    """The same from what is held now, in the order in which the API has it."""
    firsts: dict[str, dict[int, int]] = {}
    for interval in intervals:
        if interval.job in seen:
            of_node = firsts.setdefault(interval.allocation.node, {})
            for gpu in interval.allocation.gpu_ids:
                of_node.setdefault(gpu, interval.job)
    return [list(dict.fromkeys(node.values())) for node in firsts.values()]


def value_of(job: int, holders: Mapping[int, Holder], by: Attribute) -> str | int:
    """By what a job has its colour."""
    return job if by == "job" else getattr(holders[job], by) or NAMELESS.get(by, "unknown")


def colours_of(
    firsts: Sequence[Sequence[int]], holders: Mapping[int, Holder], by: Attribute
) -> dict[str | int, str]:
    """The class of what each job that is the first on a GPU has its colour by."""
    if by in WITH_KEY:
        jobs = sorted({job for node in firsts for job in node})
        return keyed_colours(value_of(job, holders, by) for job in jobs)
    return hashed_colours([[(job, value_of(job, holders, by)) for job in node] for node in firsts])


def own_colours(
    firsts: Sequence[Sequence[int]], holders: Mapping[int, Holder]
) -> dict[str, dict[str | int, str]]:
    """The classes that the script of the timeline cannot find by itself, by attribute and value."""
    found: dict[str, dict[str | int, str]] = {}
    for by in get_args(Attribute):
        colours = colours_of(firsts, holders, by)
        found[by] = {
            value: colour
            for value, colour in colours.items()
            if colour != (OTHERS if by in WITH_KEY else colour_class(value))
        }
    return found


def keyed_colours(values: Iterable[str | int]) -> dict[str | int, str]:
    """The classes of values in the order in which they appear: as many differ as there are colours."""
    distinct = dict.fromkeys(values)
    return {value: colour_class(at) if at < COLOURS else OTHERS for at, value in enumerate(distinct)}


def key_of(colours: Mapping[str | int, str], *, more: bool) -> list[tuple[str, str]]:
    """The class and the label of each colour; `more`: GPUs of other users are shown besides."""
    own = [(colour, str(value)) for value, colour in colours.items() if colour != OTHERS]
    return [*own, (OTHERS, "others")] if more or len(own) < len(colours) else own


def hashed_colours(nodes: Sequence[Sequence[tuple[int, str | int]]]) -> dict[str | int, str]:
    """The classes of values, where each node has jobs with their values: another one than the usual one of a value
    where that of an older job on one of its nodes is the same.

    On a node with more values than there are colours, some of them are the same.
    """
    taken_beside: dict[str | int, list[set[str]]] = {}
    for here in nodes:
        taken: set[str] = set()
        for value in {value for _, value in here}:
            taken_beside.setdefault(value, []).append(taken)
    found: dict[str | int, str] = {}
    for _, value in sorted((entry for here in nodes for entry in here), key=itemgetter(0)):
        if value not in found:
            found[value] = _free(value, taken_beside[value])
            for taken in taken_beside[value]:
                taken.add(found[value])
    return found


def _free(value: str | int, taken: Sequence[set[str]]) -> str:
    """The usual class of a value, or the next one that is free on each of its nodes."""
    usual = colour_class(value)
    if not any(usual in here for here in taken):
        return usual
    following = (colour_class(int(usual[1:]) - 1 + at) for at in range(COLOURS))
    return next((one for one in following if not any(one in here for here in taken)), usual)
