"""Random worlds are what they say they are, and the same for ever."""

from __future__ import annotations

import pytest

from experiments.joint.random_worlds import JOBS, OWN_ORDER, TUNING, WORLDS, lines, world

NUMBERS = range(24)


def test_a_number_is_a_world() -> None:
    for number in NUMBERS:
        first, again, other = world(number), world(number), world(number, queue=1)
        assert (first.name, first.cluster) == (again.name, again.cluster) == (other.name, other.cluster)
        assert first.trace.jobs.equals(again.trace.jobs)
        assert not first.trace.jobs.equals(other.trace.jobs)
    assert len({world(number).name for number in NUMBERS}) == len(NUMBERS)


def test_a_world_is_what_its_name_says() -> None:
    for number in NUMBERS:
        given = world(number)
        jobs, total = given.trace.jobs, given.cluster.total_gpus
        names = ("gpus", "duration_seconds", "submit_seconds")
        gpus, seconds, submit = (jobs[name].to_numpy() for name in names)
        assert len(jobs) == JOBS
        assert gpus.max() <= total // 2
        load = float(given.name.rpartition(" ")[2])
        assert (gpus * seconds).sum() / (total * submit.max()) == pytest.approx(load, rel=0.05)
        assert ("two kinds" in given.name) == (len({node.type_name for node in given.cluster.nodes}) == 2)
        assert given.network == ("Gbit/s" in given.name) == (OWN_ORDER in given.rivals("las"))


def test_each_rival_of_a_world_has_a_line() -> None:
    """The network counts in world 1 alone."""
    shown = list(lines(["las"], 2, ""))
    worlds, over_all = shown[:2], shown[2:]
    assert [line.split()[:2] for line in worlds] == [["las", "0"], ["las", "1"]]
    assert [line.split()[2] for line in over_all[:-1]] == world(1).rivals("las")
    assert ["2 worlds" in line for line in over_all] == [True] * 5 + [False] * 2 + [True]
    assert list(lines(["las"], 2, "no such world")) == []


def test_after_all_worlds_each_has_another_queue() -> None:
    two = list(lines(["las"], 2, "", range(1, 2)))[:2]
    assert two[0].partition("GPUs,")[2] == two[1].partition("GPUs,")[2]
    assert two[0] != two[1].replace("las    1", "las    0", 1)
    assert not set(TUNING) & set(WORLDS)
