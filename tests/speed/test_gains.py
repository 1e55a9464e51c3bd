"""What a running job would gain from more: against the simulator's own speeds and hand-computed cases."""

from __future__ import annotations

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.speed.gains import MEMORY_STEP_GB, gains_of
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import input_stage_seconds
from muster.workload.models import find

CLUSTER = parse_cluster("dally-2x8x8")
FIRST, OTHER_RACK = (
    CLUSTER.nodes[0].name,
    next(node.name for node in CLUSTER.nodes if node.rack != CLUSTER.nodes[0].rack),
)


def held(node: str, gpus: int, cpus: float, memory_gb: float) -> NodeAllocation[str]:
    return NodeAllocation(node, tuple(range(gpus)), cpus, memory_gb, 5.0 * gpus)


@pytest.mark.parametrize(("cpus", "memory_gb"), [(1.0, 62.5), (1.0, 25.0), (3.0, 25.0), (2.0, 60.0)])
def test_a_starved_job_gains_what_its_input_stage_does(cpus: float, memory_gb: float) -> None:
    model = find("resnet18")
    assert model is not None
    table = model_table([model])
    gains = gains_of(model, CLUSTER, [held(FIRST, 1, cpus, memory_gb)])
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
    gains = gains_of(model, CLUSTER, [held(FIRST, 1, 24.0, 500.0)])
    assert (gains.one_more_cpu, gains.more_memory, gains.best_place) == (1.0, 1.0, 1.0)


def test_the_slowest_node_of_a_gang_decides() -> None:
    model = find("resnet18")
    assert model is not None
    neighbour = CLUSTER.nodes[1].name
    starved, rich = held(FIRST, 1, 1.0, 25.0), held(neighbour, 1, 24.0, 500.0)
    alone = gains_of(model, CLUSTER, [starved]).more_memory
    assert alone > 1.1
    assert gains_of(model, CLUSTER, [starved, rich]).more_memory == pytest.approx(alone)


def test_a_gang_over_two_racks_gains_from_one_island() -> None:
    model = find("bert-large")
    assert model is not None
    apart = gains_of(model, CLUSTER, [held(FIRST, 2, 24.0, 500.0), held(OTHER_RACK, 2, 24.0, 500.0)])
    together = gains_of(model, CLUSTER, [held(FIRST, 4, 24.0, 500.0)])
    assert apart.best_place > 2.0
    assert apart.best_place_kind == "1 island"
    assert (together.best_place, together.best_place_kind) == (1.0, "")


def test_a_starved_gang_gains_nothing_from_its_place() -> None:
    """Its input stage takes longer than the communication of any place."""
    model = find("resnet18")
    assert model is not None
    apart = gains_of(model, CLUSTER, [held(FIRST, 1, 0.05, 1.0), held(OTHER_RACK, 1, 0.05, 1.0)])
    assert (apart.best_place, apart.best_place_kind) == (1.0, "")
