"""Leases and migration with any order and placement: closed forms, and what must hold in any run."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster
from muster.problems import InputError
from muster.schedulers.contract import Decision, Snapshot, State, Trigger
from muster.schedulers.interruption import HORIZON_SECONDS
from muster.schedulers.placement.network_aware import share_of_best
from muster.schedulers.reasons import PLACED
from muster.schedulers.registry import build
from muster.simulation.failures import Failures
from tests.building import cluster_of, column, finishes, job, jobs_of, run
from tests.schedulers.test_conformance import conforming
from tests.schedulers.test_dally_network import CHATTY
from tests.schedulers.test_dally_plus import blocked, two_machines
from tests.schedulers.test_dally_timers import CLUSTERS, JOBS, NOISY
from tests.schedulers.wrapped import Counted, Wrapped
from tests.simulation.fixed_runs import digest

LEASE = 100.0
LEASED = ("las+least-loss", "srtf+pack", "srtf+tune", "dally-plus", "tiresias", "2d-las+consolidate")


# Leases


def turns_of(name: str, **given: str) -> list[tuple[str, float, float]]:
    """Which of two jobs holds the one GPU, and when: the first needs 1000 s, the second comes at 100 and needs 400."""
    trace = jobs_of(job(0, 1000), job(100, 400))
    held = run(trace, cluster_of(1), name, {"quantum_seconds": "10", **given}).record.allocations
    turns: list[tuple[str, float, float]] = []
    for name, begins, ends in held.sort("from_seconds").select("job_id", "from_seconds", "to_seconds").rows():
        if turns and turns[-1][0] == name and turns[-1][2] == begins:
            begins = turns.pop()[1]
        turns.append((name, begins, ends))
    return turns


def test_least_loss_takes_a_job_s_gpus_when_its_lease_ends() -> None:
    # By attained service: 300 s for the first, then for the second; with 300 each the earlier one goes first.
    expected = [("0", 0, 300), ("1", 300, 600), ("0", 600, 900), ("1", 900, 1000), ("0", 1000, 1400)]
    assert turns_of("las+least-loss", lease_seconds="300") == expected
    assert turns_of("las+least-loss")[0] == ("0", 0, 100)


def test_a_lease_longer_than_the_jobs_lets_them_run_through() -> None:
    assert turns_of("las+least-loss", lease_seconds="5000") == [("0", 0, 1000), ("1", 1000, 1400)]


def test_a_promoted_job_waits_for_the_end_of_a_lease() -> None:
    # Its first lease ends at 200; short jobs follow one another, and at 700 it is overdue. The one that began at 650
    # is under lease and runs on to its end.
    trace = jobs_of(job(0, 600), *(job(50 + 150 * n, 150) for n in range(8)))
    given = {"lease_seconds": "200", "promote_after_seconds": "500"}
    result = run(trace, cluster_of(1), "srtf+least-loss", given)
    long = result.record.allocations.filter(job_id="0").sort("from_seconds")["from_seconds"].to_list()
    assert long[:2] == pytest.approx([0, 800])


class LeaseKept(Wrapped):
    """A scheduler with leases whose every decision is looked at."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        jobs, now = snapshot.jobs, snapshot.now
        before = [places(snapshot, number) for number in jobs.index.tolist()]
        decision, after = self.inner.decide(snapshot, state)
        with snapshot.transaction() as transaction:
            transaction.try_out(decision.changes)
            for at, number in enumerate(jobs.index.tolist()):
                lent = jobs.running[at] and now < jobs.lease_end[at] < inf
                if lent:
                    assert places(snapshot, number) == before[at], "a lease is not broken"
                    assert number not in decision.lease_ends
                elif decision.reasons[at] == PLACED:
                    assert decision.lease_ends[number] == now + LEASE
        return decision, after


def places(snapshot: Snapshot, number: int) -> list[tuple[int, tuple[int, ...]]]:
    """Node and GPUs of a job."""
    return [(share.node, share.gpu_ids) for share in snapshot.ledger.holding(number)]


@given(JOBS, CLUSTERS, st.sampled_from(LEASED), st.sampled_from([0.0, 5.0]), st.sampled_from([None, 30.0]))
@settings(max_examples=40, deadline=None)
def test_no_part_breaks_a_lease(
    rows: list[dict[str, Any]], cluster: Cluster, name: str, cost: float, rounds: float | None
) -> None:
    watched = LeaseKept(conforming(build(name, {"lease_seconds": str(LEASE)})))
    result = run(
        jobs_of(*rows),
        cluster,
        watched,
        layers={"noisy": NOISY},
        skip_impossible=True,
        restart_cost_seconds=cost,
        round_seconds=rounds,
    )
    assert result.unfinished == 0


def test_a_lease_is_refused_where_running_jobs_never_compete() -> None:
    with pytest.raises(InputError, match=r"never interrupts a running job; add --set preemptive=true"):
        build("fifo+least-loss", {"lease_seconds": "300"})
    build("fifo+least-loss", {"lease_seconds": "300", "preemptive": "true"})


@pytest.mark.parametrize("seconds", ["0", "-1"])
def test_a_lease_takes_seconds_above_0(seconds: str) -> None:
    with pytest.raises(InputError, match="lease_seconds: allowed: a number of seconds above 0"):
        build("las+least-loss", {"lease_seconds": seconds})


class EveryLeaseEnds(Wrapped):
    """Timers that are asked at each lease end: as in rounds, no lease is without an end."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        return super().decide(replace(snapshot, triggers=snapshot.triggers | Trigger.ROUND), state)


@given(
    JOBS,
    CLUSTERS,
    st.sampled_from(["dally", "dally-nowait", "dally-manual", "themis", "2d-las+no-wait", "dally-tune"]),
    st.sampled_from([{}, {"release_seconds_per_gpu": 1.0}, {"failures": Failures(2000.0, 50.0)}]),
    st.sampled_from([0.0, 5.0]),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_lease_ends_that_change_nothing_are_no_decisions(
    rows: list[dict[str, Any]],
    cluster: Cluster,
    name: str,
    options: dict[str, Any],
    cost: float,
    together: bool,
) -> None:
    if together:
        rows = [row | {"submit_seconds": row["submit_seconds"] // LEASE * LEASE} for row in rows]
    records = []
    moments: list[list[float]] = []
    for wrapped in (Wrapped, EveryLeaseEnds):
        scheduler = Counted(wrapped(build(name, {"lease_seconds": str(LEASE)})))
        given = {"layers": {"noisy": NOISY}, "skip_impossible": True, "restart_cost_seconds": cost, **options}
        records.append(digest(run(jobs_of(*rows), cluster, scheduler, **given)))
        moments.append(scheduler.asked_at)
    assert records[0] == records[1]
    assert set(moments[0]) <= set(moments[1])


def test_jobs_without_competitors_need_no_lease_ends() -> None:
    scheduler = Counted(build("dally", {"lease_seconds": str(LEASE)}))
    result = run(jobs_of(*(job(50 * at, 1000 * LEASE) for at in range(8))), cluster_of(8), scheduler)
    assert max(column(result, "finish_seconds")) == 350 + 1000 * LEASE
    # When one comes and when one ends, but for the last.
    assert len(scheduler.asked_at) == 8 + 7


# Migration


@pytest.mark.parametrize("name", ["fifo+no-wait", "fifo+manual-timers", "fifo+pack"])
@pytest.mark.parametrize(("cost", "moves"), [(10.0, 1), (40.0, 0)])
def test_a_job_moves_within_its_lease_where_that_repays(name: str, cost: float, moves: int) -> None:
    # Over two machines it needs 2 s an iteration, on one 1.01 s. One is free from 150 on; an interruption that costs
    # 10 s may come after 120 s of work.
    given = {"migrate": "true", **({"machine_leases": "0", "rack_leases": "0"} if "manual" in name else {})}
    result = run(blocked(), two_machines(), name, given, layers={"chatty": CHATTY}, restart_cost_seconds=cost)
    expected = 150 + cost + (200 - (150 - 10) / 2) * 1.01 if moves else 10 + 400
    assert column(result, "moves")[2] == moves
    assert finishes(result)[2] == pytest.approx(expected)


def test_without_migration_a_job_stays_for_its_lease() -> None:
    result = run(blocked(), two_machines(), "fifo+no-wait", layers={"chatty": CHATTY})
    assert finishes(result)[2] == pytest.approx(410)


def test_a_job_moves_as_soon_as_it_may_be_interrupted() -> None:
    # It began at 10 and may be interrupted after 12 x 15 s of work, at 190; the machine is free from 150 on.
    result = run(
        blocked(),
        two_machines(),
        "fifo+no-wait",
        {"migrate": "true"},
        layers={"chatty": CHATTY},
        restart_cost_seconds=15.0,
    )
    assert finishes(result)[2] == pytest.approx(190 + 15 + (200 - (190 - 10) / 2) * 1.01)


class MovesRepay(Wrapped):
    """A scheduler that migrates whose every decision is looked at."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        jobs, now = snapshot.jobs, snapshot.now
        numbers = jobs.index.tolist()
        before = [places(snapshot, number) for number in numbers]
        share = [self.share(snapshot, at) for at in range(len(numbers))]
        decision, after = self.inner.decide(snapshot, state)
        gain = cost = 0.0
        with snapshot.transaction() as transaction:
            transaction.try_out(decision.changes)
            for at, number in enumerate(numbers):
                if not jobs.running[at] or jobs.lease_end[at] <= now:
                    continue
                held = places(snapshot, number)
                assert sum(len(gpus) for _, gpus in held) == jobs.gpus[at], "a lease keeps its GPUs' number"
                if held != before[at]:
                    assert not jobs.pinned[at]
                    gain += jobs.gpus[at] * (self.share(snapshot, at) - share[at])
                    cost += jobs.gpus[at] * jobs.interruption_cost[at]
        assert gain * HORIZON_SECONDS >= cost, "what moves repays its interruptions"
        return decision, after

    def share(self, snapshot: Snapshot, at: int) -> float:
        jobs, forms = snapshot.jobs, snapshot.forms
        assert forms is not None
        line, table = forms.of(jobs.model, jobs.gpus)
        chain = int(snapshot.ledger.books.heads[jobs.index[at]])
        if chain < 0:
            return 0.0
        return float(
            share_of_best(snapshot.ledger.books, chain, table.kinds[line[at]], table.speeds[line[at]])
        )


@given(
    JOBS,
    CLUSTERS,
    st.sampled_from(["dally", "dally-nowait", "themis", "dally-tune"]),
    st.sampled_from([0, 5]),
)
@settings(max_examples=40, deadline=None)
def test_moves_under_timers_keep_leases_and_repay(
    rows: list[dict[str, Any]], cluster: Cluster, name: str, cost: int
) -> None:
    scheduler = conforming(build(name, {"migrate": "true", "lease_seconds": str(LEASE)}))
    result = run(
        jobs_of(*rows),
        cluster,
        MovesRepay(scheduler),
        layers={"noisy": NOISY},
        skip_impossible=True,
        restart_cost_seconds=float(cost),
    )
    assert result.unfinished == 0


def test_migration_is_refused_where_the_allocation_places_jobs() -> None:
    with pytest.raises(InputError, match=r"tune places running jobs by its own rule; allowed: false"):
        build("las+tune", {"migrate": "true"})


def test_the_record_names_lease_and_migration() -> None:
    described = build("las+pack", {"lease_seconds": "300", "migrate": "true"}).describe()["settings"]
    assert (described["lease_seconds"], described["migrate"]) == (300.0, True)
    assert build("dally", {"migrate": "true"}).describe()["settings"]["migrate"] is True
    assert np.isinf(build("las+pack").lease_seconds)  # type: ignore[attr-defined]
