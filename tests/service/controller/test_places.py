"""What the daemon's scheduler knows of places, by network and type of GPU: the same as in a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Jobs, Snapshot, Trigger
from muster.schedulers.registry import build
from muster.service.controller.asking import decided
from muster.service.controller.columns import LiveColumns
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow
from muster.workload.models import find

CLUSTER = parse_cluster("dally-2x8x8")
"""Two racks of eight machines with eight GPUs."""
FREE = {0: 4, 8: 4, 9: 4}
"""GPUs that other jobs leave: on one machine of the first rack and two of the second."""
GANG = 100


def columns(model: str, free: Mapping[int, int] = FREE, *, even_gangs: bool = False) -> LiveColumns:
    """A gang of eight GPUs comes, where all machines are full but for these GPUs."""
    made = LiveColumns(CLUSTER, dict, even_gangs=even_gangs)
    for job, node in enumerate(CLUSTER.nodes):
        gpus = node.gpus - free.get(job, 0)
        request = JobRequest(name="job", command=("true",), directory="/", gpus=gpus)
        row = JobRow(job, "ann", request, 0.0)
        made.admit([row])
        made.place(job, [NodeAllocation(node.name, tuple(range(gpus)), float(gpus), float(gpus))], 0.0)
        made.began(row, 0.0)
    request = JobRequest(name="gang", command=("true",), directory="/", gpus=8, model=model)
    made.admit([JobRow(GANG, "ann", request, 0.0)])
    return made


def decided_for_gang(made: LiveColumns) -> tuple[NodeAllocation[str], ...]:
    """What it gets by a decision of the default allocation, under an order that stops no job."""
    scheduler = build("fifo+joint", {})
    index = np.array([*range(len(CLUSTER.nodes)), GANG])
    snapshot = Snapshot(
        0.0,
        Trigger.ARRIVAL,
        Jobs(made.table, index, 0.0),
        made.table,
        made.ledger,
        made.resource_profiles,
        made.forms,
    )
    changes = decided(scheduler, snapshot, scheduler.initial(CLUSTER), made.spec).decision.changes
    made.carry_out(changes, 0.0)
    return made.plan.get(GANG, ())


def racks_of_gang(made: LiveColumns) -> set[int]:
    """In which it gets its GPUs."""
    return {CLUSTER.nodes[CLUSTER.node_index[here.node]].rack for here in decided_for_gang(made)}


def test_a_gang_that_the_network_hurts_stays_in_a_rack() -> None:
    made = columns("vgg11")
    assert made.forms is not None
    assert made.forms.contention
    assert racks_of_gang(made) == {1}


def test_a_job_whose_communication_is_unknown_goes_anywhere() -> None:
    made = columns("a-model-of-ours")
    assert made.forms is None
    assert racks_of_gang(made) == {0, 1}


@pytest.mark.parametrize("racks", [1, 2])
def test_in_one_rack_all_places_are_alike(racks: int) -> None:
    nodes = tuple(replace(node, rack=node.rack % racks) for node in CLUSTER.nodes)
    made = LiveColumns(replace(CLUSTER, nodes=nodes, racks=CLUSTER.racks[:racks]), dict)
    made.admit([JobRow(1, "ann", JobRequest(name="a", command=("true",), directory="/", model="vgg11"), 0.0)])
    assert (made.forms is None) is (racks == 1)


@pytest.mark.parametrize(
    ("free", "held"),
    [
        ({0: 4, 8: 4, 9: 3}, [4, 4]),
        ({0: 3, 1: 3, 2: 3, 3: 3}, [2, 2, 2, 2]),
        ({0: 3, 1: 3, 2: 3, 8: 3}, [2, 2, 2, 2]),
        ({0: 7, 1: 1}, []),
    ],
)
def test_where_gangs_are_even_each_machine_has_as_many_gpus(free: dict[int, int], held: list[int]) -> None:
    """As under Slurm, also where the machines are not as many in each rack; else the gang waits."""
    made = columns("vgg11", free, even_gangs=True)
    assert [len(here.gpu_ids) for here in decided_for_gang(made)] == held


@pytest.mark.parametrize("scheduler", ["fifo+joint", "fifo+tune-plus"])
@pytest.mark.parametrize("slower", ["K80", "V100"])
def test_a_job_runs_on_the_type_of_gpu_that_is_faster_for_it(scheduler: str, slower: str) -> None:
    resnet = find("resnet50")
    assert resnet is not None
    half = tuple(tuple(speed / 2 for speed in row) for row in resnet.speed)
    types = tuple((name, half if name == slower else resnet.speed) for name in ("K80", "V100"))
    model = replace(resnet, on_gpu_type=types)
    cluster = parse_cluster("1x1k80,24cpu,500gb+1x1v100,24cpu,500gb")
    made = LiveColumns(cluster, lambda: {"resnet50": model})
    request = JobRequest(name="a", command=("true",), directory="/", model="resnet50", steps=100_000)
    made.admit([JobRow(1, "ann", request, 0.0)])
    policy, jobs = build(scheduler, {}), Jobs(made.table, np.array([1]), 0.0)
    snapshot = Snapshot(0.0, Trigger.ARRIVAL, jobs, made.table, made.ledger, made.resource_profiles)
    made.carry_out(decided(policy, snapshot, policy.initial(cluster), made.spec).decision.changes, 0.0)
    (here,) = made.plan[1]
    assert cluster.nodes[cluster.node_index[here.node]].gpu_type != slower
