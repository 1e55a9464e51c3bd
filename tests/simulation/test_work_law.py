"""A law of work from outside: speeds that change by themselves, pauses of its own, completion at its own times."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from muster.cluster import Cluster
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import Ints
from muster.problems import InputError
from muster.simulation import Failures, Options, Rules
from muster.workload.jobs import JobTable
from tests.building import cluster_of, column, finishes, job, jobs_of, run

SLOW_SECONDS, PAUSE_SECONDS = 10.0, 3.0


class Warming:
    """Every start pauses, then the job goes at half speed for a while, and at full speed from then on."""

    size_speeds = None

    def __init__(self, table: JobTable, cluster: Cluster) -> None:
        self._facts, self._work = table.facts, table.asked["iterations"]
        self._warm = np.full(len(table), inf)

    def next_change(self) -> float:
        return float(self._warm.min())

    def due(self, now: float) -> Ints:
        return np.flatnonzero(self._warm <= now)

    def rate(self, job: int, now: float, ledger: Ledger) -> None:
        fact, warm = self._facts[job], self._warm[job] <= now
        self._warm[job] = inf
        if not ledger.holds(job):
            return
        if not warm:
            fact["resumes"] = now + PAUSE_SECONDS
            self._warm[job] = now + PAUSE_SECONDS + SLOW_SECONDS
        fact["rate"] = 1.0 if warm else 0.5
        left = self._work[job] - fact["done"]
        finish = max(now, fact["resumes"]) + left / fact["rate"]
        fact["finish"] = finish if finish <= self._warm[job] else inf


WARMING = Rules("warming", "Slow at first.", work=Warming)


@pytest.mark.parametrize("round_seconds", [None, 7.0])
def test_a_law_changes_speeds_between_decisions(round_seconds: float | None) -> None:
    # A pause of 3 s, 10 s at half speed, then full speed: 100 iterations take 3 + 10 + 95 s; 5 take 13 s.
    trace = jobs_of(job(0, 100), job(0, 5), job(0, 4))
    result = run(trace, cluster_of(3), "fifo", rules=WARMING, round_seconds=round_seconds)
    assert finishes(result) == [108.0, 13.0, 11.0]


def test_a_law_is_asked_when_a_job_stops_and_starts_again() -> None:
    # The long job has done 12 iterations by 20 s, when the short one takes its GPU for 3 + 8 s, and then starts again.
    trace = jobs_of(job(0, 100), job(20, 4))
    result = run(trace, cluster_of(1), "srtf", rules=WARMING)
    assert column(result, "preemptions") == [1, 0]
    assert finishes(result) == [31 + 13 + (100 - 12 - 5), 31.0]


def test_seconds_of_a_pause_are_counted() -> None:
    result = run(jobs_of(job(0, 100)), cluster_of(1), "fifo", rules=WARMING)
    assert column(result, "restart_seconds") == [PAUSE_SECONDS]


def test_rules_with_a_law_refuse_what_would_change_speeds() -> None:
    with pytest.raises(InputError) as refused:
        Options(rules=WARMING, contention=True, failures=Failures(1e6, 1e3))
    assert {problem.where for problem in refused.value.problems} == {"--contention", "--failures"}
