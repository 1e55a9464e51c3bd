"""What a running job would gain from more: against the simulator's own speeds and hand-computed cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.schedulers import reasons
from muster.schedulers.contract import Decision, Snapshot, State
from muster.speed.gains import MEMORY_STEP_GB, Gains, gains_of, network_for, stages_of
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import input_stage_seconds
from muster.speed.network.forms import PlacementShapes
from muster.speed.worker_options import worker_options
from muster.workload.models import Model, find

from ..building import cluster_of, finishes, jobs_of, run
from ..schedulers.test_example_policies import Toy

CLUSTER = parse_cluster("dally-2x8x8")
FIRST, OTHER_RACK = (
    CLUSTER.nodes[0].name,
    next(node.name for node in CLUSTER.nodes if node.rack != CLUSTER.nodes[0].rack),
)


def gained(model: Model, held: Sequence[NodeAllocation[str]], asked: float | None = None) -> Gains:
    gpus = sum(here.gpus for here in held)
    return gains_of(model, CLUSTER, held, asked or gpus, network_for(model, CLUSTER))


def held(node: str, gpus: int, cpus: float, memory_gb: float) -> NodeAllocation[str]:
    return NodeAllocation(node, tuple(range(gpus)), cpus, memory_gb, 5.0 * gpus)


@pytest.mark.parametrize(("cpus", "memory_gb"), [(1.0, 62.5), (1.0, 25.0), (3.0, 25.0), (2.0, 60.0)])
def test_a_starved_job_gains_what_its_input_stage_does(cpus: float, memory_gb: float) -> None:
    model = find("resnet18")
    assert model is not None
    table = model_table([model])
    gains = gained(model, [held(FIRST, 1, cpus, memory_gb)])
    now, with_cpu, with_memory = (
        input_stage_seconds(table, 0, *amounts, 5.0)
        for amounts in ((cpus, memory_gb), (cpus + 1, memory_gb), (cpus, memory_gb + MEMORY_STEP_GB))
    )
    assert now > min(with_cpu, with_memory) > float(table[0]["compute_seconds"])
    assert gains.one_more_cpu == pytest.approx(now / with_cpu)
    assert gains.more_memory == pytest.approx(now / with_memory)


def test_a_job_with_plenty_gains_nothing() -> None:
    model = find("resnet18")
    assert model is not None
    gains = gained(model, [held(FIRST, 1, 24.0, 500.0)])
    assert (gains.one_more_cpu, gains.more_memory, gains.best_place) == (1.0, 1.0, 1.0)


def test_the_slowest_node_of_a_gang_decides() -> None:
    model = find("resnet18")
    assert model is not None
    neighbour = CLUSTER.nodes[1].name
    starved, rich = held(FIRST, 1, 1.0, 25.0), held(neighbour, 1, 24.0, 500.0)
    alone = gained(model, [starved]).more_memory
    assert alone > 1.1
    assert gained(model, [starved, rich]).more_memory == pytest.approx(alone)


def test_a_gang_over_two_racks_gains_from_one_island() -> None:
    model = find("bert-large")
    assert model is not None
    apart = gained(model, [held(FIRST, 2, 24.0, 500.0), held(OTHER_RACK, 2, 24.0, 500.0)])
    together = gained(model, [held(FIRST, 4, 24.0, 500.0)])
    assert apart.best_place > 2.0
    assert apart.best_place_kind == "1 island"
    assert (together.best_place, together.best_place_kind) == (1.0, "")


def test_a_starved_gang_gains_nothing_from_its_place() -> None:
    """Its input stage takes longer than the communication of any place."""
    model = find("resnet18")
    assert model is not None
    apart = gained(model, [held(FIRST, 1, 0.05, 1.0), held(OTHER_RACK, 1, 0.05, 1.0)])
    assert (apart.best_place, apart.best_place_kind) == (1.0, "")


@pytest.mark.parametrize("name", ["resnet50", "bert-large", "resnet18"])
@pytest.mark.parametrize(("asked", "gpus"), [(4, 4), (4, 6), (8, 3)])
def test_one_more_gpu_brings_what_the_law_of_sizes_says(name: str, asked: int, gpus: int) -> None:
    model = find(name)
    assert model is not None
    amounts = 3.0, 62.5, 0.0625
    cpus, memory_gb, storage = (gpus * amount for amount in amounts)
    here = NodeAllocation(FIRST, tuple(range(gpus)), cpus, memory_gb, storage)
    found = worker_options(
        model_table([model]),
        PlacementShapes(network_for(model, CLUSTER), CLUSTER),
        np.zeros(2, np.int64),
        np.full(2, asked),
        np.array([gpus, gpus + 1]),
    )
    feeding = found.input_seconds(*(np.full(2, amount) for amount in amounts))
    now, then = np.maximum(feeding, found.seconds[:, 0]).tolist()
    assert gained(model, [here], asked).one_more_gpu == pytest.approx(now / then)


@pytest.mark.parametrize("gpus", [2, 3, 4])
def test_gains_are_those_that_a_simulation_shows(gpus: int) -> None:
    """A job that asks for 2 GPUs, on a node that it has to itself, and on one with a core or a GPU more."""
    model = find("resnet18")
    assert model is not None
    job = jobs_of(
        {"submit_seconds": 0, "gpus": 2, "min_gpus": 1, "max_gpus": 8, "model": model.name, "iterations": 5e4}
    )

    def seconds(gpus: int, cpus_per_gpu: float) -> float:
        cluster = cluster_of(gpus, cpus_per_gpu=cpus_per_gpu, memory_gb_per_gpu=100.0)
        (took,) = run(job, cluster, "fifo+joint").record.jobs["run_seconds"]
        return float(took)

    now = seconds(gpus, 1.0)
    cluster = cluster_of(gpus, 8, cpus_per_gpu=1.0, memory_gb_per_gpu=100.0)
    here = NodeAllocation("node0", tuple(range(gpus)), gpus * 1.0, gpus * 100.0, gpus * 0.0625)
    gains = gains_of(model, cluster, [here], 2, None)
    assert gains.one_more_cpu > 1.05
    assert gains.one_more_cpu == pytest.approx(now / seconds(gpus, 1.0 + 1 / gpus), rel=1e-6)
    assert gains.one_more_gpu == pytest.approx(now / seconds(gpus + 1, 1.0), rel=1e-6)


@dataclass
class OnTheseGpus(Toy):
    """Gives the only job these GPUs of nodes."""

    rows: tuple[NodeAllocation, ...] = ()

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        with snapshot.transaction() as transaction:
            for number in snapshot.jobs.index[snapshot.jobs.waiting].tolist():
                transaction.put(number, self.rows)
            return self.plan(snapshot, transaction, reasons.NO_GPUS, stable_until=inf), state


@pytest.mark.parametrize(
    "gpus", [{0: (2, 3, 4, 5)}, {0: (0, 1, 2, 4)}, {1: (0, 1), 2: (0, 1)}, {0: (0, 1), 2: (0, 4)}]
)
def test_stages_are_those_of_the_gpus_and_nodes_held(gpus: dict[int, tuple[int, ...]]) -> None:
    """Not of as many GPUs of an island, or of nodes with faster network cards."""
    model = find("bert-large")
    assert model is not None
    slow = replace(CLUSTER.nodes[2], nic_gb_per_s=CLUSTER.nodes[2].nic_gb_per_s / 50)
    cluster = replace(CLUSTER, nodes=(*CLUSTER.nodes[:2], slow, *CLUSTER.nodes[3:]))
    rows = [NodeAllocation(node, ids, 24.0, 500.0, 0.5) for node, ids in gpus.items()]
    job = jobs_of({"submit_seconds": 0, "gpus": 4, "model": model.name, "iterations": 1000})
    (took,) = finishes(run(job, cluster, OnTheseGpus(rows=tuple(rows))))
    total = stages_of(model, cluster, [here.on(cluster.nodes[here.node].name) for here in rows], 4).total
    assert took == pytest.approx(1000 * total, rel=1e-9)
