"""The network inside the engine, against its closed forms and the network model asked directly."""

from __future__ import annotations

import numpy as np
import pytest

from muster.cluster import Cluster, Link, Links, Node
from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.reasons import NO_GPUS
from muster.simulation import Options
from muster.speed.network.model_file import network_models
from muster.speed.network.models import CompactModel
from muster.speed.network.placement import Placements, place, shapes_of
from muster.speed.network.speed import NetworkSpeed
from tests.building import cluster_of, column, finishes, job, jobs_of, run
from tests.schedulers.test_example_policies import Toy

CHATTY = CompactModel("chatty", 1.0, 1, 1.0, 0.5, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
"""One gradient of 1 GB at the end of 1 s of compute: nothing of its all-reduce hides."""
LINKS = Links(Link(100.0, 0.0), Link(100.0, 0.0), Link(1.0, 0.0), Link(2.0, 0.0))
"""1 GB/s between machines; each rack sends as much as its machines together."""


def small_cluster(gpus: int, machines: int, racks: int = 2) -> Cluster:
    nodes = tuple(
        Node(f"n{at}", "t", at * racks // machines, gpus, "v100", gpus, gpus, gpus, 1.0, 1.0)
        for at in range(machines)
    )
    return Cluster("small", nodes, tuple(f"r{rack}" for rack in range(racks)), LINKS)


def gang(gpus: int, gpu_work: float, **more: object) -> dict[str, object]:
    return {"submit_seconds": 0, "gpus": gpus, "gpu_work_seconds": gpu_work, **more}


def test_a_ring_over_two_machines_takes_its_closed_form() -> None:
    trace = jobs_of(gang(2, 200, model="chatty"), gang(1, 100, model="chatty"))
    result = run(trace, small_cluster(1, 4), "fifo+spread", layers={"Chatty": CHATTY})
    # 2 (n - 1) / n GB over 1 GB/s = 1 s exposed for each second of compute; one GPU talks to no other.
    assert finishes(result) == pytest.approx([200, 100])
    assert column(result, "communication_seconds") == pytest.approx([100, 0])
    assert column(result, "compute_seconds") == pytest.approx([100, 100])
    assert column(result, "ideal_seconds") == pytest.approx([100, 100])


def test_shipped_models_run_as_the_network_model_says() -> None:
    cluster = parse_cluster("dally-2x8x8")
    speed = NetworkSpeed(network_models(["MobileNetV3"])[0], cluster)
    placements = place([[8, 8]], cluster)
    assert placements is not None
    efficiency = speed.efficiency(np.array([0]), shapes_of(placements, speed.tree))[0]
    trace = jobs_of(gang(16, 1600, model="MobileNetV3"), gang(4, 400, model="unknown"))
    result = run(trace, cluster, "fifo")
    assert finishes(result) == pytest.approx([100 / efficiency, 100])
    assert any("no network model for unknown" in note for note in result.record.run["trace"]["notes"])
    assert finishes(run(trace, cluster, "fifo", network="none")) == pytest.approx([100, 100])


def test_a_duration_is_the_time_on_the_best_place() -> None:
    trace = jobs_of(job(0, 100, 2, model="chatty"))
    best = run(trace, small_cluster(1, 4), "fifo+pack", layers={"chatty": CHATTY})
    assert finishes(best) == pytest.approx([100])
    assert column(best, "communication_seconds") == pytest.approx([50])
    assert column(best, "ideal_seconds") == pytest.approx([100])
    narrow = run(trace, small_cluster(2, 2), "fifo+spread", layers={"chatty": CHATTY})
    # On one machine it would take 1 + 2/2 x 1/100 s an iteration, over two of them 2 s.
    assert finishes(narrow) == pytest.approx([100 * 2 / 1.01])


@pytest.mark.parametrize("cpus_per_gpu", [1.0, 3.0, 24.0])
@pytest.mark.parametrize("work", ["duration_seconds", "iterations"])
def test_the_best_place_counts_for_gangs_that_wait_for_input(cpus_per_gpu: float, work: str) -> None:
    """Communication hides behind an input stage that takes longer."""
    sizes = (2, 8, 16)
    rows = [{"submit_seconds": 1e6 * at, "gpus": gpus, work: 1_000.0} for at, gpus in enumerate(sizes)]
    trace = jobs_of(*(row | {"model": "resnet18"} for row in rows))
    result = run(trace, cluster_of(8, 8, cpus_per_gpu=cpus_per_gpu, racks=2), "fifo")
    ideal = column(result, "ideal_seconds")
    assert column(result, "run_seconds") == pytest.approx(ideal)
    if work == "duration_seconds":
        assert ideal == pytest.approx([1_000.0] * 3)


def test_one_rack_says_nothing_of_the_network() -> None:
    trace = jobs_of(gang(2, 200, model="chatty"))
    one_rack = small_cluster(1, 2, racks=1)
    assert finishes(run(trace, one_rack, "fifo", layers={"chatty": CHATTY})) == pytest.approx([100])
    reply = run(trace, one_rack, "fifo", layers={"chatty": CHATTY}, network="physical")
    assert finishes(reply) == pytest.approx([200])


def test_neighbours_on_an_uplink_slow_each_other_while_both_run() -> None:
    cluster = small_cluster(2, 2, racks=2)
    trace = jobs_of(gang(2, 40, model="chatty"), gang(2, 400, model="chatty"))
    result = run(trace, cluster, "fifo+spread", layers={"chatty": CHATTY}, contention=True, congestion=0.5)
    speed = NetworkSpeed([CHATTY], cluster, congestion=0.5)
    first, nodes, bits = np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.array([1, 1, 2, 2])
    both = speed.contended_efficiency(np.zeros(2, np.int64), Placements(first, nodes, bits))
    one = Placements(first[:2], nodes[:2], bits[:2])
    alone = speed.contended_efficiency(np.zeros(1, np.int64), one)
    # Alone 1 / (1 + 2). Together sending takes s times as long, s = 1 / (1 - p / 2), and each sends for the part
    # p = 2 s / (1 + 2 s) of the time: s is the golden ratio.
    assert (both[0], alone[0]) == (pytest.approx(1 / (2 + 5**0.5), rel=1e-4), pytest.approx(1 / 3))
    together = 20 / both[0]
    left = 200 - together * both[1]
    assert finishes(result) == pytest.approx([together, together + left / alone[0]])


def test_contention_changes_nothing_for_a_job_alone() -> None:
    trace = jobs_of(gang(4, 100, model="chatty"), gang(2, 50, model="chatty", submit_seconds=500))
    cluster, layers = small_cluster(2, 4), {"chatty": CHATTY}
    on = run(trace, cluster, "fifo+spread", layers=layers, contention=True)
    off = run(trace, cluster, "fifo+spread", layers=layers)
    assert finishes(on) == pytest.approx(finishes(off))


def test_wrong_network_settings_are_named_together() -> None:
    with pytest.raises(InputError) as refused:
        Options(network="fast", congestion=1.0)
    assert [problem.where for problem in refused.value.problems] == ["--network", "--congestion"]


def test_insensitive_traces_pay_nothing() -> None:
    trace = jobs_of(job(0, 100, 4), job(0, 50, 2, model="m5"))
    cluster = cluster_of(2, 2, 2, 2, racks=2)
    assert finishes(run(trace, cluster, "fifo")) == finishes(run(trace, cluster, "fifo", network="none"))


def test_models_without_layers_are_named_once() -> None:
    trace = jobs_of(
        gang(2, 100, model="nolayers"), gang(4, 100, model="nolayers"), gang(1, 100, model="single")
    )
    reply = [
        note
        for note in run(trace, small_cluster(2, 4), "dally").record.run["trace"]["notes"]
        if "network" in note
    ]
    assert reply == ["no network model for nolayers: taken as insensitive to the network"]
    assert not any(
        "network" in note
        for note in run(trace, small_cluster(2, 4), "dally", network="none").record.run["trace"]["notes"]
    )


class Shrinks(Toy):
    """Runs one job on two racks, and from second 100 on with one GPU of the first."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        with snapshot.transaction() as transaction:
            if snapshot.now == 0:
                transaction.put(0, [NodeAllocation(0, (0,)), NodeAllocation(3, (0,))])
            elif snapshot.now == 100:
                transaction.put(0, [NodeAllocation(0, (0,))])
            wake = 100.0 if snapshot.now < 100 else np.inf
            return self.plan(snapshot, transaction, NO_GPUS, next_wake=wake, stable_until=wake), state


def test_a_gang_that_shrinks_to_one_gpu_talks_no_more() -> None:
    """Half of the first 100 s is communication; then one GPU has the other 50 s of both GPUs to compute."""
    trace = jobs_of(gang(2, 200, model="chatty", min_gpus=1))
    result = run(trace, small_cluster(1, 4), Shrinks(), layers={"chatty": CHATTY}, restart_cost_seconds=0.0)
    assert column(result, "communication_seconds") == pytest.approx([50])
    assert finishes(result) == pytest.approx([200])
