"""How long jobs are, learned from those that ended, for each kind of job.

A job's length is the GPU time that it takes in all, its age the GPU time that it has attained. Jobs of one model are a
kind, of these those of one tenant, then of one user, then of one size. Each kind is believed to fare as the kind around
it, until its own ended jobs say otherwise. How many it takes is learned too: by how likely each number makes
the lengths so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.cluster.portable_math import log
from muster.schedulers.contract import Snapshot
from muster.schedulers.queue_order.lengths_by_kind_core import chances_to_end, number_kinds
from muster.workload.jobs import COMPLETED, JobTable

EDGES: Floats = np.ldexp(60.0, np.arange(20))
"""GPU-seconds that separate the classes of attained service: from a minute of a GPU, each twice the one before."""
_PRIOR_FROM = 4 * 3600.0
_PRIOR_JOBS = 4.0
"""Before anything is known, lengths count as spread evenly over the classes above four GPU-hours, as if so many jobs
had ended there: jobs are then served by arrival, until one has attained about sixteen."""
_ABOVE = np.append(0.0, EDGES) >= _PRIOR_FROM
_PRIOR: Floats = _ABOVE * (_PRIOR_JOBS / _ABOVE.sum())
_NONE = np.zeros(len(_PRIOR), np.int64).tobytes()
_WEIGHTS: Floats = np.array([1e9, 32.0, 8.0, 4.0, 2.0, 1.0])
"""So many jobs that fare as in the kind around it may count beside those of a kind; with the first, kinds are alike."""
_MOST_KINDS = 2000
"""Those in which no job has ended for longest are forgotten."""
_NESTED: Ints = np.array([0, 0, 1, 2, 3])
_NO_JOBS: Ints = np.zeros(0, np.int64)

Kind: TypeAlias = tuple[str | int, ...]
"""A model, a tenant, a user and a number of GPUs, or only the first of these."""


@dataclass(frozen=True)
class KnownLengths:
    """What the jobs that ended have taught."""

    ended: Mapping[Kind, bytes] = field(default_factory=dict)
    """How many jobs of each kind ended in each class of length, as whole numbers of eight bytes."""
    scores: tuple[float, ...] = (0.0,) * len(_WEIGHTS)
    """By weight, the logarithm of the likelihood that it gave to the lengths so far."""

    def after(self, table: JobTable, gone: Ints, learn_from: int) -> KnownLengths:
        """With those of some jobs, no longer in the system, that are completed."""
        done = gone[table.facts["state"][gone] == COMPLETED]
        if not len(done):
            return self
        ended, scores = dict(self.ended), np.array(self.scores)
        classes = np.digitize(table.facts["attained"][done], EDGES).tolist()
        for traits, at in zip(_traits(table, done), classes, strict=True):
            kinds = [traits[:count] for count in range(len(traits) + 1)]
            counts = _counts([ended.pop(kind, _NONE) for kind in kinds])
            if counts[0].sum() >= learn_from and counts[0, at] + _PRIOR[at] > 0:
                scores += [_likelihood(counts, at, weight) for weight in _WEIGHTS]
            counts[:, at] += 1
            ended |= {kind: row.tobytes() for kind, row in zip(kinds, counts, strict=True)}
        for kind in list(ended)[:-_MOST_KINDS]:
            del ended[kind]
        return KnownLengths(ended, tuple(scores.tolist()))

    def chances(self, snapshot: Snapshot, ages: Ints, learn_from: int) -> tuple[Ints, Floats]:
        """The kind of each job, one for all before anything is known, and the chance of each to end in each class."""
        if not len(ages) or _counts([self.ended.get((), _NONE)]).sum() < learn_from:
            kinds, wider, counts = np.zeros(len(ages), np.int64), _NESTED[:1], _counts([_NONE])
        else:
            kinds, wider, traits, examples = number_kinds(snapshot.table.asked, snapshot.jobs.index)
            named = zip(_traits(snapshot.table, examples), traits.tolist(), strict=True)
            counts = _counts([self.ended.get(own[:count], _NONE) for own, count in named])
        weight = float(_WEIGHTS[np.argmax(self.scores)])
        return kinds, chances_to_end(counts, _PRIOR, wider, kinds, ages, weight)


def _counts(rows: list[bytes]) -> Ints:
    """By kind and class."""
    return np.frombuffer(bytearray(b"".join(rows)), np.int64).reshape(-1, len(_PRIOR))


def _likelihood(counts: Ints, at: int, weight: float) -> float:
    """Logarithm of the chance that a job of the narrowest of these kinds ends in a class."""
    chances = chances_to_end(counts, _PRIOR, _NESTED, _NO_JOBS, _NO_JOBS, weight)[-1]
    return float(log(np.append(1.0 - chances[:at], chances[at])).sum())


def _traits(table: JobTable, jobs: Ints) -> list[Kind]:
    """The narrowest kind of each job."""
    asked = table.asked[jobs]
    named = (
        (table.model_names, asked["model"]),
        (table.tenants, asked["tenant"]),
        (table.users, asked["user"]),
    )
    columns = [[names[number] for number in numbers.tolist()] for names, numbers in named]
    return list(zip(*columns, asked["gpus"].tolist(), strict=True))
