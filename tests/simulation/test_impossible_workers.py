"""Jobs whose least workers and a server fit into no empty cluster are refused: compared with all ways to place them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.problems import InputError
from muster.simulation import Failures
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.smd_cases import sized_job

SIZING = ("smd", "optimus", "oasis", "fifo+joint")


def cluster(kinds: list[tuple[int, int, int]]) -> Cluster:
    nodes = (
        Node(f"n{at}", "node", 0, gpus, "v100", max(gpus, 1), float(cpus), float(memory), 0.5, 1.25)
        for at, (gpus, cpus, memory) in enumerate(kinds)
    )
    return Cluster("small", tuple(nodes), ("rack0",))


def has_a_place(kinds: list[tuple[int, int, int]], row: dict[str, Any]) -> bool:
    """Whether the least workers, and a server if there are any, fit: all ways to give each of them a node."""
    worker = tuple(row[f"worker_{name}"] for name in ("gpus", "cpus", "memory_gb"))
    parts = [worker] * row["min_workers"]
    if row["sync"] == "ps":
        parts.append((0, row["server_cpus"], row["server_memory_gb"]))
    for where in product(range(len(kinds)), repeat=len(parts)):
        used = [
            [sum(part[of] for part, at in zip(parts, where, strict=True) if at == node) for of in range(3)]
            for node in range(len(kinds))
        ]
        if all(
            taken <= there
            for node, kind in zip(used, kinds, strict=True)
            for taken, there in zip(node, kind, strict=True)
        ):
            return True
    return False


@settings(max_examples=60)
@given(
    kinds=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 8), st.integers(4, 40)), min_size=1, max_size=3
    ),
    least=st.integers(1, 3),
    worker=st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 20)),
    server=st.tuples(st.integers(1, 4), st.integers(1, 20)),
    ring=st.booleans(),
)
def test_only_jobs_without_a_place_are_refused(
    kinds: list[tuple[int, int, int]],
    least: int,
    worker: tuple[int, int, int],
    server: tuple[int, int],
    ring: bool,
) -> None:
    row = sized_job(gpus=least * worker[0], min_workers=least, max_workers=4)
    row |= dict(zip(("worker_gpus", "worker_cpus", "worker_memory_gb"), map(float, worker), strict=True))
    row |= dict(zip(("server_cpus", "server_memory_gb"), map(float, server), strict=True))
    if ring:
        row = {name: value for name, value in row.items() if "server" not in name} | {"sync": "ring"}
    try:
        outcome = column(run(jobs_of(row), cluster(kinds), "smd", skip_impossible=True), "outcome")
    except InputError:  # The cluster has no GPU at all.
        outcome = ["refused"]
    assert (outcome != ["refused"]) == has_a_place(kinds, row)


@pytest.mark.parametrize("scheduler", SIZING)
def test_a_pair_without_room_is_refused_with_its_place(scheduler: str) -> None:
    trace = jobs_of(sized_job(worker_memory_gb=16.0, server_memory_gb=8.0), sized_job())
    said = "job 0 can never run: no nodes that it may use have room for one worker and one server"
    with pytest.raises(InputError, match=said):
        run(trace, cluster([(4, 32, 16)]), scheduler)


def test_a_scheduler_that_sizes_no_jobs_runs_it() -> None:
    trace = jobs_of(sized_job(worker_memory_gb=16.0, server_memory_gb=8.0))
    assert column(run(trace, cluster([(4, 32, 16)]), "fifo"), "outcome") == ["completed"]


@pytest.mark.parametrize("scheduler", ["fifo", "srtf+tune", "dally", "smallest+conservative"])
def test_a_scheduler_that_sizes_no_jobs_needs_all_gpus(scheduler: str) -> None:
    trace = jobs_of(sized_job(gpus=8, max_workers=8))
    with pytest.raises(InputError, match="cluster small has 4 GPUs that it may use"):
        run(trace, cluster([(4, 64, 256)]), scheduler)
    assert column(run(trace, cluster([(4, 64, 256)]), "fifo+joint"), "outcome") == ["completed"]


@pytest.mark.parametrize("scheduler", ["fifo", "fifo-strict", "srtf+tune", "fifo+requested"])
def test_a_scheduler_that_sizes_no_jobs_needs_all_requests(scheduler: str) -> None:
    trace = jobs_of(sized_job(cpus=66.0), sized_job(cpus=64.0, submit_seconds=1.0))
    with pytest.raises(InputError, match=r"cpus: found 66\.0; job 0 can never run"):
        run(trace, cluster([(4, 64, 256)]), scheduler)
    result = run(trace, cluster([(4, 64, 256)]), scheduler, skip_impossible=True)
    assert column(result, "outcome") == ["refused", "completed"]
    assert column(run(trace, cluster([(4, 64, 256)]), "fifo+joint"), "outcome") == ["completed"] * 2


@pytest.mark.parametrize("scheduler", [*SIZING, "fifo"])
@pytest.mark.parametrize("large", [{"worker_gpus": 8, "gpus": 8}, {"nic_gb_per_s": 2.0}])
def test_a_job_without_a_node_is_left_out(scheduler: str, large: dict[str, Any]) -> None:
    trace = jobs_of(sized_job(), sized_job(**large))
    with pytest.raises(InputError, match="job 1: no node of cluster small has a"):
        run(trace, cluster([(4, 64, 256)] * 2), scheduler)
    result = run(trace, cluster([(4, 64, 256)] * 2), scheduler, skip_impossible=True)
    assert column(result, "outcome") == ["completed", "refused"]
    assert result.refused == ("1",)


def test_a_ring_whose_own_nodes_hold_no_worker_is_left_out() -> None:
    """On a network, where a ring's seconds are those of its best place."""
    ring = {name: value for name, value in sized_job().items() if "server" not in name} | {"sync": "ring"}
    trace = jobs_of(ring | {"worker_gpus": 2, "gpus": 4, "constraint": "label=small"}, ring)
    kinds = ((1, ("small",)), (4, ()))
    nodes = tuple(
        Node(f"n{rack}", "node", rack, gpus, "v100", gpus, 64.0, 256.0, 0.5, 1.25, labels=labels)
        for rack, (gpus, labels) in enumerate(kinds)
    )
    result = run(jobs_of(ring), Cluster("two", nodes, ("r0", "r1")), "fifo+joint")
    assert column(result, "outcome") == ["completed"]
    result = run(trace, Cluster("two", nodes, ("r0", "r1")), "fifo+joint", skip_impossible=True)
    assert column(result, "outcome") == ["refused", "completed"]


@pytest.mark.parametrize("scheduler", SIZING)
def test_a_job_that_comes_while_too_few_nodes_are_up_waits(scheduler: str) -> None:
    """It needs all three, and one of them is down for 1,500 s. Nodes fail from the first arrival on."""
    trace = jobs_of(job(0, 1), job(1930, 60, gpus=8))
    failures = Failures(4_000.0, 1_500.0)
    result = run(trace, cluster_of(3, 4, 1), scheduler, failures=failures, checkpoint_seconds=50.0)
    assert column(result, "start_seconds")[1] > 1930
    assert column(result, "outcome") == ["completed", "completed"]
