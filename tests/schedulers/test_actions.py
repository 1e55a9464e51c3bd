"""Typed actions and pending reasons of decisions whose cause is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muster.cluster.ledger import Ledger, NodeAllocation
from muster.schedulers.actions import Migrate, Preempt, Resize, Start, actions_of
from muster.schedulers.contract import Decision, Jobs, Snapshot, Trigger
from muster.schedulers.pending import Blockers, Pending, pending_jobs
from muster.schedulers.reasons import BEHIND_HEAD, NO_GPUS, OUTRANKED, OVER_LIMIT, PLACED
from muster.speed.demands import ResourceProfiles
from muster.speed.input_pipeline import model_table
from muster.workload.jobs import RUNNING, WAITING, job_table
from tests.building import cluster_of, hold, job, jobs_of


def view_of(*rows: dict[str, object], nodes: tuple[int, ...] = (4,)) -> Snapshot:
    """Waiting jobs on an empty cluster."""
    cluster = cluster_of(*nodes)
    table = job_table(jobs_of(*rows), cluster, {}, {})
    table.facts["state"] = WAITING
    ledger = Ledger(cluster, len(table))
    demands = ResourceProfiles(model_table(table.models, cluster.gpu_types), ledger.books.nodes)
    return Snapshot(0.0, Trigger.ARRIVAL, Jobs(table, np.arange(len(table)), 0.0), table, ledger, demands)


def runs(snapshot: Snapshot, number: int, *allocations: NodeAllocation) -> None:
    hold(snapshot.ledger, number, allocations)
    snapshot.table.facts["state"][number] = RUNNING


def on(node: int, *gpus: int, cpus: float = 0.0) -> NodeAllocation:
    return NodeAllocation(node, gpus, cpus=cpus)


def decided(
    snapshot: Snapshot, codes: list[int], *, ranked: list[int] | None = None, **puts: list[NodeAllocation]
) -> Decision:
    """A decision that gives these allocations, `j0=[...]` to job 0; an empty one is a release."""
    with snapshot.transaction() as transaction:
        for name in puts:
            transaction.release(int(name[1:]))
        for name, allocations in puts.items():
            if allocations:
                transaction.put(int(name[1:]), allocations)
        nothing = np.zeros(len(snapshot.jobs))
        order = np.array(ranked or [], np.int64)
        return Decision(transaction.take_changes(), np.array(codes), nothing, nothing, ranked=order)


def test_a_preemption_names_the_jobs_that_get_its_gpus() -> None:
    snapshot = view_of(*(job(0, 100, gpus=2) for _ in range(3)))
    runs(snapshot, 0, on(0, 0, 1))
    decision = decided(snapshot, [OUTRANKED, PLACED, PLACED], j0=[], j1=[on(0, 0, 1)], j2=[on(0, 2, 3)])
    assert actions_of(decision, snapshot.ledger) == [
        Preempt(0, makes_room_for=(1,)),
        Start(1, (on(0, 0, 1),), takes_from=(0,)),
        Start(2, (on(0, 2, 3),), takes_from=()),
    ]


def test_a_resize_names_the_job_that_gets_its_cpus() -> None:
    snapshot = view_of(job(0, 100), job(0, 100))
    runs(snapshot, 0, on(0, 0, cpus=9.0))
    decision = decided(snapshot, [PLACED, PLACED], j0=[on(0, 0, cpus=3.0)], j1=[on(0, 1, cpus=6.0)])
    assert actions_of(decision, snapshot.ledger) == [
        Resize(0, (on(0, 0, cpus=3.0),), makes_room_for=(1,)),
        Start(1, (on(0, 1, cpus=6.0),), takes_from=(0,)),
    ]


def test_other_gpus_are_a_migration_and_equal_ones_nothing() -> None:
    snapshot = view_of(job(0, 100), job(0, 100))
    runs(snapshot, 0, on(0, 0))
    runs(snapshot, 1, on(0, 1))
    decision = decided(snapshot, [PLACED, PLACED], j0=[on(0, 2)], j1=[on(0, 1)])
    assert actions_of(decision, snapshot.ledger) == [Migrate(0, (on(0, 2),), makes_room_for=())]


def test_a_waiting_job_is_blocked_by_those_served_before_it() -> None:
    snapshot = view_of(*(job(0, 100, gpus=2) for _ in range(4)))
    runs(snapshot, 0, on(0, 0, 1))
    decision = decided(snapshot, [PLACED, OUTRANKED, PLACED, NO_GPUS], ranked=[0, 1, 2, 3], j2=[on(0, 2, 3)])
    assert [(one.job, one.blocked_by) for one in pending_jobs(snapshot, decision)] == [(1, (0,)), (3, (0, 2))]


def test_blockers_are_those_of_the_decision_when_read_later() -> None:
    snapshot = view_of(*(job(0, 100, gpus=2) for _ in range(4)))
    runs(snapshot, 0, on(0, 0, 1))
    decision = decided(
        snapshot, [OUTRANKED, NO_GPUS, PLACED, PLACED], j0=[], j2=[on(0, 0, 1)], j3=[on(0, 2, 3)]
    )
    blockers = Blockers(snapshot, decision)
    snapshot.ledger.carry_out(decision.changes)
    snapshot.table.facts["state"][:] = RUNNING
    assert dict(blockers) == {0: (2, 3), 1: (2, 3)}
    assert blockers.get(2) is None


def test_only_jobs_on_nodes_that_it_may_use_block_a_job() -> None:
    snapshot = view_of(job(0, 100), job(0, 100), job(0, 100), nodes=(1, 1))
    snapshot.table.asked["constraint"][2] = 1
    snapshot = replace(
        snapshot, table=replace(snapshot.table, node_allowed=np.array([[True, True], [False, True]]))
    )
    runs(snapshot, 0, on(0, 0))
    runs(snapshot, 1, on(1, 0))
    (pending,) = pending_jobs(snapshot, decided(snapshot, [PLACED, PLACED, NO_GPUS]))
    assert pending == Pending(2, "no_gpus", (1,), {"needs": 0.0, "free": 0.0})


def test_the_head_of_the_line_blocks_the_jobs_behind_it() -> None:
    snapshot = view_of(*(job(0, 100, gpus=4) for _ in range(3)))
    runs(snapshot, 0, on(0, 0, 1, 2, 3))
    decision = decided(snapshot, [PLACED, NO_GPUS, BEHIND_HEAD], ranked=[0, 1, 2])
    assert [one.blocked_by for one in pending_jobs(snapshot, decision)] == [(0,), (1,)]


def test_a_limit_is_used_up_by_the_jobs_of_the_tenant() -> None:
    tenants = ("a", "b", "a")
    snapshot = view_of(*(job(0, 100, tenant=tenant) for tenant in tenants))
    runs(snapshot, 0, on(0, 0))
    runs(snapshot, 1, on(0, 1))
    (pending,) = pending_jobs(snapshot, decided(snapshot, [PLACED, PLACED, OVER_LIMIT]))
    assert (pending.reason, pending.blocked_by) == ("over_limit", (0,))
