"""How long jobs take, drawn from those that ended, so that what is not known of them is drawn too.

Each draw has urns of its own: one of all jobs, one of each user, one of each kind of job that is alike. A job takes
one of the durations in the urn of its kind or, with the chance of a few durations more, one from the urn above. What is
drawn is put into the urn. So jobs alike resemble each other in a draw, and the fewer of them have ended, the more draws
differ (a Polya urn, which gives the Bayesian bootstrap). Running jobs are drawn before waiting ones and the one that
has run longest first: the jobs that ended by now are the shorter ones of those that began.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import polars as pl

from muster.cluster.ledger_arrays import Floats

_OF_ALL = 10.0
"""Durations of its user for which those of all jobs stand."""
_OF_THE_USER = 2.0
"""Durations of jobs alike for which those of all jobs of the user stand."""

_Kind: TypeAlias = tuple[str, ...]
"""Of whom or what an urn is: nothing of all jobs, a user, or a user with GPUs and a time limit."""


class PastDurations:
    """What the jobs that ended took: of their time limits, and in seconds."""

    def __init__(self, ended: pl.DataFrame) -> None:
        seconds = ended["end_seconds"] - ended["start_seconds"]
        kinds = _kinds(ended)
        self.shares = _by_kind(kinds, seconds / ended["time_limit_seconds"])
        self.seconds = _by_kind(kinds, seconds)


class DurationUrns:
    """The durations of one draw."""

    def __init__(self, past: PastDurations, random: np.random.Generator) -> None:
        self._random = random
        self._shares = _Urns(past.shares)
        self._seconds = _Urns(past.seconds)
        self._has_shares = bool(past.shares)

    def draw(self, jobs: pl.DataFrame, ran: Floats) -> list[float]:
        """How long each job takes in all, longer than it has run."""
        drawn = [0.0] * jobs.height
        kinds = _kinds(jobs)
        limits = jobs["time_limit_seconds"].to_list()
        by_share = [self._has_shares and limit is not None for limit in limits]
        units = [limit if share else 1.0 for limit, share in zip(limits, by_share, strict=True)]
        elapsed = (ran / np.array(units, dtype=np.float64)).tolist()
        for at in sorted(range(jobs.height), key=lambda at: -elapsed[at]):
            urn = (self._shares if by_share[at] else self._seconds).of(kinds[at])
            # One that has run for longer than any that ended may run up to its limit, or as long again.
            most = 2 * elapsed[at] if limits[at] is None else limits[at] / units[at]
            drawn[at] = urn.draw(elapsed[at], most, self._random) * units[at]
        return drawn


class _Urns:
    """The urns of one quantity, each filled when it is first needed."""

    def __init__(self, past: Mapping[_Kind, Sequence[float]]) -> None:
        self._past = past
        self._urns: dict[_Kind, _Urn] = {}

    def of(self, kind: _Kind) -> _Urn:
        urn = self._urns.get(kind)
        if urn is None:
            above = self.of(kind[:1] if len(kind) > 1 else ()) if kind else None
            weight = _OF_THE_USER if len(kind) > 1 else _OF_ALL
            urn = self._urns[kind] = _Urn(list(self._past.get(kind, ())), above, weight)
        return urn


class _Urn:
    """Durations of one kind of job, ascending; each that is drawn joins them."""

    def __init__(self, durations: list[float], above: _Urn | None, weight: float) -> None:
        self._durations = durations
        self._above = above
        self._weight = weight

    def draw(self, elapsed: float, most: float, random: np.random.Generator) -> float:
        """A duration above `elapsed`; if there is none, one up to `most`."""
        first = bisect_right(self._durations, elapsed)
        own = len(self._durations) - first
        others = self._others_above(elapsed)
        chance = random.random() * (own + others)
        if chance < own:
            drawn = self._durations[first + int(chance)]
        elif others > 0 and self._above is not None:
            drawn = self._above.draw(elapsed, most, random)
        else:
            drawn = elapsed + random.random() * max(most - elapsed, 0.0)
        insort(self._durations, drawn)
        return drawn

    def _share_above(self, elapsed: float) -> float:
        own = len(self._durations) - bisect_right(self._durations, elapsed)
        weight = 0.0 if self._above is None else self._weight
        count = len(self._durations) + weight
        return (own + self._others_above(elapsed)) / count if count else 0.0

    def _others_above(self, elapsed: float) -> float:
        return 0.0 if self._above is None else self._weight * self._above._share_above(elapsed)


def _kinds(jobs: pl.DataFrame) -> list[_Kind]:
    """For each job what it is alike in: its user, GPUs and time limit."""
    columns = [jobs[name].to_list() for name in ("user", "gpus", "time_limit_seconds")]
    return [(str(user), f"{gpus:g}", str(limit)) for user, gpus, limit in zip(*columns, strict=True)]


def _by_kind(kinds: Sequence[_Kind], durations: pl.Series) -> Mapping[_Kind, Sequence[float]]:
    found: dict[_Kind, list[float]] = defaultdict(list)
    for kind, duration in zip(kinds, durations.to_list(), strict=True):
        if duration is not None:
            for one in ((), kind[:1], kind):
                found[one].append(duration)
    return {kind: sorted(of_kind) for kind, of_kind in found.items()}
