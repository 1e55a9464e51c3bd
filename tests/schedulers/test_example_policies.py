"""Toy versions of what the three papers need from the contract; each must run in the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any

import numpy as np
import pytest

from muster.cluster import Cluster
from muster.cluster.ledger import DoesNotFit, NodeAllocation, Transaction
from muster.schedulers import reasons
from muster.schedulers.contract import Decision, Snapshot, State, Trigger
from muster.simulation import PlanRefused
from muster.workload.models import Model
from tests.building import cluster_of, column, finishes, job, jobs_of, run


@dataclass
class Toy:
    """What all toys share: a name and a plan with one reason for everybody who holds nothing."""

    name: str = "toy"
    given: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "parts": {}, "settings": {}, "needs": []}

    def initial(self, cluster: Cluster) -> State:
        return None

    def plan(self, snapshot: Snapshot, transaction: Transaction, code: int, **more: Any) -> Decision:
        holds = np.array([snapshot.ledger.holds(job) for job in snapshot.jobs.index.tolist()], bool)
        nothing = np.zeros(len(snapshot.jobs))
        return Decision(
            transaction.take_changes(), np.where(holds, reasons.PLACED, code), nothing, nothing, **more
        )


class TakesCpusBack(Toy):
    """Synergy's tune on one node: every job asks 9 CPUs, neighbours above their share give back what is short."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        ledger = snapshot.ledger
        with snapshot.transaction() as transaction:
            for waiting in snapshot.jobs.index[snapshot.jobs.waiting].tolist():
                ids = ledger.free_ids(0)[:1]
                for cpus in (9.0, 3.0):
                    try:
                        transaction.put(waiting, [NodeAllocation(0, ids, cpus=cpus, memory_gb=62.5)])
                        break
                    except DoesNotFit:
                        if cpus == 3.0:
                            self._reclaim(snapshot, transaction)
                            transaction.put(waiting, [NodeAllocation(0, ids, cpus=3.0, memory_gb=62.5)])
            return self.plan(snapshot, transaction, reasons.NO_GPUS, stable_until=inf), state

    def _reclaim(self, snapshot: Snapshot, transaction: Transaction) -> None:
        for holder in snapshot.jobs.index.tolist():
            for share in snapshot.ledger.holding(holder):
                if share.cpus > 3.0:
                    transaction.put(holder, [NodeAllocation(0, share.gpu_ids, cpus=3.0, memory_gb=62.5)])
                    return


def linear_model() -> Model:
    return Model(
        "linear", "image", 1, 1.0, 3.0, 62.5, (3.0, 9.0), (62.5,), ((1.0,), (3.0,)), "made up", "CC0-1.0"
    )


def test_tune_takes_cpus_back_from_a_neighbour() -> None:
    trace = jobs_of(*(job(0 if n < 2 else 10, 90, model="linear") for n in range(3)))
    result = run(trace, cluster_of(4), TakesCpusBack(), models={"linear": linear_model()})
    # Jobs 0 and 1 take 9 and 3 of 12 CPUs; job 2 gets its 3 at t = 10 because job 0 falls from 9 to 3.
    assert finishes(result) == pytest.approx([10 + (90 - 30), 90, 100])
    assert column(result, "preemptions") == [0, 0, 0]
    assert column(result, "moves") == [0, 0, 0]


class DelayTimers(Toy):
    """Dally in small: wait for one node, then accept anything; the timer is learned from waits that succeeded."""

    LEASE = 100.0

    def initial(self, cluster: Cluster) -> State:
        return ()

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        nodes, wake = snapshot.ledger.books.nodes, inf
        with snapshot.transaction() as transaction:
            waits: tuple[float, ...] = state
            timer = ceil(float(np.mean(waits) + 2 * np.std(waits))) if waits else 2
            for position in np.flatnonzero(snapshot.jobs.waiting).tolist():
                number, gpus = int(snapshot.jobs.index[position]), int(snapshot.jobs.gpus[position])
                waited = (snapshot.now - snapshot.jobs.last_stop[position]) / self.LEASE
                together = np.flatnonzero(nodes["free_gpus"] >= gpus)
                if len(together):
                    node = int(together[0])
                    transaction.put(number, [NodeAllocation(node, snapshot.ledger.free_ids(node)[:gpus])])
                    waits = (*waits, waited) if waited >= 1 else waits
                elif waited >= timer and nodes["free_gpus"].sum() >= gpus:
                    shares, left = [], gpus
                    for node in range(len(nodes)):
                        ids = snapshot.ledger.free_ids(node)[:left]
                        left -= len(ids)
                        shares += [NodeAllocation(node, ids)] if ids else []
                    transaction.put(number, shares)
                elif waited < timer:
                    wake = min(wake, snapshot.now + (timer - waited) * self.LEASE)
            return self.plan(
                snapshot, transaction, reasons.DELAY_TIMER, next_wake=wake, stable_until=wake
            ), waits


def test_delay_timer_expires() -> None:
    # Two nodes of four are busy, each has one GPU: job 2 finds no node of its own, waits two leases, then spreads.
    trace = jobs_of(job(0, 1000), job(0, 1000), job(1, 50, gpus=2))
    result = run(trace, cluster_of(1, 1, 1, 1), DelayTimers())
    assert column(result, "start_seconds") == pytest.approx([0, 0, 1 + 200])


def test_delay_timer_learns_from_a_wait_that_was_worth_it() -> None:
    # Job 2 waits 3.5 leases until job 0 leaves a whole node, so the timer is 4 leases when job 4 meets half nodes.
    trace = jobs_of(
        job(0, 351, gpus=2), job(0, 2000), job(1, 249, gpus=2), job(610, 2000), job(620, 50, gpus=2)
    )
    result = run(trace, cluster_of(2, 2), DelayTimers())
    assert column(result, "start_seconds") == pytest.approx([0, 0, 351, 610, 620 + 400])


class KnapsackSelection(Toy):
    """SMD's outer problem by brute force: of the waiting jobs take the set of most value that fits, stop the rest."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        jobs = snapshot.jobs
        with snapshot.transaction() as transaction:
            for number in jobs.index.tolist():
                transaction.release(number)
            best = max(range(2 ** len(jobs)), key=lambda subset: self._value(snapshot, subset))
            free = list(snapshot.ledger.free_ids(0))
            for position in range(len(jobs)):
                if best >> position & 1:
                    ids, free = free[: jobs.gpus[position]], free[jobs.gpus[position] :]
                    transaction.put(int(jobs.index[position]), [NodeAllocation(0, tuple(ids))])
            return self.plan(
                snapshot, transaction, reasons.NOT_SELECTED, bound=self._value(snapshot, best)
            ), state

    def _value(self, snapshot: Snapshot, subset: int) -> float:
        inside = np.array([subset >> position & 1 for position in range(len(snapshot.jobs))], bool)
        if snapshot.jobs.gpus[inside].sum() > snapshot.cluster.total_gpus:
            return -1.0
        return float(snapshot.jobs.priority[inside].sum())


def test_knapsack_selects_the_most_valuable_set() -> None:
    values = [(3, 10.0), (2, 6.0), (2, 6.0)]
    trace = jobs_of(*(job(0, 100, gpus=gpus, priority=value) for gpus, value in values))
    result = run(trace, cluster_of(4), KnapsackSelection())
    assert finishes(result) == pytest.approx([200, 100, 100])  # 6 + 6 in 4 GPUs beat 10 in 3
    assert result.record.decisions["bound"].to_list()[0] == 12.0


class SlicesTime(Toy):
    """Gandiva in small: everybody on the one GPU, in turns."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        with snapshot.transaction() as transaction:
            for number in snapshot.jobs.index[snapshot.jobs.waiting].tolist():
                transaction.put(number, [NodeAllocation(0, (0,), group=7)])
            return self.plan(
                snapshot, transaction, reasons.NO_GPUS, wake_on=Trigger.ARRIVAL, stable_until=inf
            ), state


def test_two_jobs_take_turns_on_one_gpu() -> None:
    result = run(jobs_of(job(0, 100), job(50, 100)), cluster_of(1), SlicesTime())
    # Alone 50 s, then at half speed until the first is done at 150, then the second alone again.
    assert finishes(result) == pytest.approx([150, 200])
    held = result.record.allocations
    assert held["slice_group"].to_list() == [7, 7]


class Grows(Toy):
    """An elastic job takes every free GPU as soon as no job waits for it."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        jobs = snapshot.jobs
        with snapshot.transaction() as transaction:
            for position in range(len(jobs)):
                number = int(jobs.index[position])
                own = snapshot.ledger.holding(number)
                ids = (own[0].gpu_ids if own else ()) + snapshot.ledger.free_ids(0)
                most = int(jobs.max_gpus[position])
                if len(ids) >= jobs.min_gpus[position] and (not own or len(ids) > len(own[0].gpu_ids)):
                    transaction.put(number, [NodeAllocation(0, ids[:most])])
            return self.plan(snapshot, transaction, reasons.NO_GPUS, stable_until=inf), state


def test_an_elastic_job_grows_into_free_gpus() -> None:
    rigid = job(0, 100, gpus=2)
    elastic = job(0, 300, gpus=2, min_gpus=1, max_gpus=4)
    result = run(jobs_of(rigid, elastic), cluster_of(4), Grows(), restart_cost_seconds=10)
    # 100 s on 2 GPUs leave 200 s of work; 10 s to restart on 4 GPUs, then twice the speed.
    assert finishes(result) == pytest.approx([100, 100 + 10 + 100])
    assert column(result, "moves") == [0, 1]


@dataclass
class AsksAtOnce(Toy):
    """Starts the first job and asks for another decision at the same moment, or gives out leases that have ended."""

    lease: bool = False

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        first = snapshot.jobs.index[:1].tolist()
        with snapshot.transaction() as transaction:
            for number in first:
                if not snapshot.ledger.holds(number):
                    transaction.put(number, [NodeAllocation(0, (0,))])
            again: dict[str, Any] = {"next_wake": snapshot.now} if first else {}
            if self.lease:
                again = {"lease_ends": dict.fromkeys(first, snapshot.now)}
            return self.plan(snapshot, transaction, reasons.NO_GPUS, stable_until=inf, **again), state


@pytest.mark.parametrize("lease", [False, True])
def test_a_plan_that_stops_the_clock_is_refused(lease: bool) -> None:
    with pytest.raises(PlanRefused, match=r"toy: 1001 decisions in a row at 7 s change nothing"):
        run(jobs_of(job(7, 100), job(7, 100)), cluster_of(1), AsksAtOnce(lease=lease))


def test_a_plan_that_asks_at_once_is_kept_in_rounds() -> None:
    result = run(jobs_of(job(7, 10)), cluster_of(1), AsksAtOnce(), round_seconds=0.005)
    assert finishes(result) == pytest.approx([17])
