"""Elastic jobs on a network gain from their sizes."""

from __future__ import annotations

from experiments.joint.elastic_network import JOBS, lines, queue


def test_a_number_is_a_queue() -> None:
    for number in range(3):
        (name, elastic, fixed, cluster), again = queue(number), queue(number)
        assert (name, cluster) == (again[0], again[3])
        assert elastic.jobs.equals(again[1].jobs)
        assert len(fixed.jobs) == JOBS
        assert (elastic.jobs["min_gpus"] < elastic.jobs["gpus"]).any()
        assert elastic.jobs["gpus"].equals(fixed.jobs["gpus"])


def test_elastic_jobs_end_sooner_than_with_fixed_sizes() -> None:
    """While sizes counted no network, elastic jobs took 1.1 and 4.4 times as long as with fixed sizes."""
    *each, over_all = lines(["gittins"], 2, "")
    assert [float(line.split()[4]) < 1 for line in each] == [True, True]
    assert "2 queues" in over_all
