"""Job groups of Dally's published program: hyperparameter searches whose later trials get less work.

A group is looked at once, when its first members arrive. Members that arrive later never count.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cmp_to_key

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints

JOB_GROUP = "job_group_id"
"""The column of a trace that has the group of each job."""


def samples_after_groups(samples: Ints, groups: Sequence[Hashable], arrivals: Floats, id_ranks: Ints) -> Ints:
    """Samples of each job once the groups have cut the work of their members; all in order of arrival."""
    members: dict[Hashable, list[int]] = {}
    for job, group in enumerate(groups):
        if group is not None:
            known = members.setdefault(group, [])
            if not known or arrivals[job] == arrivals[known[0]]:
                known.append(job)
    cut = samples.copy()
    for jobs in members.values():
        if len(jobs) > 1:
            _cut_group(jobs, samples.tolist(), id_ranks.tolist(), cut)
    return cut


def _cut_group(jobs: Sequence[int], samples: Sequence[int], id_ranks: Sequence[int], cut: Ints) -> None:
    """Halve what is left of the sorted members again and again; each half may have one step more work."""

    def compare(one: int, other: int) -> int:
        return _low_32_bits(samples[one] - samples[other]) or id_ranks[one] - id_ranks[other]

    ordered = sorted(jobs, key=cmp_to_key(compare))
    count = len(ordered)
    step = samples[ordered[-1]] // (count.bit_length() - 1)
    first, steps = 0, 1
    while first < count - 1:
        half = (count - first) // 2
        for job in ordered[first : first + half]:
            cut[job] = min(samples[job], steps * step)
        first += half
        steps += 1


def _low_32_bits(difference: int) -> int:
    """What the published comparison keeps of a difference: its low 32 bits, with their sign."""
    return int(np.array(difference, np.int64).astype(np.int32))
