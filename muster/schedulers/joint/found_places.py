"""What a plan found for the sizes that were chosen: a place or none, and how fast the job is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.gangs import Gangs, forms_of, speed_by_kind
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.joint.modelled_speeds import TypedSizes, is_type
from muster.schedulers.joint.size_choice import SizeOptions
from muster.schedulers.joint.sizes import has_types, known_seconds

_NO_PLACE, _SLOW = 0.05, 0.01
"""Sizes are chosen again where jobs for more than such a part of the GPUs have no place, or lose it in slow ones."""
_ANY = np.iinfo(np.int64).max
"""However many GPUs."""


def as_placed(given: AllocationInput, sizes: TypedSizes, draft: PlacementDraft) -> Floats | None:
    """Return how fast each job is known to be on the machines of a draft, relative to as few as hold its GPUs.

    None where nothing is known of that, or where on a network the forms of places say it.
    """
    if given.snapshot.size_speeds is None or len(forms_of(given.snapshot, sizes.gpus).line):
        return None
    factor, machines = np.ones(len(sizes.at)), np.zeros(len(sizes.at), np.int64)
    for at, _ in _node_parts(draft):
        machines[at] += 1
    several = np.flatnonzero(machines > 1)
    if len(several):
        rows = sizes.rows(several)
        closest, here = known_seconds(given, rows), known_seconds(given, rows, machines[several])
        known = np.isfinite(closest) & ~np.isnan(here)
        factor[several[known]] = closest[known] / here[known]
    return factor


class Found(NamedTuple):
    """What became of the chosen sizes in a plan, by position of the job."""

    part: Floats
    """What part of its worth it has on sizes from `least` to `most`."""
    least: Ints
    most: Ints

    def calls_for_others(self, sizes: TypedSizes, gpus: int) -> bool:
        """Return whether sizes are to be chosen again, on a cluster with so many GPUs that jobs have or may get."""
        lost = (1 - self.part) * sizes.gpus
        no_place = self.part == 0.0
        return bool(lost[no_place].sum() > _NO_PLACE * gpus or lost[~no_place].sum() > _SLOW * gpus)


def as_found(
    given: AllocationInput, gangs: Gangs, sizes: TypedSizes, wanted: Bools, draft: PlacementDraft
) -> Found:
    """Return what became of the sizes of elastic jobs and the types of others in a draft.

    One that is wanted and has no place is worth nothing; what the draft leaves is, if that is enough for the job. A
    placed job counts as fast as on the slowest of its nodes, if it had that alone and nothing communicated, relative
    to those that suit it best; not where it has as many GPUs as it has of these. Jobs that keep their places are left
    out.
    """
    jobs, part = given.snapshot.jobs, as_placed(given, sizes, draft)
    most_fast = np.zeros(len(jobs), np.int64)
    if part is None:
        part, most_fast = _on_its_nodes(given, gangs, draft)
    part[~given.opened.movable] = 1.0
    chooses = jobs.elastic | has_types(given.snapshot)
    no_place = chooses & given.opened.movable & wanted & (draft.first < 0)
    part[no_place] = 0.0
    left = (gangs.node_allowed @ np.maximum(draft.free[:, 0], 0))[gangs.constraint]
    fits = np.where(no_place & (jobs.min_gpus <= left), left, most_fast)
    least = np.where(fits > 0, np.minimum(fits + 1, sizes.gpus), sizes.gpus)
    return Found(part, least, np.where(no_place | (most_fast > 0), _ANY, sizes.gpus))


def worth_less(options: SizeOptions, types: Ints, found: Found) -> SizeOptions:
    """Return the options with what was found for jobs on these types, by position."""
    every = options.sizes
    at, gpus = every.at, every.gpus
    here = (found.least[at] <= gpus) & (gpus <= found.most[at]) & is_type(every.gpu_type, types[at])
    return SizeOptions(every, options.worth * np.where(here, found.part[at], 1.0))


def _on_its_nodes(given: AllocationInput, gangs: Gangs, draft: PlacementDraft) -> tuple[Floats, Ints]:
    """Return how fast each elastic job is on the slowest of its nodes, and how many GPUs it has on the fastest kind.

    As a part of its speed on that kind; no GPUs where all nodes are as fast.
    """
    part, fast = np.ones(len(gangs.gpus)), np.zeros(len(gangs.gpus), np.int64)
    elastic = given.snapshot.jobs.elastic
    if (gangs.kinds["gpus"] > 0).sum() < 2 or not elastic.any():
        return part, fast
    speed, best = speed_by_kind(gangs)
    for every, number in _node_parts(draft):
        at, here = every[elastic[every]], draft.node_parts[number[elastic[every]]]
        on_node = speed[at, gangs.kind_of_node[here["node"]]]
        part[at] = np.minimum(part[at], np.where(best[at] > 0, on_node / np.maximum(best[at], 1e-9), 1.0))
        fast[at] += np.where(on_node >= best[at], here["gpus"], 0)
    fast[part == 1.0] = 0
    return part, fast


def _node_parts(draft: PlacementDraft) -> Iterator[tuple[Ints, Ints]]:
    """Yield the positions of placed jobs with a node part of each, then of those with another one, and so on."""
    at = np.flatnonzero(draft.first >= 0)
    number = draft.first[at]
    while len(at):
        yield at, number
        number = draft.node_parts["next"][number]
        more = number >= 0
        at, number = at[more], number[more]
