"""joint's sizes of elastic jobs in a queue, against the best shares that are known in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pytest

from experiments.joint.seeing import Seeing
from muster.cluster import Cluster
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.contract import Snapshot
from muster.schedulers.joint.sizes import learns_as_it_grows
from muster.schedulers.registry import build
from muster.simulation import Options, Rules, Run, simulate
from muster.workload.jobs import JobTable
from tests.building import cluster_of, job, jobs_of

GPUS = 16


class Law(NamedTuple):
    """How fast jobs are, and what is known of that."""

    power: float
    """Of the number of GPUs: so many iterations a second."""
    pause_seconds: float = 0.0
    """At each change."""
    growth: float = inf
    """Known are the sizes up to so many times the largest on which a job has worked, at first of one GPU."""


class PowerOfGpus:
    """The jobs of a run make progress by such a law."""

    def __init__(self, table: JobTable, cluster: Cluster, law: Law) -> None:
        self._facts, self._iterations = table.facts, table.asked["iterations"]
        self._law = law
        self._largest = np.ones(len(table))
        self._resumes = np.full(len(table), inf)

    @property
    def size_speeds(self) -> PowerOfGpus:
        """These are the speeds that schedulers know."""
        return self

    def seconds_per_iteration(self, jobs: Ints, gpus: Ints, nodes: Ints, gpu_type: str) -> Floats:
        """Seconds of an iteration on a size that is known."""
        return np.where(gpus <= self._law.growth * self._largest[jobs], gpus**-self._law.power, inf)

    def next_change(self) -> float:
        """The end of a pause, after which a size is known."""
        return float(self._resumes.min())

    def due(self, now: float) -> Ints:
        """The jobs whose pause is over."""
        return np.flatnonzero(self._resumes <= now)

    def rate(self, job: int, now: float, ledger: Ledger) -> None:
        """A job holds something else, or its pause is over."""
        gpus, fact = sum(len(share.gpu_ids) for share in ledger.holding(job)), self._facts[job]
        if self._resumes[job] <= now:
            self._largest[job] = max(self._largest[job], gpus)
            self._resumes[job] = inf
        elif gpus:
            self._resumes[job] = fact["resumes"] = now + self._law.pause_seconds
        if gpus:
            fact["rate"] = gpus**self._law.power
            left = float(self._iterations[job]) - float(fact["done"])
            fact["finish"] = max(now, float(fact["resumes"])) + left / float(fact["rate"])


def as_it_is(snapshot: Snapshot) -> Snapshot:
    """What a scheduler sees by itself."""
    return snapshot


def run_of(
    seconds: Sequence[float],
    law: Law,
    round_seconds: float | None = None,
    look: Callable[[Snapshot], Snapshot] = as_it_is,
) -> Run:
    """The run of jobs that come at once and take so long on a GPU."""
    elastic: dict[str, Any] = {
        "min_gpus": 1,
        "max_gpus": 4 * GPUS,
        "restart_cost_seconds": law.pause_seconds,
    }
    rules = Rules("power", "A test.", round_seconds=round_seconds, work=partial(PowerOfGpus, law=law))
    trace = jobs_of(*(job(0, each, **elastic) for each in seconds))
    return simulate(
        trace, cluster_of(GPUS), Seeing(build("srtf+joint"), look), Options(network="none", rules=rules)
    )


def best_mean(seconds: Floats) -> float:
    """The lowest mean JCT of jobs that come at once, where a job's speed is the root of its share of the GPUs.

    From heSRPT (Berg, Vesilo and Harchol-Balter 2020): a second of the work of the k-th longest job is worth
    `(k^c - (k-1)^c)^(1/c)` seconds of all jobs' time on the whole cluster, with c = 2 for the root.
    """
    longest_first, rank = np.sort(seconds)[::-1], np.arange(1, len(seconds) + 1)
    total = longest_first @ np.sqrt(rank**2 - (rank - 1.0) ** 2) / np.sqrt(GPUS)
    return float(total / len(seconds))


@pytest.mark.parametrize(("jobs", "above"), [(2, 0.005), (4, 0.01), (8, 0.035)])
def test_shares_of_a_queue_are_near_the_best(jobs: int, above: float) -> None:
    seconds = np.linspace(1_000.0, 8_000.0, jobs)
    result = run_of(seconds.tolist(), Law(power=0.5))
    assert result.record.jobs["jct_seconds"].to_numpy().mean() <= (1 + above) * best_mean(seconds)


def test_a_job_grows_as_soon_as_it_knows_its_speed() -> None:
    """Each pause of 50 s is over ten seconds before the end of a round; one of those would be too short otherwise."""
    result = run_of([8_000.0], Law(power=1.0, pause_seconds=50.0, growth=2.0), round_seconds=60.0)
    held = result.record.allocations.sort("from_seconds")
    assert held["gpus"].to_list() == [2, 4, 8, 16]
    assert held["from_seconds"].to_list() == [0.0, 60.0, 120.0, 180.0]


@pytest.mark.parametrize(("growth", "learns"), [(1.0, False), (2.0, True), (4.0, False)])
def test_which_jobs_learn_before_they_grow_further(growth: float, learns: bool) -> None:
    """Twice its GPUs are not known, twice and not four times, or both."""
    found: list[bool] = []

    def look(snapshot: Snapshot) -> Snapshot:
        found.extend(learns_as_it_grows(snapshot).tolist())
        return snapshot

    run_of([8_000.0], Law(power=1.0, pause_seconds=50.0, growth=growth), round_seconds=60.0, look=look)
    assert any(found) == learns
    assert not found[0]
