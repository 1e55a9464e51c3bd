"""Which jobs an order serves is counted on the nodes that each may use."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from muster.cluster import Cluster
from muster.cluster.ledger import Ledger, NodeAllocation
from muster.cluster.structured import zero_records
from muster.schedulers.placement.job_columns import JobColumns
from muster.schedulers.placement.serving import choose_in_order
from muster.workload.jobs import ASKED
from tests.building import cluster_of, column, job, jobs_of, run

PARTS = (
    "proportional+pack",
    "requested+spread",
    "least-loss",
    "tune",
    "tune-plus",
    "tune-published",
    "greedy",
    "opt",
)
PROMOTED = {"promote_after_seconds": "300"}


def all_find_gpus(sizes: list[int], allowed: npt.NDArray[np.bool_], free: npt.NDArray[np.int64]) -> bool:
    """Whether jobs have their GPUs all at once, each on any nodes that it may use, by the largest flow."""
    jobs, nodes = allowed.shape
    capacity = np.zeros((jobs + nodes + 2, jobs + nodes + 2), np.int32)
    capacity[0, 1 : jobs + 1] = sizes
    capacity[1 : jobs + 1, jobs + 1 : -1] = np.where(allowed, np.array(sizes)[:, None], 0)
    capacity[jobs + 1 : -1, -1] = free
    return bool(maximum_flow(csr_array(capacity), 0, jobs + nodes + 1).flow_value == sum(sizes))


def nested(data: st.DataObject, nodes: int) -> npt.NDArray[np.bool_]:
    """Constraints any two of which are apart or one in the other: all nodes, some in a row, some of those."""
    cuts = sorted(data.draw(st.sets(st.integers(1, nodes - 1), max_size=3)))
    parts = [(0, nodes), *pairwise([0, *cuts, nodes])]
    parts += [(first, (first + last + 1) // 2) for first, last in parts[1:] if last - first > 1]
    number = np.arange(nodes)
    return np.array([(first <= number) & (number < last) for first, last in parts])


@given(st.data())
@settings(deadline=None)
def test_jobs_are_chosen_while_all_find_gpus_at_once(data: st.DataObject) -> None:
    """Where constraints are nested, and pinned jobs stay where they are."""
    gpus = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    allowed = nested(data, len(gpus))
    free, rows, constraint, held = np.array(gpus), [], [], []
    ledger = Ledger(cluster_of(*gpus), 12)
    for number in range(data.draw(st.integers(1, 12))):
        constraint.append(data.draw(st.integers(0, len(allowed) - 1)))
        own = np.flatnonzero(allowed[constraint[-1]] & (free > 0))
        runs = len(own) > 0 and data.draw(st.booleans())
        node = data.draw(st.sampled_from(own.tolist())) if runs else -1
        rows.append(data.draw(st.integers(1, int(free[node]) if runs else 5)))
        held.append(node)
        if runs:
            first = gpus[node] - int(free[node])
            ledger.put(number, [NodeAllocation(node, tuple(range(first, first + rows[-1])))])
            free[node] -= rows[-1]
    asked = zero_records(len(rows), ASKED)
    asked["gpus"], asked["milli"], asked["constraint"] = rows, 1000, constraint
    pinned = np.array([node >= 0 and data.draw(st.booleans()) for node in held])
    ranked = np.array(data.draw(st.permutations(range(len(rows)))))
    chosen = pinned.copy()
    strict, moves = data.draw(st.booleans()), data.draw(st.booleans())
    columns = JobColumns(asked, np.arange(len(rows)), allowed)
    choose_in_order(ledger.books, columns, None, ranked, 0, moves, strict, chosen)

    expected = pinned.copy()
    for at in [at for at in ranked.tolist() if not pinned[at]]:
        expected[at] = True
        left, waiting = np.array(gpus), []
        for other in np.flatnonzero(expected).tolist():
            if held[other] >= 0 and (pinned[other] or not moves):
                left[held[other]] -= rows[other]
            else:
                waiting.append(other)
        sizes = [rows[other] for other in waiting]
        expected[at] = all_find_gpus(sizes, allowed[[constraint[other] for other in waiting]], left)
        if strict and not expected[at]:
            break
    assert chosen.tolist() == expected.tolist()


def with_partitions(*names: str, gpus: int = 1) -> Cluster:
    """A node of each of these partitions."""
    cluster = cluster_of(*[gpus] * len(names))
    nodes = zip(cluster.nodes, names, strict=True)
    return replace(cluster, nodes=tuple(replace(node, labels=(name,)) for node, name in nodes))


def in_train(
    at: float, seconds: float, gpus: int, priority: float, cpus: float | None = None
) -> dict[str, Any]:
    """A job that may be on nodes of the partition `train` alone."""
    return job(at, seconds, gpus=gpus, priority=priority, constraint="label=train", cpus=cpus)


@pytest.mark.parametrize("parts", [*PARTS, "joint"])
@pytest.mark.parametrize("order", ["srtf", "las", "priority"])
@pytest.mark.parametrize("cpus", [None, 9.0])
def test_a_short_job_takes_what_it_needs_of_its_partition(order: str, parts: str, cpus: float | None) -> None:
    """The idle node of another partition is none to it: its GPU, or three of its four GPUs and the CPUs of all."""
    jobs = jobs_of(in_train(0.0, 100_000.0, 1, 0.0, cpus), in_train(10.0, 60.0, 1, 5.0, cpus))
    cluster = with_partitions("train", "dev", gpus=1 if cpus is None else 4)
    assert column(run(jobs, cluster, f"{order}+{parts}"), "finish_seconds")[1] < 1_000


@pytest.mark.parametrize("parts", [*PARTS, "joint"])
@pytest.mark.parametrize("order", ["srtf", "las", "priority"])
def test_cpus_of_a_node_without_gpus_are_none_to_a_job(order: str, parts: str) -> None:
    """It needs a GPU beside 9 of the 12 CPUs, which another job holds; those of a node without GPUs do not help."""
    jobs = jobs_of(job(0.0, 100_000.0, cpus=9.0), job(10.0, 60.0, priority=5.0, cpus=9.0))
    cluster = cluster_of(4)
    cores = replace(cluster.nodes[0], name="cores", gpus=0, gpus_per_island=1, cpus=96.0)
    result = run(jobs, replace(cluster, nodes=(*cluster.nodes, cores)), f"{order}+{parts}")
    assert column(result, "finish_seconds")[1] < 1_000


def test_a_share_is_that_of_nodes_a_job_may_use() -> None:
    """A job that comes takes an idle node. With the share of other, larger nodes the running jobs seem too large."""
    cluster = with_partitions(*["train"] * 3, "dev", gpus=4)
    other = replace(cluster.nodes[3], memory_gb=4_000.0)
    jobs = jobs_of(
        {**in_train(0.0, 20_000.0, 2, 0.0), "memory_gb": 160.0},
        in_train(0.0, 20_000.0, 3, 0.0),
        in_train(10_000.0, 1_000.0, 4, 1.0),
    )
    result = run(jobs, replace(cluster, nodes=(*cluster.nodes[:3], other)), "las", restart_cost_seconds=60.0)
    assert column(result, "finish_seconds") == [20_000.0, 20_000.0, 11_000.0]


@pytest.mark.parametrize("order", ["srtf", "las", "gittins", "fifo"])
def test_joint_leaves_idle_nodes_to_others(order: str) -> None:
    """Jobs without a model run as they do without the idle nodes: not to the byte in all cases, but in these."""
    random = Random(1)
    rows = [
        in_train(random.uniform(0, 9_000), random.uniform(60, 3_000), 2 ** random.randint(0, 3), 0.0)
        for _ in range(40)
    ]
    jobs = jobs_of(*sorted(rows, key=lambda row: row["submit_seconds"]))
    alone, beside = (
        run(jobs, with_partitions(*names, gpus=8), f"{order}+joint", restart_cost_seconds=60.0).record.jobs
        for names in (["train"] * 2, ["train", "dev", "train", "dev"])
    )
    assert alone.equals(beside)


@given(
    st.sampled_from(["srtf", "las", "priority", "gittins", "fifo"]),
    st.sampled_from([(parts, {}) for parts in PARTS] + [(parts, PROMOTED) for parts in PARTS[:2]]),
    st.lists(
        st.builds(
            in_train,
            st.floats(0, 500),
            st.floats(10, 1_000),
            st.sampled_from([1, 1, 2, 4, 6]),
            st.sampled_from([0.0, 1.0]),
            st.sampled_from([None, None, 1.0, 6.0, 9.0]),
        ),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from([0.0, 30.0]),
)
@settings(deadline=None, max_examples=60)
def test_idle_nodes_of_another_partition_change_nothing(
    order: str, of_scheduler: tuple[str, dict[str, str]], rows: list[dict[str, Any]], restart: float
) -> None:
    """Idle nodes of the same kind; of another kind and without GPUs where no plan begins with all nodes as one."""
    parts, more = of_scheduler
    jobs = jobs_of(*sorted(rows, key=lambda row: row["submit_seconds"]))
    cluster = with_partitions("train", "dev", "train", "dev", gpus=4)
    train, large = cluster.nodes[::2], replace(cluster.nodes[3], cpus=96.0, memory_gb=2000.0)
    nodes = [train, cluster.nodes]
    if parts not in ("tune-plus", "opt"):
        cores = replace(large, name="cores", gpus=0, gpus_per_island=1)
        nodes += [(train[0], large, train[1]), (*train, cores)]
    alone, *beside = (
        run(
            jobs,
            replace(cluster, nodes=each),
            f"{order}+{parts}",
            {"preemptive": "true"} | more,
            restart_cost_seconds=restart,
            skip_impossible=True,
        ).record.jobs
        for each in nodes
    )
    assert all(alone.equals(jobs) for jobs in beside)
