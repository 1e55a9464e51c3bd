"""Places that are slow: a running job that nodes of another kind would make faster may move there soon."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from experiments.joint.seeing import Seeing
from muster.cluster import Cluster, Node
from muster.schedulers.contract import Snapshot
from muster.schedulers.joint.slow_places import slow_on_their_nodes
from muster.schedulers.registry import build
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.test_node_amounts import by_cpus

MODELS = {
    "hungry": by_cpus("hungry", {1: 0.1, 3: 0.3, 10: 1.0}),
    "mild": by_cpus("mild", {1: 0.5, 3: 0.95, 10: 1.0}),
}
FEW, MANY = cluster_of(4, cpus_per_gpu=3.0), cluster_of(4, cpus_per_gpu=10.0)
TWO_KINDS = replace(
    FEW,
    nodes=(
        replace(FEW.nodes[0], labels=("few",)),
        replace(MANY.nodes[0], name="many", type_name="many"),
    ),
)


def test_a_job_moves_to_faster_nodes_that_come_free() -> None:
    """It starts beside few cores, and has worked for eight restarts when a node with many is free."""
    first = job(0, 500, gpus=4, model="hungry", preemptible=False)
    trace = jobs_of(first, job(10, 100_000, gpus=4, model="hungry"))
    result = run(trace, TWO_KINDS, "las+joint", models=MODELS, restart_cost_seconds=60.0)
    held = result.record.allocations.filter(pl.col("job_id") == "1").sort("from_seconds")
    assert held["node"].to_list() == ["node0", "many"]
    freed = result.record.jobs["finish_seconds"][0]
    assert held["from_seconds"].to_list() == [10.0, freed]
    assert freed < 10.0 + 12 * 60.0


@pytest.mark.parametrize(
    ("second", "slow"),
    [
        ({"gpus": 4, "model": "hungry"}, [False, True]),
        ({"gpus": 4, "model": "mild"}, [False, False]),
        ({"gpus": 4, "model": "unknown"}, [False, False]),
        ({"gpus": 4, "model": "hungry", "constraint": "label=few"}, [False, False]),
        ({"gpus": 1, "model": "hungry"}, [False, False]),
        ({"gpus": 8, "model": "hungry"}, [False, False]),
    ],
)
def test_only_what_would_be_faster_elsewhere_is_slow(second: dict[str, Any], slow: list[bool]) -> None:
    """Of two jobs. The second gains little, must be there, has enough cores, or waits, but for the first case."""
    found: list[list[bool]] = []

    def look(snapshot: Snapshot) -> Snapshot:
        found.append(slow_on_their_nodes(snapshot).tolist())
        return snapshot

    first = job(0, 10_000, gpus=4, model="hungry", preemptible=False)
    trace = jobs_of(first, job(10, 10_000, **second), job(20, 100, gpus=8, model="mild"))
    run(trace, TWO_KINDS, Seeing(build("fifo+joint"), look), models=MODELS)
    assert found[2][:2] == slow


def test_nothing_is_slow_where_all_gpus_are_alike() -> None:
    """Nor beside nodes of several kinds that have no GPUs and many cores."""
    found: list[bool] = []

    def look(snapshot: Snapshot) -> Snapshot:
        found.append(bool(slow_on_their_nodes(snapshot).any()))
        return snapshot

    node = FEW.nodes[0]
    without = replace(
        node, name="cores", type_name="cores", gpus=0, gpus_per_island=1, gpu_type="", cpus=900.0
    )
    more = replace(node, name="more", type_name="more", gpus=2, gpus_per_island=2, cpus=20.0)
    for nodes in ((node,), (node, without), (more, without)):
        trace = jobs_of(*(job(10.0 * at, 900, gpus=2, model="hungry") for at in range(6)))
        run(trace, replace(FEW, nodes=nodes), Seeing(build("las+joint"), look), models=MODELS)
    assert set(found) == {False}


@pytest.mark.parametrize("scheduler", ["fifo+joint", "gittins+joint", "las+least-loss", "dally-plus"])
@pytest.mark.parametrize(
    ("own", "other"),
    [
        (
            {"constraint": "label=own"},
            {"labels": ()},
        ),  # one machine has eight GPUs, and the job may not use it
        ({"partition": "own"}, {"labels": ("partition:other",)}),
        ({"cpus": 32.0}, {"cpus": 16.0}),  # it has no cores for more than four of them
    ],
)
def test_a_job_waits_for_no_place_that_it_never_has(
    scheduler: str, own: dict[str, Any], other: dict[str, Any]
) -> None:
    """vgg11 on two machines of two racks has less than a twentieth of the speed that one machine would give it."""
    four: dict[str, Any] = {"gpus": 4, "gpus_per_island": 4, "cpus": 16.0, "labels": ("own", "partition:own")}
    shared: dict[str, Any] = {"gpu_type": "v100", "storage_gb_per_s": 0.5, "nic_gb_per_s": 0.3}
    nodes = [
        Node(name=f"n{rack}", type_name=f"t{rack}", rack=rack, memory_gb=500.0, **shared, **kind)
        for rack, kind in enumerate([four, four, four | {"gpus": 8, "gpus_per_island": 8} | other])
    ]
    trace = jobs_of(job(0, 1_000, gpus=8, model="vgg11", **own))
    result = run(trace, Cluster("three", tuple(nodes), ("r0", "r1", "r2")), scheduler)
    assert column(result, "start_seconds") == [0]
    assert result.unfinished == 0
