"""Nodes that no job of a run can use change nothing for its jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.cluster import Cluster
from tests.building import cluster_of, finishes, job, jobs_of, run


def beside_a_cpu_node(cluster: Cluster) -> Cluster:
    """The cluster with one more node, which has CPU cores and memory alone."""
    more = replace(cluster.nodes[0], name="cpus", gpus=0, gpus_per_island=1, cpus=64.0, memory_gb=512.0)
    return replace(cluster, nodes=(*cluster.nodes, more))


@pytest.mark.parametrize("scheduler", ["fifo", "srtf+tune", "gittins+joint"])
def test_a_node_without_gpus_makes_no_job_longer(scheduler: str) -> None:
    """A job with its share of a node takes the trace's duration, however many CPU cores other nodes have."""
    trace = jobs_of(job(0, 1000, gpus=4, model="alexnet"))
    assert finishes(run(trace, beside_a_cpu_node(cluster_of(4)), scheduler)) == [1000.0]


def test_a_waiting_job_counts_as_fast_as_on_its_own_nodes() -> None:
    """Under `srtf-speed`: with the speed on a node that it may not use, a longer job would stop a shorter one."""
    own, larger = cluster_of(1, 8).nodes
    cluster = replace(cluster_of(1, 8), nodes=(replace(own, labels=("own",)), larger))
    trace = jobs_of(
        job(0, 1000, constraint="label=own"), job(10, 1500, model="alexnet", constraint="label=own")
    )
    assert finishes(run(trace, cluster, "srtf-speed")) == [1000.0, 2500.0]
