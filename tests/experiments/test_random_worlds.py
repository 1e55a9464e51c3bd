"""Random worlds are what they say they are, and the same for ever."""

from __future__ import annotations

import pytest

from experiments.joint import labelled_worlds
from experiments.joint.labelled_worlds import labelled
from experiments.joint.random_worlds import JOBS, OWN_ORDER, TUNING, WORLDS, lines, world
from experiments.joint.requesting_worlds import requesting

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


def test_bound_jobs_fit_on_the_nodes_of_their_label() -> None:
    """The nodes of one label are some of those of the other; but for the labels a world is as before."""
    for number in NUMBERS:
        given, plain = labelled(number), world(number)
        assert given.trace.jobs.equals(labelled(number).trace.jobs)
        assert given.trace.jobs.drop("constraint").equals(plain.trace.jobs.drop("constraint"))
        constraint, gpus = given.trace.jobs["constraint"].to_numpy(), given.trace.jobs["gpus"].to_numpy()
        room = {
            label: {node.name: node.gpus for node in given.cluster.nodes if label in node.labels}
            for label in "ab"
        }
        assert set(room["a"]) <= set(room["b"]) < {node.name for node in given.cluster.nodes}
        for label, nodes in room.items():
            assert gpus[constraint == f"label={label}"].max(initial=0) <= sum(nodes.values())
    assert not set(labelled_worlds.TUNING) & set(labelled_worlds.WORLDS)


def test_what_jobs_request_fits_beside_their_gpus() -> None:
    """Each job for itself, on the cluster as it is; but for requests and models a world is as before."""
    for number in NUMBERS:
        given, plain = requesting(number), world(number)
        assert given.rivals("las") == [*plain.rivals("las")[:5], "las+requested", *plain.rivals("las")[5:]]
        jobs = given.trace.jobs
        assert jobs.equals(requesting(number).trace.jobs)
        assert jobs.drop("model", "cpus", "memory_gb").equals(
            plain.trace.jobs.drop("model", "cpus", "memory_gb")
        )
        assert (jobs["model"] == "").sum() > len(jobs) / 2
        for gpus, cpus, memory in jobs.select("gpus", "cpus", "memory_gb").iter_rows():
            holds = [
                min(node.gpus, node.cpus * gpus // cpus, node.memory_gb * gpus // memory)
                for node in given.cluster.nodes
            ]
            assert sum(holds) >= gpus
