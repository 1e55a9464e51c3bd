"""What one feature promises holds beside another one, under joint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.cluster.shipped import parse_cluster
from muster.simulation import Failures
from muster.workload.models import synergy_models
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.smd_cases import machines, sized_job
from tests.schedulers.synergy_cases import on_types
from tests.schedulers.test_joint_servers import UNRATED
from tests.schedulers.test_joint_sizes import MODELS

GNMT = {"submit_seconds": 0.0, "gpus": 2, "model": "gnmt"}


def test_a_job_with_servers_outlasts_its_only_node() -> None:
    """While no node is up that has room for it, it waits."""
    trace = jobs_of(sized_job(iterations=20_000.0, **UNRATED))
    failures = Failures(8_000.0, 500.0)
    result = run(trace, machines(1), "gittins+joint", failures=failures, checkpoint_seconds=200.0)
    assert result.unfinished == 0
    assert column(result, "preemptions")[0] > 0


@pytest.mark.parametrize("order", ["priority", "las"])
def test_a_job_for_which_its_tenants_elastic_job_stops_starts(order: str) -> None:
    """The limit counts no job that it has stopped itself."""
    trace = jobs_of(
        job(0, 8_000, gpus=3, min_gpus=2, max_gpus=3, tenant="a"),
        job(3_000, 1_000, gpus=3, tenant="a", priority=1.0),
    )
    result = run(trace, cluster_of(8), f"quota+{order}+joint", {"limits": "a:3"})
    assert column(result, "start_seconds") == [0, 3_000]
    assert result.unfinished == 0


@pytest.mark.parametrize("order", ["gittins", "las", "fifo"])
def test_a_share_of_a_gpu_waits_for_its_tenants_limit(order: str) -> None:
    """The elastic job has all five GPUs of its tenant, and may not shrink yet when the share comes."""
    trace = jobs_of(
        job(0, 5_000, min_gpus=1, max_gpus=8, tenant="b"), job(10, 2_000, gpu_milli=500, tenant="b")
    )
    result = run(trace, cluster_of(8), f"quota+{order}+joint", {"limits": "b:5"}, restart_cost_seconds=60.0)
    held = result.record.allocations.select("from_seconds", "to_seconds", "gpus").rows()
    assert held[0][2] == 5
    assert all(sum(gpus for since, to, gpus in held if since <= at < to) <= 5 for at, _, _ in held)


def test_a_rigid_job_keeps_its_type_where_another_has_no_place() -> None:
    """Two GPUs of the fast type take all its memory; a job of four stays on the slow type, and is not stopped."""
    model = on_types(replace(synergy_models()["resnet50"], name="either"), {"k80": 0.4, "a100": 2.0})
    nodes = [
        Node(f"n{at}", name, 0, 8, name, 8, 8.0, 120.0, 0.5, 1.25) for at, name in enumerate(("k80", "a100"))
    ]
    fast = {"constraint": "gpu_type=a100"}
    trace = jobs_of(
        job(0, 800, gpus=8, **fast),
        job(100, 8_000, gpus=4, model="either"),
        job(500, 20_000, gpus=1, min_gpus=1, max_gpus=4, model="either", **fast),
    )
    cluster = Cluster("two", tuple(nodes), ("r0",))
    result = run(trace, cluster, "gittins+joint", models={"either": model}, restart_cost_seconds=60.0)
    assert column(result, "preemptions")[1] == 0


@pytest.mark.parametrize("order", ["gittins", "fifo"])
def test_a_job_without_gpus_runs_beside_busy_gpus(order: str) -> None:
    """All GPUs are held by a gang that uses one core each of the four; the cores that are free are enough."""
    gang = GNMT | {"gpus": 4, "duration_seconds": 4_000.0}
    trace = jobs_of(gang, job(100, 60, gpus=0, cpus=2.0, memory_gb=1.0))
    result = run(trace, cluster_of(4, cpus_per_gpu=4.0), f"{order}+joint")
    assert column(result, "start_seconds") == [0, 100]


@pytest.mark.parametrize("requested", [{"cpus": 1.0}, {}])
@pytest.mark.parametrize("order", ["las", "srtf"])
def test_a_running_job_is_left_no_less_than_its_least(order: str, requested: dict[str, float]) -> None:
    """A job without GPUs takes both cores: the other one is stopped, and not left with GPUs and no core."""
    trace = jobs_of(
        GNMT | {"duration_seconds": 5_000.0} | requested, job(1_000, 100, gpus=0, cpus=2.0, memory_gb=1.0)
    )
    result = run(trace, cluster_of(2, cpus_per_gpu=1.0), f"{order}+joint")
    assert column(result, "start_seconds")[1] == 1_000
    held = result.record.allocations.filter(pl.col("job_id") == "0")
    assert min(held["cpus"].to_list()) == 2.0


def test_workers_do_not_stop_for_a_gang_without_a_place() -> None:
    """There are three free GPUs on one node, and too few cores for all three jobs whichever of them runs there."""
    stated: dict[str, Any] = UNRATED | {"worker_cpus": 0.5, "server_cpus": 0.5, "nic_gb_per_s": 0.1}
    trace = jobs_of(
        GNMT | {"iterations": 100_000.0, "cpus": 5.0},
        sized_job(gpus=1, max_workers=1, servers=1, iterations=3_000.0, **stated),
        GNMT | {"submit_seconds": 2_000.0, "gpus": 3, "iterations": 5_000.0},
    )
    result = run(trace, parse_cluster("2x4gpu,4cpu,60gb"), "gittins+joint", restart_cost_seconds=60.0)
    assert column(result, "start_seconds")[2] == 12_000.0, "when the first ends"
    assert column(result, "preemptions")[1] == 0


@pytest.mark.parametrize("stated", [UNRATED, {}])
def test_workers_have_the_memory_that_gangs_hardly_use(stated: dict[str, Any]) -> None:
    """A gang holds all memory of the node for as long as it runs alone."""
    gang = GNMT | {"model": "resnet50", "iterations": 20_000.0}
    coming = sized_job(submit_seconds=100.0, gpus=1, max_workers=1, servers=1, iterations=500.0, **stated)
    result = run(jobs_of(gang, coming), parse_cluster("1x4gpu,32cpu,125gb"), "gittins+joint")
    assert column(result, "start_seconds") == [0, 100]
    assert column(result, "moves") == [0, 0]


def test_gangs_give_up_nothing_while_gpus_are_released() -> None:
    """Jobs with servers wait for what is free then, as places of running jobs may not change."""
    gang = GNMT | {"model": "resnet50", "iterations": 20_000.0}
    coming = sized_job(submit_seconds=100.0, gpus=1, max_workers=1, servers=1, iterations=500.0, **UNRATED)
    result = run(
        jobs_of(gang, coming),
        parse_cluster("1x4gpu,32cpu,125gb"),
        "gittins+joint",
        release_seconds_per_gpu=2.0,
    )
    assert result.unfinished == 0
    assert result.record.allocations.filter(pl.col("job_id") == "0")["memory_gb"].to_list() == [125.0]


@pytest.mark.parametrize("stated", [UNRATED, {}])
def test_elastic_jobs_do_not_stop_for_workers_under_sjf(stated: dict[str, Any]) -> None:
    elastic = GNMT | {"iterations": 20_000.0, "min_gpus": 1, "max_gpus": 2}
    trace = jobs_of(elastic, *[sized_job(submit_seconds=1_500.0, iterations=500.0, **stated)] * 3)
    result = run(trace, machines(1, gpus=2, nic_gb_per_s=10.0), "sjf+joint", restart_cost_seconds=60.0)
    assert column(result, "preemptions") == [0, 0, 0, 0]
    assert result.unfinished == 0


@pytest.mark.parametrize("order", ["sjf", "srtf"])
@pytest.mark.parametrize("cost", [60.0, 600.0])
def test_a_job_waits_until_an_elastic_one_may_shrink(order: str, cost: float) -> None:
    """For as long as a change costs it, and not for twelve times that, though nothing else happens then."""
    trace = jobs_of(
        job(0, 50_000, gpus=2, min_gpus=1, max_gpus=8, model="resnet50"), job(1, 2_400, gpus=4, model="gnmt")
    )
    result = run(trace, cluster_of(8), f"{order}+joint", restart_cost_seconds=cost)
    assert column(result, "start_seconds") == [0, pytest.approx(cost)]


@pytest.mark.parametrize(
    ("scheduler", "chosen", "starts"),
    [
        ("quota+gittins+joint", {"guaranteed": "a:4"}, 1_000.0),
        ("gittins+joint", {"promote_after_seconds": "1500"}, 1_600.0),
        ("priority+joint", {}, 720.0),
    ],
)
@pytest.mark.parametrize("gpus", [1, 4])
def test_room_is_made_for_a_share_of_a_gpu(
    scheduler: str, chosen: dict[str, str], starts: float, gpus: int
) -> None:
    """As for a whole GPU: once its tenant's guarantee, promotion or the order has it first."""
    others = [job(0, 40_000, gpus=gpus, tenant="b")] * (4 // gpus)
    trace = jobs_of(*others, job(100, 600, gpu_milli=500, tenant="a", priority=9.0))
    result = run(trace, cluster_of(4), scheduler, chosen, restart_cost_seconds=60.0)
    assert column(result, "start_seconds")[-1] == pytest.approx(starts)
    assert sum(column(result, "preemptions")) == 1


def test_a_request_is_kept_beside_one_that_holds_more() -> None:
    """Three cores are left to two jobs that held two each: the one that asks for both of its own keeps them."""
    trace = jobs_of(
        GNMT | {"duration_seconds": 4_194.0, "cpus": 1.0},
        GNMT
        | {"submit_seconds": 10.0, "gpus": 4, "min_gpus": 1, "max_gpus": 8}
        | {"duration_seconds": 2_570.0, "cpus": 4.0},
        job(600, 55, gpus=0, cpus=1.0, memory_gb=1.0),
    )
    result = run(trace, cluster_of(4, cpus_per_gpu=1.0), "srtf+joint", restart_cost_seconds=60.0)
    assert column(result, "start_seconds")[2] == 600
    held = result.record.allocations.filter(pl.col("job_id") == "1")
    assert min((held["cpus"] / held["gpus"]).to_list()) == 1.0


def test_no_chosen_job_stops_for_one_without_gpus() -> None:
    """All three fit by their cores in all, and each node has one core less than the last needs."""
    gang: dict[str, Any] = {"gpus": 2, "cpus": 3.0, "model": "gnmt"}
    trace = jobs_of(
        *[job(0, 2_000, **gang)] * 2,
        job(1_000, 100, gpus=0, cpus=2.0, memory_gb=1.0),
    )
    result = run(trace, cluster_of(2, 2, cpus_per_gpu=2.0), "srtf+joint", restart_cost_seconds=60.0)
    assert column(result, "start_seconds") == [0, 0, 2_000]
    assert column(result, "preemptions") == [0, 0, 0]


def test_a_job_without_gpus_does_not_stop_in_vain() -> None:
    """The shorter job asks for more cores than both leave, and its only node has no GPU for it yet."""
    nodes = [
        Node(f"n{at}", "node", 0, 2, "v100", 2, 4.0, 60.0, 0.5, 1.25, labels=labels)
        for at, labels in enumerate([("fast",), ()])
    ]
    fast = {"constraint": "label=fast"}
    trace = jobs_of(
        job(0, 5_000, gpus=2, cpus=1.0, preemptible=False, **fast),
        job(10, 4_000, gpus=0, cpus=4.0, memory_gb=1.0),
        job(1_000, 100, gpus=1, cpus=4.0, **fast),
    )
    result = run(trace, Cluster("two", tuple(nodes), ("r0",)), "srtf+joint", restart_cost_seconds=60.0)
    assert column(result, "start_seconds") == [0, 10, 5_000]
    assert column(result, "preemptions") == [0, 0, 0]


@st.composite
def with_and_without_gpus(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Jobs that request cores for their GPUs, some elastic, and jobs without GPUs."""
    rows = []
    for _ in range(draw(st.integers(3, 12))):
        submit, seconds = float(draw(st.integers(0, 2_000))), float(draw(st.integers(30, 3_000)))
        gpus = draw(st.sampled_from([0, 1, 2, 4]))
        more: dict[str, Any] = {"cpus": draw(st.sampled_from([0.5, 1.0, 2.0, 4.0]))}
        if gpus:
            more["model"] = draw(st.sampled_from(["resnet50", "gnmt", "fixed"]))
            more |= draw(st.sampled_from([{}, {"min_gpus": 1, "max_gpus": 8}]))
        else:
            more["memory_gb"] = 1.0
        rows.append(job(submit, seconds, gpus=gpus, **more))
    return rows


@settings(max_examples=60, deadline=None)
@given(
    with_and_without_gpus(), st.sampled_from(["gittins", "srtf", "las", "fifo"]), st.sampled_from([1.0, 4.0])
)
def test_requests_are_kept_beside_jobs_without_gpus(
    rows: list[dict[str, Any]], order: str, cpus_per_gpu: float
) -> None:
    """Each job has the cores that its owner asks for with each GPU, at all times."""
    options: dict[str, Any] = {"restart_cost_seconds": 60.0, "skip_impossible": True, "models": MODELS}
    result = run(jobs_of(*rows), cluster_of(4, 2, cpus_per_gpu=cpus_per_gpu), f"{order}+joint", **options)
    held = result.record.allocations.group_by("job_id", "from_seconds").agg(pl.col("gpus", "cpus").sum())
    for name, gpus, cpus in held.select("job_id", "gpus", "cpus").rows():
        asked = rows[int(name)]
        assert cpus >= asked["cpus"] * (gpus / asked["gpus"] if asked["gpus"] else 1.0) - 1e-3
