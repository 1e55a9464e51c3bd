"""What an owner asks for beside the GPUs is the least that a job gets, whatever the scheduler."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.schedulers import registry
from muster.simulation import Run
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.test_actions import view_of

ALLOCATIONS = ("proportional", "requested", "greedy", "tune", "tune-plus", "opt", "joint", "tune-published")
SENSITIVE = ("greedy", "tune", "tune-plus", "opt", "joint", "tune-published")
ORDERS = ("fifo", "las", "srtf")
WHOLE = (
    *(f"{order}+{allocation}" for order in ORDERS for allocation in ALLOCATIONS),
    "fifo+proportional+spread",
    "dally",
    "dally-tune",
    "dally-plus",
)


def least_held(result: Run) -> dict[str, tuple[float, float]]:
    """The least CPUs and memory that each job held at any time."""
    held = result.record.allocations
    at_once = held.group_by("job_id", "from_seconds").agg(pl.col("cpus", "memory_gb").sum())
    rows = at_once.group_by("job_id").agg(pl.col("cpus", "memory_gb").min()).iter_rows()
    return {job_id: (cpus, memory) for job_id, cpus, memory in rows}


@pytest.mark.parametrize("scheduler", WHOLE)
@pytest.mark.parametrize("model", ["", "gnmt", "resnet18"])
def test_a_job_never_gets_less_than_it_asks_for(scheduler: str, model: str) -> None:
    asks = {"cpus": 20.0, "memory_gb": 400.0, "model": model}
    trace = jobs_of(
        job(0, 100, gpus=1, **asks),
        job(1, 100, gpus=2, model="resnet18", cpus=7.0),
        *(job(2 + at, 100, gpus=1, model="resnet18") for at in range(6)),
        job(9, 100, gpus=1, gpu_milli=500, cpus=4.0),
    )
    result = run(trace, cluster_of(8, 4), scheduler)
    assert result.unfinished == 0
    least = least_held(result)
    assert least["0"][0] >= 20 - 1e-6
    assert least["0"][1] >= 400 - 1e-6
    assert least["1"][0] >= 7 - 2e-6
    assert least["8"][0] >= 4 - 1e-6


@pytest.mark.parametrize("scheduler", [f"{order}+{each}" for order in ORDERS for each in SENSITIVE])
@pytest.mark.parametrize("milli", [1000, 500])
def test_of_an_unknown_model_the_request_is_enough(scheduler: str, milli: int) -> None:
    asks = (10.0, *(2.0,) * 7)
    jobs = [job(0, 100, gpu_milli=milli, cpus=cpus, memory_gb=cpus, model="ours") for cpus in asks]
    nodes = cluster_of(8 * milli // 1000, cpus_per_gpu=3000.0 / milli, memory_gb_per_gpu=3000.0 / milli)
    result = run(jobs_of(*jobs), nodes, scheduler)
    assert result.record.jobs["start_seconds"].to_list() == [0.0] * 8
    assert least_held(result) == {str(at): (cpus, cpus) for at, cpus in enumerate(asks)}


@pytest.mark.parametrize("scheduler", [f"las+{each}" for each in SENSITIVE])
def test_what_is_not_requested_is_the_share(scheduler: str) -> None:
    nodes = cluster_of(4, cpus_per_gpu=3.0, memory_gb_per_gpu=30.0)
    trace = jobs_of(job(0, 100, gpus=2, cpus=2.0, model="ours"), job(0, 100, gpus=2, memory_gb=8.0))
    held = least_held(run(trace, nodes, scheduler))
    assert held == {"0": (2.0, 60.0), "1": (6.0, 8.0)}


@st.composite
def _requests(draw: st.DrawFn) -> tuple[Cluster, list[dict[str, Any]]]:
    nodes = draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3))
    cluster = cluster_of(*nodes, cpus_per_gpu=draw(st.sampled_from([2.0, 3.0, 7.5])))
    largest = max(nodes)
    rows = []
    for _ in range(draw(st.integers(1, 10))):
        gpus = draw(st.integers(1, largest))
        part = draw(st.sampled_from([None, 0.1, 0.5, 1.0]))
        memory = draw(st.sampled_from([None, 0.2, 0.7, 1.0]))
        rows.append(
            job(
                float(draw(st.integers(0, 50))),
                float(draw(st.integers(1, 60))),
                gpus=gpus,
                model=draw(st.sampled_from(["", "gnmt", "resnet18", "m5"])),
                cpus=None if part is None else part * largest * cluster.total_cpus / cluster.total_gpus,
                memory_gb=None if memory is None else memory * largest * 62.5,
                preemptible=draw(st.booleans()),
            )
        )
    return cluster, rows


@pytest.mark.parametrize("allocation", [each for each in ALLOCATIONS if each != "proportional"])
def test_a_job_whose_cpus_are_held_keeps_no_gpu_from_others(allocation: str) -> None:
    """The second finds three of its five cores; the third, which came after it, needs one, and the GPU that is free."""
    trace = jobs_of(job(0, 10_000, gpus=3, cpus=9.0), job(10, 100, cpus=5.0), job(20, 100, cpus=1.0))
    result = run(trace, cluster_of(4), f"fifo+{allocation}")
    assert column(result, "wait_seconds") == pytest.approx([0, 9_990, 0])


@pytest.mark.parametrize("allocation", [each for each in ALLOCATIONS if each != "proportional"])
def test_cores_that_others_hold_are_not_counted(allocation: str) -> None:
    """On nodes of Slurm or Ray: five of twelve cores are left. The first job asks for six; the second, for three."""
    snapshot = view_of(job(0, 100, gpus=2, cpus=6.0), job(0, 100, gpus=3, cpus=3.0))
    snapshot.ledger.hold_back(NodeAllocation(0, (), cpus=7.0), any_gpus=False)
    scheduler = registry.build(f"fifo+{allocation}")
    decision, _ = scheduler.decide(snapshot, scheduler.initial(snapshot.cluster))
    assert decision.changes.jobs.tolist() == [1]


@settings(max_examples=40, deadline=None)
@given(case=_requests(), scheduler=st.sampled_from(WHOLE))
def test_requests_hold_in_random_queues(case: tuple[Cluster, list[dict[str, Any]]], scheduler: str) -> None:
    cluster, rows = case
    result = run(jobs_of(*rows), cluster, scheduler, restart_cost_seconds=1.0)
    assert result.unfinished == 0
    for job_id, (cpus, memory) in least_held(result).items():
        row = rows[int(job_id)]
        assert cpus >= (row["cpus"] or 0.0) - 1e-5
        assert memory >= (row["memory_gb"] or 0.0) - 1e-5


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 30.0]),
        st.sampled_from([1, 1, 2, 4]),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from([10, 60, 200]),
    ),
    min_size=4,
    max_size=30,
)


PASSED_OVER = [
    *[(0.0, 1, 1, 10)] * 4,
    (0.0, 1, 8, 10),
    *[(0.0, 4, 1, memory) for memory in (10, 200)],
    *[(0.0, 1, 4, 10)] * 4,
    (0.0, 1, 1, 60),
    (0.0, 2, 1, 60),
]
"""The job before the last had no place when it was tried; then one of four cores left a node for the last one."""


@given(REQUESTS, st.sampled_from(["fifo", "gittins", "las"]))
@example(PASSED_OVER, "fifo")
@settings(max_examples=100, deadline=None)
def test_no_job_waits_beside_what_it_asks_for(asked: list[tuple[float, int, int, int]], order: str) -> None:
    """Amounts are for each GPU."""
    submit = np.cumsum([gap for gap, *_ in asked]).tolist()
    rows = [
        job(at, 1_000, gpus, cpus=float(gpus * cpus), memory_gb=float(gpus * memory))
        for at, (_, gpus, cpus, memory) in zip(submit, asked, strict=True)
    ]
    nodes = cluster_of(8, 8)
    result = run(jobs_of(*rows), nodes, f"{order}+joint", skip_impossible=True)
    held = result.record.allocations
    ends = dict(result.record.jobs.select("job_id", "finish_seconds").iter_rows())
    for now in sorted({*held["from_seconds"]}):
        at_once = held.filter((pl.col("from_seconds") <= now) & (pl.col("to_seconds") > now))
        runs = {*at_once["job_id"]}
        waits = [
            asked[int(name)][1:]
            for name, end in ends.items()
            if name not in runs and submit[int(name)] <= now < end
        ]
        for node in nodes.nodes:
            here = at_once.filter(pl.col("node") == node.name)
            free = [
                most - float(here[name].sum()) + 1e-6
                for name, most in (("gpus", node.gpus), ("cpus", node.cpus), ("memory_gb", node.memory_gb))
            ]
            for gpus, cpus, memory in waits:
                needs = (gpus, gpus * cpus, gpus * memory)
                assert any(need > room for need, room in zip(needs, free, strict=True)), (now, node.name)
