"""Elastic jobs that ask for more GPUs than there are run where the scheduler gives them fewer, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.cluster import Cluster
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.simulation import Failures
from tests.building import cluster_of, column, job, jobs_of, run
from tests.simulation.test_owners import notes

LARGE = job(0, 40, gpus=20, min_gpus=1, max_gpus=24, model="resnet50")
OTHER = job(5, 10, gpus=4)


def two_types() -> Cluster:
    cluster = cluster_of(8, 8)
    first, second = cluster.nodes
    return replace(cluster, nodes=(first, replace(second, gpu_type="p100")))


@pytest.mark.parametrize("cluster", [cluster_of(8, 8), two_types(), cluster_of(4, 4, 4, 4, racks=2)])
@pytest.mark.parametrize("network", ["none", "physical", "astra"])
@pytest.mark.parametrize("scheduler", ["gittins+joint", "fifo+joint", "fifo-strict+joint", "las+joint"])
@pytest.mark.parametrize("model", ["resnet50", ""])
def test_a_smaller_size_runs_to_its_end(cluster: Cluster, network: str, scheduler: str, model: str) -> None:
    trace = jobs_of(LARGE | {"model": model}, OTHER)
    result = run(trace, cluster, scheduler, network=network, contention=network != "none")
    assert column(result, "outcome") == ["completed", "completed"]


@pytest.mark.parametrize(
    "more", [{"failures": Failures(5000.0, 10.0)}, {"certify": True}, {"round_seconds": 7.0}]
)
def test_other_options_keep_it_running(more: dict[str, Any]) -> None:
    result = run(jobs_of(LARGE, OTHER), cluster_of(8, 8), "gittins+joint", **more)
    assert column(result, "outcome") == ["completed", "completed"]


@pytest.mark.parametrize("scheduler", ["fifo+proportional", "gandiva", "themis", "gittins+tune-plus"])
def test_who_gives_no_fewer_gpus_refuses_at_gpus(scheduler: str) -> None:
    with pytest.raises(InputError, match="gpus: found 20; job 0 can never run: cluster test has 16 GPUs"):
        run(jobs_of(LARGE, OTHER), cluster_of(8, 8), scheduler)


def test_a_least_size_that_never_fits_is_refused() -> None:
    trace = jobs_of(LARGE | {"min_gpus": 17}, OTHER)
    with pytest.raises(InputError, match="min_gpus: found 17; job 0 can never run: cluster test has 16 GPUs"):
        run(trace, cluster_of(8, 8), "gittins+joint")


@pytest.mark.parametrize(("cpus", "runs"), [(480.0, True), (500.0, False)])
def test_requests_count_with_the_least_size(cpus: float, runs: bool) -> None:
    """24 CPUs for each GPU are what a node of 8 GPUs has for one of them; 25 are more."""
    trace = jobs_of(LARGE | {"cpus": cpus}, OTHER)
    result = run(trace, cluster_of(8, 8), "gittins+joint", skip_impossible=True)
    assert column(result, "outcome") == ["completed" if runs else "refused", "completed"]


@pytest.mark.parametrize("model", ["bert", "resnet50"])
def test_its_duration_counts_what_it_communicates(model: str) -> None:
    """On all 16 GPUs it computes for 20/16 of the time of 20, and communicates no longer."""
    whole, larger = (
        run(
            jobs_of(LARGE | {"gpus": gpus, "min_gpus": 16, "model": model}),
            cluster_of(8, 8),
            "gittins+joint",
            network="physical",
        )
        for gpus in (16, 20)
    )
    seconds = column(whole, "jct_seconds")[0]
    assert seconds < column(larger, "jct_seconds")[0] <= seconds * 20 / 16


def test_gandiva_says_that_it_ignores_min_gpus() -> None:
    said = notes(run(jobs_of(OTHER | {"min_gpus": 2}, OTHER), cluster_of(8, 8), "gandiva"))
    assert "this scheduler ignores min_gpus, which 1 job of 2 state" in said


def test_a_shipped_cluster_line_runs_it() -> None:
    trace = jobs_of(LARGE | {"gpus": 32, "max_gpus": 32})
    assert column(run(trace, parse_cluster("2x8gpu"), "gittins+joint"), "outcome") == ["completed"]


@pytest.mark.parametrize(
    ("asks", "column_and_reason"),
    [
        ({"gpus": 8, "nodes": 3}, "nodes: found 3; job 0 can never run: it needs 3 nodes with 3 GPUs"),
        ({"gpus": 16, "nodes": 1}, "nodes: found 1; job 0 can never run: it needs 1 node with 16 GPUs"),
        (
            {"gpus": 2, "nodes": 1, "cpus": 30.0},
            "nodes: found 1; .* it needs 1 node with 2 GPUs and what else",
        ),
        ({"gpus": 8, "nodes": 2}, ""),
        ({"gpus": 2, "nodes": 2, "cpus": 30.0}, ""),
        ({"gpus": 16}, ""),
    ],
)
def test_nodes_that_the_cluster_does_not_have_are_refused(
    asks: dict[str, Any], column_and_reason: str
) -> None:
    """Two nodes of 8 GPUs and 24 CPUs; only Slurm's scheduler goes by the nodes."""
    trace, cluster = jobs_of(job(0, 40, **asks), OTHER), cluster_of(8, 8)
    if not column_and_reason:
        assert column(run(trace, cluster, "slurm"), "outcome") == ["completed", "completed"]
        return
    with pytest.raises(InputError, match=column_and_reason):
        run(trace, cluster, "slurm")
    result = run(trace, cluster, "slurm", skip_impossible=True)
    assert column(result, "outcome") == ["refused", "completed"]
