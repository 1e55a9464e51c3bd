"""How fast jobs go on other numbers of GPUs, learned from the steps that they report on the sizes they have had.

Jobs of one model share what is known; a job without a model stands alone. The law is that of `speed.scaling`, fitted
again once a job reports from a new size, or steps that differ from the last fit's by more than `REFIT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import NamedTuple, TypeAlias

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.service.store.rows import JobRow, SizeSteps
from muster.speed.scaling import ScalingLaw, StepTimes, fit_scaling

REMEMBERED = 1000
"""Newest jobs whose measured speeds and restart costs count."""
REFIT = 0.05
"""Relative change of a measured step from which the law is fitted again."""
_FEWEST_SIZES = 2
"""Numbers of GPUs that have to be measured before they say more than the model."""

Kind: TypeAlias = tuple[str, int]
"""The model in lower case, or the number of a job that has none."""


class _Size(NamedTuple):
    machines: int
    gpus: int
    batch: float
    """Samples of each GPU, in those of a GPU that the owner asks for."""


@dataclass
class _Learned:
    """What is known of one kind of jobs."""

    newest: dict[_Size, float] = field(default_factory=dict)
    """Seconds of a step."""
    fitted: dict[_Size, float] = field(default_factory=dict)
    """Those that the law goes by."""
    _law: ScalingLaw | None = None
    _is_stale: bool = False

    def learn(self, size: _Size, seconds: float) -> bool:
        """Take a measured step; whether the law is another one from now on."""
        self.newest[size] = seconds
        before = self.fitted.get(size)
        if before is not None and abs(seconds / before - 1) <= REFIT:
            return False
        self.fitted = dict(self.newest)
        self._is_stale = len({one.gpus for one in self.fitted}) >= _FEWEST_SIZES
        return self._is_stale

    @property
    def law(self) -> ScalingLaw | None:
        """The law of all sizes measured so far; None: too few."""
        if self._is_stale:
            machines, gpus, batch = np.array(list(self.fitted), dtype=np.float64).T
            seconds = np.array(list(self.fitted.values()))
            times = StepTimes(machines, gpus, batch, seconds, np.full(len(seconds), np.nan))
            self._law, self._is_stale = fit_scaling(times), False
        return self._law


class LearnedSizes:
    """What schedulers see as `Snapshot.size_speeds`."""

    def __init__(self) -> None:
        self._learned: dict[Kind, _Learned] = {}
        self._jobs: dict[int, tuple[Kind, int]] = {}
        """Of each elastic job its kind, and the GPUs that it asks for."""

    @classmethod
    def of(cls, rows: Iterable[JobRow]) -> LearnedSizes:
        """Return what these jobs have measured; of two steps on one size the later job's counts."""
        learned = cls()
        for row in rows:
            learned.learn(row)
        return learned

    def __bool__(self) -> bool:
        """Whether there is a law of any kind of jobs."""
        return any(learned.law is not None for learned in self._learned.values())

    def learn(self, row: JobRow) -> bool:
        """Take what a job has measured; whether anything is another law from now on."""
        if not row.request.changes_size:
            return False
        model = row.request.model
        kind = (model.lower(), 0) if model else ("", row.id)
        self._jobs[row.id] = kind, row.request.gpus
        if not row.size_steps:
            return False
        learned = self._learned.setdefault(kind, _Learned())
        sizes = [_Size(size.nodes, size.gpus, row.request.gpus / size.gpus) for size in row.size_steps]
        news = [learned.learn(size, one.seconds) for size, one in zip(sizes, row.size_steps, strict=True)]
        return any(news)

    def seconds_per_iteration(self, jobs: Ints, gpus: Ints, nodes: Ints, gpu_type: str) -> Floats:
        """Seconds of a step of each job on so many GPUs of so many nodes, of the type it was measured on.

        NaN where too few sizes were measured.
        """
        seconds: Floats = np.full(len(jobs), np.nan)
        for job in np.unique(jobs).tolist():
            kind, asked = self._jobs.get(job, (("", job), 1))
            learned = self._learned.get(kind)
            if learned is None or learned.law is None:
                continue
            rows = np.flatnonzero(jobs == job)
            sizes = gpus[rows].astype(np.float64)
            seconds[rows] = learned.law.step_seconds(nodes[rows].astype(np.float64), sizes, asked / sizes)
        return seconds

    def usual_over(self, row: JobRow, gpus: int, gpus_per_node: int) -> float | None:
        """How many times as long as on `gpus` a step takes on the GPUs that a job asks for; None: not known.

        Both on as few nodes as hold them.
        """
        sizes = np.array([row.usual_gpus, gpus])
        jobs = np.full(2, row.id)
        usual, here = self.seconds_per_iteration(jobs, sizes, -(-sizes // gpus_per_node), "").tolist()
        return None if isnan(here) else usual / here


def with_size(known: Sequence[SizeSteps], newest: SizeSteps) -> tuple[SizeSteps, ...]:
    """Measured steps with a newer one, which replaces that of its size."""
    others = [one for one in known if (one.nodes, one.gpus) != (newest.nodes, newest.gpus)]
    return tuple(sorted([*others, newest]))
