"""joint chooses sizes again where a plan has no place for one, or a slow one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Bools
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.gangs import Gangs, gangs_of, speed_by_kind
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.joint import joint
from muster.schedulers.joint.found_places import Found, as_found
from muster.schedulers.joint.modelled_speeds import TypedSizes
from muster.workload.trace import Trace
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.synergy_cases import round_of
from tests.schedulers.test_joint_sizes import sizes_of
from tests.schedulers.test_node_amounts import by_cpus

NEEDS_FEW = by_cpus("few", {1: 1.0})
NEEDS_MANY = by_cpus("many", {1: 0.5, 3: 1.0})
MODELS = {model.name: model for model in (NEEDS_FEW, NEEDS_MANY)}
ELASTIC: dict[str, Any] = {"gpus": 2, "min_gpus": 1, "max_gpus": 8}


@st.composite
def jobs_with_enough(draw: st.DrawFn) -> Trace:
    """Elastic jobs that need at most the three cores beside each GPU."""
    submits = sorted(draw(st.lists(st.sampled_from([0, 3_000, 6_000]), min_size=2, max_size=7)))
    names, durations = st.sampled_from(sorted(MODELS)), st.sampled_from([4_000, 20_000, 100_000])
    least, most = st.sampled_from([1, 2]), st.sampled_from([8, 16])
    rows = (
        job(submit, draw(durations), gpus=2, min_gpus=draw(least), max_gpus=draw(most), model=draw(names))
        for submit in submits
    )
    return jobs_of(*rows)


@pytest.mark.parametrize("order", ["gittins", "las", "srtf"])
@given(trace=jobs_with_enough())
@settings(max_examples=60)
def test_no_job_waits_beside_idle_gpus(order: str, trace: Trace) -> None:
    """A job may be to have more than the plan leaves: others shrink, are worth more for their CPUs, and go first."""
    result = run(trace, cluster_of(8, 8), f"{order}+joint", models=MODELS, restart_cost_seconds=60.0)
    idle = result.record.decisions.filter((pl.col("waiting") > 0) & (pl.col("free_gpus") >= 2))
    assert not len(idle), idle


def two_kinds() -> Cluster:
    """A node with three cores for each of its GPUs, and one with one."""
    slow = replace(cluster_of(8, cpus_per_gpu=1.0).nodes[0], name="slow", type_name="slow")
    fast = cluster_of(8)
    return replace(fast, nodes=(*fast.nodes, slow))


def test_a_job_does_not_grow_to_nodes_that_slow_it_down() -> None:
    """On sixteen GPUs it is as fast as on eight: each has the cores of the slower node."""
    rows = (job(0, 4_000, model="many", **{**ELASTIC, "max_gpus": 16}), job(0, 4_000, model="few", **ELASTIC))
    result = run(jobs_of(*rows), two_kinds(), "las+joint", models=MODELS)
    assert (sizes_of(result, "0"), sizes_of(result, "1")) == ([8], [8])


def test_what_is_left_limits_jobs_without_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs are left: enough for the first job, which may then have those, and not for the second.

    The third is not wanted, the last keeps its place.
    """
    found: list[Found] = []

    def look(
        given: AllocationInput, gangs: Gangs, sizes: TypedSizes, wanted: Bools, draft: PlacementDraft
    ) -> Found:
        if found:
            return as_found(given, gangs, sizes, wanted, draft)
        nothing_placed = given.keeping(np.zeros(4, np.bool_))
        nothing_placed.free[:, 0] = 2
        given.opened.movable[3] = False
        eight = sizes._replace(gpus=np.full(4, 8))
        found.append(as_found(given, gangs, eight, np.arange(4) != 2, nothing_placed))
        return found[0]

    monkeypatch.setattr(joint, "as_found", look)
    trace = jobs_of(*(job(0, 400, gpus=4, min_gpus=least, max_gpus=8) for least in (1, 4, 1, 1)))
    run(trace, cluster_of(8), "las+joint")
    assert found[0].part.tolist() == [0, 0, 1, 1]
    assert found[0].least.tolist() == [3, 8, 8, 8]
    assert (found[0].most > 8).tolist() == [True, True, False, False]


def test_nodes_without_gpus_are_no_kind_to_compare_with() -> None:
    """They have cores for a job that is as fast as it can be on the others."""
    cluster = cluster_of(8, cpus_per_gpu=1.0)
    bare = replace(cluster.nodes[0], name="bare", gpus=0, gpu_type="", gpus_per_island=1, cpus=64.0)
    case = round_of(replace(cluster, nodes=(*cluster.nodes, bare)), [("many", 8)], MODELS)
    _, best = speed_by_kind(gangs_of(case.snapshot))
    assert best.tolist() == [0.5]
