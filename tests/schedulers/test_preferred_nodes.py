"""joint leaves nodes to jobs that may use no others, where a job with more choice is as well off elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Link
from muster.schedulers.allocation.gangs import gangs_of
from muster.schedulers.joint.preferred_nodes import with_preferred_nodes
from muster.workload.models import synergy_models
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.synergy_cases import round_of
from tests.schedulers.test_dally_network import LINKS

ORDERS = ("gittins", "las", "srtf", "fifo")


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_a_job_prefers_nodes_that_no_narrower_one_may_use(seed: int, constraints: int, nodes: int) -> None:
    """By brute force over sets of nodes."""
    random = np.random.default_rng(seed)
    allowed = np.vstack([np.ones(nodes, np.bool_), random.random((constraints, nodes)) < 0.6])
    constraint = random.integers(0, len(allowed), 7)
    at = np.flatnonzero(random.random(7) < 0.7)
    gangs = gangs_of(round_of(cluster_of(*[4] * nodes), [("", 1)] * 7).snapshot)
    gangs = gangs._replace(constraint=constraint, node_allowed=allowed)
    found = with_preferred_nodes(gangs, at)
    sets = [frozenset(np.flatnonzero(row).tolist()) for row in allowed]
    narrow = {sets[number] for number in constraint[at].tolist()} - {frozenset()}
    for job_at in at.tolist():
        own = sets[constraint[job_at]]
        left = own.difference(*(other for other in narrow if other < own))
        row = int(found.preferred[job_at])
        assert (row >= 0) == (bool(left) and left != own)
        assert row < 0 or set(np.flatnonzero(found.node_allowed[row]).tolist()) == left
    assert (found.node_allowed[: len(allowed)] == allowed).all()


def labelled(nodes: tuple[int, ...], links: bool) -> Cluster:
    """The first node has a label; places are alike, or linked fast."""
    cluster = cluster_of(*nodes, racks=2 if links else 1)
    first, *others = cluster.nodes
    cluster = replace(cluster, nodes=(replace(first, labels=("own",)), *others))
    return replace(cluster, links=replace(LINKS, rack=Link(100.0, 0.0))) if links else cluster


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("nodes", [(4, 4), (4, 8)])
@pytest.mark.parametrize("links", [False, True])
def test_a_job_leaves_a_node_that_another_one_needs(order: str, nodes: tuple[int, ...], links: bool) -> None:
    """It comes first and fits as well on the first node; both run at once."""
    two: dict[str, Any] = {"gpus": 4, "model": "resnet50"}
    trace = jobs_of(job(0, 2_000, **two), job(0, 2_000, constraint="label=own", **two))
    result = run(trace, labelled(nodes, links), f"{order}+joint", network="physical" if links else "none")
    assert column(result, "start_seconds") == [0, 0]


@pytest.mark.parametrize("order", ORDERS[:3])
@pytest.mark.parametrize("links", [False, True])
def test_a_job_moves_from_a_node_that_another_one_needs(order: str, links: bool) -> None:
    """It was alone when it started; the restart is repaid at once."""
    four: dict[str, Any] = {"gpus": 4, "model": "resnet50"}
    trace = jobs_of(job(0, 50_000, **four), job(3_000, 50_000, constraint="label=own", **four))
    network = "physical" if links else "none"
    result = run(trace, labelled((4, 4), links), f"{order}+joint", restart_cost_seconds=60.0, network=network)
    assert column(result, "start_seconds") == [0, 3_000]
    assert sum(column(result, "moves")) + sum(column(result, "preemptions")) == 1


@pytest.mark.parametrize("order", ORDERS[:3])
def test_a_job_takes_no_slower_place_for_that(order: str) -> None:
    """On the two machines without the label the gang has three quarters of its speed."""
    cluster = cluster_of(8, 4, 4, racks=3)
    nodes = tuple(replace(node, nic_gb_per_s=10.0) for node in cluster.nodes)
    nodes = (replace(nodes[0], labels=("own",)), *nodes[1:])
    slow = Link(10.0, 0.0)
    cluster = replace(cluster, nodes=nodes, links=replace(LINKS, rack=slow, cluster=slow))
    gang = job(0, 2_000, gpus=8, model="resnet50")
    trace = jobs_of(gang, job(0, 2_000, constraint="label=own", model="resnet50"))
    alone = run(jobs_of(gang), cluster, f"{order}+joint", network="physical")
    both = run(trace, cluster, f"{order}+joint", network="physical")
    assert column(both, "finish_seconds")[0] == column(alone, "finish_seconds")[0]


@pytest.mark.parametrize("order", ORDERS)
def test_a_job_takes_no_node_with_fewer_cores_for_that(order: str) -> None:
    """The nodes without the label have one core beside each GPU, on which the job is far slower."""
    few, many = cluster_of(4, 4, cpus_per_gpu=1.0).nodes, cluster_of(4, 4, cpus_per_gpu=12.0).nodes
    nodes = (replace(many[0], labels=("own",), type_name="many"), few[1])
    cluster = replace(cluster_of(4, 4), nodes=nodes)
    first = job(0, 2_000, gpus=4, model="alexnet")
    trace = jobs_of(first, job(0, 2_000, constraint="label=own"))
    alone = run(jobs_of(first), cluster, f"{order}+joint", models=synergy_models(), network="none")
    both = run(trace, cluster, f"{order}+joint", models=synergy_models(), network="none")
    assert column(both, "finish_seconds")[0] == column(alone, "finish_seconds")[0]
