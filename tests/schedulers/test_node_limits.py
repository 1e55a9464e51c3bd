"""Sizes of elastic jobs that may be on some nodes only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import GPU, MICRO
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.registry import build
from muster.workload.trace import Trace
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.test_found_places import MODELS
from tests.schedulers.test_joint_sizes import MODELS as SLOWS_DOWN
from tests.schedulers.test_joint_sizes import sizes_of
from tests.schedulers.wrapped import Wrapped

ORDERS = ("gittins", "las", "srtf", "fifo")
PLACES = ("", "label=lab", "label=lab|any", "label=large")


def labelled() -> Cluster:
    """Nodes of 8, 8, 8 and 4 GPUs; the last two are `lab`, the third is also `large`, the second is `any`."""
    cluster = cluster_of(8, 8, 8, 4)
    labels = (), ("any",), ("lab", "large"), ("lab",)
    nodes = zip(cluster.nodes, labels, strict=True)
    return replace(cluster, nodes=tuple(replace(node, labels=own) for node, own in nodes))


@dataclass
class LeavesNoneWaiting(Wrapped):
    """A scheduler that fails if a job waits for half an hour beside two or more free GPUs of its nodes, enough for it.

    Sizes are chosen three times in a decision, so single decisions may have no place for a job.
    """

    since: dict[int, float] = field(default_factory=dict)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Decide, and look at what is free for the jobs that wait then."""
        decision, state = super().decide(snapshot, state)
        jobs, books = snapshot.jobs, snapshot.ledger.books
        with snapshot.transaction() as transaction:
            transaction.try_out(decision.changes)
            free = books.nodes["free"][:, GPU] // MICRO
            here = (snapshot.table.node_allowed[jobs.constraint] * free).sum(axis=1)
            needed = np.maximum(np.where(jobs.elastic, jobs.min_gpus, jobs.gpus), 2)
            waits = (books.heads[jobs.index] < 0) & (here >= needed)
        waiting, now = jobs.index[waits].tolist(), snapshot.now
        self.since = {job: self.since.get(job, now) for job in waiting}
        assert now - min(self.since.values(), default=now) <= 1_800, (now, waiting, free.tolist())
        return decision, state


@pytest.mark.parametrize("order", ORDERS)
def test_jobs_share_the_nodes_that_they_may_use(order: str) -> None:
    """Two jobs may use twelve of 28 GPUs and could use all: both run at once, and none is ever stopped."""
    rows = [job(0, 9_000, gpus=4, min_gpus=1, max_gpus=28, constraint="label=lab", model="fixed")] * 2
    result = run(jobs_of(*rows), labelled(), f"{order}+joint", models=SLOWS_DOWN, restart_cost_seconds=60.0)
    assert column(result, "start_seconds") == [0, 0]
    assert column(result, "preemptions") == [0, 0]
    assert sizes_of(result, "0")[0] + sizes_of(result, "1")[0] == 12


@st.composite
def placed_jobs(draw: st.DrawFn) -> Trace:
    """Elastic and rigid jobs that need at most the three cores beside each GPU, some on a part of the nodes."""
    rows = []
    for submit in sorted(draw(st.lists(st.sampled_from([0, 3_000, 6_000]), min_size=2, max_size=9))):
        sizes = {"min_gpus": draw(st.sampled_from([1, 2])), "max_gpus": draw(st.sampled_from([4, 16, 28]))}
        rows.append(
            job(
                submit,
                draw(st.sampled_from([4_000, 20_000, 100_000])),
                gpus=2,
                constraint=draw(st.sampled_from(PLACES)),
                model=draw(st.sampled_from(sorted(MODELS))),
                **(sizes if draw(st.integers(0, 3)) else {}),
            )
        )
    return jobs_of(*rows)


@pytest.mark.parametrize("order", ORDERS)
@given(trace=placed_jobs())
@settings(max_examples=40, deadline=None)
def test_all_jobs_end_and_none_waits_beside_nodes_of_its_own(order: str, trace: Trace) -> None:
    """Jobs need at most the cores beside their GPUs, so any free GPUs would do."""
    scheduler = LeavesNoneWaiting(build(f"{order}+joint"))
    result = run(trace, labelled(), scheduler, models=MODELS, restart_cost_seconds=60.0)
    assert result.unfinished == 0
