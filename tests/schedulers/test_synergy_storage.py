"""Storage bandwidth as a resource like the others, and what a change of size alone costs; worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import CPU, MEMORY, MICRO
from muster.schedulers.allocation.gangs import gangs_of
from muster.schedulers.allocation.opt import Opt
from muster.schedulers.allocation.tune import Tune
from muster.schedulers.allocation.tune_plus import TunePlus
from muster.schedulers.parts import GangAllocator
from muster.workload.models import Dataset, Model
from tests.building import cluster_of, column, finishes, job, jobs_of, run
from tests.schedulers.synergy_cases import Round, allocate, fair_speeds, round_of, speeds

# Half of its data are in 20 GB. A batch of 0.1 GB takes 0.1 x (0.5 / 10 + 0.5 / 0.0625) = 0.805 s to read with the
# storage of the measurement, which is what it waits for on 6 cores; with all of it in memory it is twice as fast.
READER = Model(
    name="reader",
    family="image",
    batch=1,
    seconds_per_iteration=1.0,
    reference_cpus_per_gpu=3,
    reference_memory_gb_per_gpu=20,
    cpus_per_gpu=(3, 6),
    memory_gb_per_gpu=(20, 40),
    speed=((1.0, 1.0), (1 / 0.805, 2.0)),
    dataset=Dataset(size_gb=40, sample_gb=0.1, storage_gb_per_s=0.0625, memory_gb_per_s=10),
    source="made up",
    licence="none",
)
SITTER = Model("sitter", "image", 1, 1.0, 1, 20, (1,), (20,), ((1.0,),), "made up", "none")
MODELS = {"reader": READER, "sitter": SITTER}
ALLOTMENTS = [Tune(), TunePlus(), Opt()]


def machine(cpus_per_gpu: float) -> Cluster:
    """Two GPUs, 40 GB, 0.125 GB/s."""
    return cluster_of(2, cpus_per_gpu=cpus_per_gpu, memory_gb_per_gpu=20)


def storage(case: Round) -> list[float]:
    return [case.snapshot.ledger.holding(at)[0].storage_gb_per_s for at in range(len(case.snapshot.jobs))]


@pytest.mark.parametrize("allocator", ALLOTMENTS[1:])
def test_who_can_use_storage_gets_what_others_leave(allocator: GangAllocator) -> None:
    """For speed 2 it has to read 0.05 GB in 0.5 s less 0.005 s for what is cached: 0.101 GB/s; its share is 0.0625.

    tune's one demand a job is the cheapest of equals, here all 40 GB and no storage, which it cannot have.
    """
    case = round_of(machine(3.5), [("reader", 1), ("sitter", 1)], MODELS)
    allocate(allocator, case)
    assert speeds(case) == pytest.approx([2.0, 1.0])
    assert storage(case)[0] >= 0.05 / 0.495 * (1 - 1e-6)
    assert sum(storage(case)) <= 0.125 + 1e-9


def test_a_machine_without_storage_leaves_demands_small() -> None:
    """A model that reads nothing is as fast on 1 CPU and 20 GB as on the whole machine, which has 8 and 40."""
    cluster = cluster_of(1, cpus_per_gpu=8, memory_gb_per_gpu=40)
    cluster = replace(cluster, nodes=(replace(cluster.nodes[0], storage_gb_per_s=0.0),))
    gangs = gangs_of(round_of(cluster, [("sitter", 1)], MODELS).snapshot)
    assert gangs.demands.best[gangs.classes[0], 0, [CPU, MEMORY]].tolist() == [MICRO, 20 * MICRO]


@pytest.mark.parametrize("allocator", ALLOTMENTS)
def test_storage_alone_holds_two_readers_to_their_shares(allocator: GangAllocator) -> None:
    """Cores for speed 2 are there for both; each has to leave the other its 0.0625 GB/s: 1 / 0.805."""
    case = round_of(machine(6.0), [("reader", 1), ("reader", 1)], MODELS)
    allocate(allocator, case)
    assert storage(case) == pytest.approx([0.0625, 0.0625], abs=1e-6)
    assert speeds(case) == pytest.approx([1 / 0.805] * 2, rel=1e-4)
    assert speeds(case) == pytest.approx(fair_speeds(case), rel=1e-4)


@pytest.mark.parametrize("allocation", ["tune", "tune-plus", "opt"])
@pytest.mark.parametrize(
    ("resize_restarts", "end"), [(False, 100 + 200 + 625 / 1.75), (True, 305 + 630 / 1.75)]
)
def test_a_change_of_size_restarts_only_if_the_engine_needs_it(
    allocation: str, resize_restarts: bool, end: float
) -> None:
    """An alexnet on 6 cores at 1.75 shares them from 100 s to 300 s with another; a restart is five seconds."""
    pair = jobs_of(job(0, 1000, model="alexnet"), job(100, 200, model="alexnet"))
    result = run(
        pair,
        cluster_of(2),
        f"fifo+{allocation}",
        restart_cost_seconds=5,
        resize_restarts=resize_restarts,
    )
    assert finishes(result) == pytest.approx([end, 300])
    assert column(result, "restart_seconds") == pytest.approx([10 if resize_restarts else 0, 0])
