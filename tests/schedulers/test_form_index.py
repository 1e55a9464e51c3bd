"""joint finds the places of a form that a look at every node finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Link
from muster.cluster.ledger_arrays import Books
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.joint import on_network
from muster.schedulers.joint.joint_core import place_on_network
from muster.simulation import Run
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, LINKS

LAYERS = {name: replace(CHATTY, name=name) for name in ("resnet18", "gnmt", "alexnet", "bert-base")}
LAYERS["gnmt"] = replace(LAYERS["gnmt"], gradient_gb=0.2)
LAYERS["alexnet"] = replace(LAYERS["alexnet"], gradient_gb=5.0)


def looking_everywhere(
    books: Books, draft: PlacementDraft, before: PlacementDraft, gangs: Gangs, *others: Any
) -> None:
    """Place the same jobs with a constraint that allows all nodes: each search then looks at all of them."""
    everywhere = np.ones((2, gangs.node_allowed.shape[1]), np.bool_)
    constrained = gangs._replace(constraint=np.ones_like(gangs.constraint), node_allowed=everywhere)
    place_on_network(books, draft, before, constrained, *others)


def a_run(random: np.random.Generator, cluster: Cluster, order: str, restart: float) -> Run:
    """A run of jobs that come and end, some of which communicate."""
    sizes, models = [1, 1, 2, 2, 3, 4, 6, 8, 12], [*LAYERS, ""]
    rows = [
        job(
            float(random.integers(0, 300)),
            float(random.integers(50, 900)),
            gpus=int(random.choice(sizes)),
            model=str(random.choice(models)),
        )
        for _ in range(18)
    ]
    rows.sort(key=lambda row: row["submit_seconds"])
    return run(
        jobs_of(*rows),
        cluster,
        f"{order}+joint",
        restart_cost_seconds=restart,
        layers=LAYERS,
        network="physical",
        skip_impossible=True,
    )


@given(
    st.integers(0, 2**32),
    st.sampled_from(["fifo", "las", "srtf"]),
    st.booleans(),
    st.sampled_from([0.0, 20.0]),
)
@example(11837, "fifo", False, 0.0)  # nodes of one size, with islands of 2 and of 4
@settings(deadline=None, max_examples=60)
def test_runs_are_those_of_searches_of_all_nodes(seed: int, order: str, alike: bool, restart: float) -> None:
    """Nodes of one size, or of several with islands of several; CPUs are short at times."""
    random = np.random.default_rng(seed)
    sizes = [4] * 6 if alike else random.choice([2, 4, 8], 6).tolist()
    cluster = cluster_of(*sizes, racks=2, cpus_per_gpu=2.0 if seed % 2 else 6.0)
    islands = [2] * 6 if alike else random.choice([2, 4], 6).tolist()
    nodes = zip(cluster.nodes, islands, strict=True)
    cluster = replace(
        cluster,
        nodes=tuple(replace(node, gpus_per_island=min(island, node.gpus)) for node, island in nodes),
        links=replace(LINKS, node=Link(3.0, 0.0)),
    )
    indexed = a_run(np.random.default_rng(seed), cluster, order, restart)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_network, "place_on_network", looking_everywhere)
        slow = a_run(np.random.default_rng(seed), cluster, order, restart)
    for one, other in (
        (indexed.record.jobs, slow.record.jobs),
        (indexed.record.allocations, slow.record.allocations),
        (indexed.record.reasons, slow.record.reasons),
    ):
        assert one.equals(other)


def test_a_place_is_as_its_own_node_has_islands() -> None:
    """Nodes of one shape with islands of 4 and of 2: a job leaves the slower one when the faster is free."""
    cluster = cluster_of(4, 4, cpus_per_gpu=6.0)
    first, second = cluster.nodes
    cluster = replace(
        cluster,
        nodes=(replace(first, gpus_per_island=4), replace(second, gpus_per_island=2)),
        links=replace(LINKS, node=Link(0.5, 0.0)),
    )
    jobs = jobs_of(*(job(at, seconds, gpus=4, model="gnmt") for at, seconds in ((0.0, 100.0), (1.0, 600.0))))
    result = run(jobs, cluster, "srtf+joint", restart_cost_seconds=0.0, layers=LAYERS, network="physical")
    places = result.record.allocations.filter(job_id="1").sort("from_seconds")
    assert places["node"].to_list() == ["node1", "node0"]
