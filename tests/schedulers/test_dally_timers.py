"""Delay timers, their tuner, leases and the priority: hand-worked sequences, and what must hold in any run."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.cluster.ledger import NodeAllocation
from muster.problems import InputError
from muster.schedulers.contract import Decision, Jobs, Snapshot, State
from muster.schedulers.leased import Leased
from muster.schedulers.placement.delay_scheduling import MACHINE, NETWORK, RACK, level_of, runs_out_at
from muster.schedulers.placement.delay_timers import DelayTimers
from muster.schedulers.reasons import PLACED, REASONS, reason
from muster.schedulers.registry import build
from muster.speed.network.models import CompactModel
from muster.workload.jobs import RUNNING
from tests.building import cluster_of, column, finishes, hold, job, jobs_of, run
from tests.schedulers.synergy_cases import round_of
from tests.schedulers.test_dally_network import CHATTY, LINKS, gang
from tests.schedulers.wrapped import Wrapped

LEASE = {"lease_seconds": "100"}


def racked(*racks: tuple[int, ...], island: int = 2) -> Cluster:
    """A rack for each tuple, a machine for each number of GPUs in it."""
    nodes = tuple(
        Node(f"r{rack}n{at}", "t", rack, gpus, "v100", min(island, gpus), gpus, gpus, 1.0, 1.0)
        for rack, machines in enumerate(racks)
        for at, gpus in enumerate(machines)
    )
    return Cluster("racked", nodes, tuple(f"r{rack}" for rack in range(len(racks))))


# The tuner (Dally §Auto-tuner)


def test_the_tuner_starts_at_its_least_timers() -> None:
    timers = DelayTimers()
    assert timers.limits(4, timers.nothing_learned()) == (6, 12)


def test_the_tuner_takes_the_mean_and_two_deviations() -> None:
    timers = DelayTimers()
    memory = timers.nothing_learned()
    for waited in (0.99, 4.0, 8.0):
        memory = timers.learned(memory, 4, MACHINE, 0.0, waited)
    for waited in (10.0, 10.0, 16.0):
        memory = timers.learned(memory, 4, RACK, 0.0, waited)
    # 0.99 is no wait; 4 and 8: 6 + 2 x 2 = 10; 10, 10, 16: 12 + 2 x sqrt(8) = 17.66, rounded up.
    assert timers.limits(4, memory) == (10, 18)
    assert timers.limits(8, memory) == (6, 12)


def test_the_tuner_forgets_and_stays_within_the_history() -> None:
    timers = DelayTimers(history_leases=10, lease_seconds=100)
    memory = timers.learned(timers.nothing_learned(), 2, MACHINE, 0.0, 50.0)
    assert timers.limits(2, memory) == (8, 10)
    memory = timers.learned(memory, 2, MACHINE, 1000.0, 7.0)
    assert memory["machine"][2] == ((0.0, 50.0), (1000.0, 7.0))
    memory = timers.learned(memory, 2, MACHINE, 1000.1, 7.0)
    assert timers.limits(2, memory) == (7, 10)


def test_a_wait_that_got_no_rack_teaches_nothing() -> None:
    timers = DelayTimers()
    assert timers.learned(timers.nothing_learned(), 2, NETWORK, 0.0, 9.0) == timers.nothing_learned()


# Offers


def sentence_of(name: str, given: str) -> str:
    numbers = json.loads(given)
    return reason(REASONS[name]).words(numbers["waited"], numbers["limit"])


def test_a_job_waits_for_a_machine_then_a_rack_then_takes_any() -> None:
    # One GPU is left on each of two machines, first in one rack, then in two.
    two = job(10, 50, gpus=2)
    timers = {"machine_leases": "2", "rack_leases": "5", "fit": "published", **LEASE}
    blockers = [job(0, 9000, constraint=f"gpu_type={kind}") for kind in ("a", "b")]
    for racks, expected in (((0, 0), 10 + 200), ((0, 1), 10 + 500)):
        nodes = tuple(
            Node(f"n{at}", "t", rack, 2, kind, 2, 2, 2, 1.0, 1.0)
            for at, (rack, kind) in enumerate(zip(racks, ("a", "b"), strict=True))
        )
        cluster = Cluster("two", nodes, ("r0", "r1")[: max(racks) + 1])
        result = run(jobs_of(*blockers, two), cluster, "fifo+manual-timers", timers)
        assert column(result, "start_seconds") == pytest.approx([0, 0, expected])
        reasons = result.record.reasons.filter(job_id="2")
        assert reasons["to_seconds"].to_list() == [210, 510][: 1 + (expected > 210)]
        assert reasons["reason"].to_list() == ["delay_timer", "rack_timer"][: len(reasons)]
        reply = [sentence_of(name, given) for name, given in reasons.select("reason", "parameters").rows()]
        assert reply[0] == "it waits for a machine-level offer: its timer is at 0 of 2 leases"
        assert (
            reply[1:] == ["it waits for a rack-level offer: its timer is at 2 of 5 leases"][: len(reply) - 1]
        )


@pytest.mark.parametrize("fit", ["best", "published"])
@pytest.mark.parametrize(("machine", "rack"), [("2", "5"), ("5", "2"), ("inf", "5")])
@pytest.mark.parametrize("submit", [33.3, 359.0 / 7.0, 1000.1])
def test_a_timer_that_rounding_moves_runs_out_once(fit: str, machine: str, rack: str, submit: float) -> None:
    # One GPU is left on each of two machines, in two racks. (33.3 + 500) - 33.3 is below 500 in floating point.
    nodes = tuple(Node(kind, "t", at, 2, kind, 2, 2, 2, 1.0, 1.0) for at, kind in enumerate("ab"))
    trace = jobs_of(*(job(0, 9000, constraint=f"gpu_type={kind}") for kind in "ab"), job(submit, 50, gpus=2))
    given = {"machine_leases": machine, "rack_leases": rack, "fit": fit, "lease_seconds": "100"}
    result = run(trace, Cluster("two", nodes, ("r0", "r1")), "fifo+manual-timers", given)
    assert column(result, "start_seconds")[2] == pytest.approx(submit + 100 * float(rack), abs=1e-9)
    assert len(result.record.reasons.filter(job_id="2")) <= 2


@given(st.floats(0, 1e10), st.floats(0, 1e8))
def test_a_timer_runs_out_at_the_first_moment_it_can(since: float, seconds: float) -> None:
    moment = runs_out_at(since, seconds)
    assert moment - since >= seconds
    assert moment == since or np.nextafter(moment, 0.0) - since < seconds or moment == since + seconds


def test_a_machine_is_taken_at_once_and_an_island_before_it() -> None:
    # Two GPUs are free on a machine whose islands have one each, and two on a larger one in one island.
    nodes = (
        Node("split", "t", 0, 2, "a", 1, 2, 2, 1.0, 1.0),
        Node("whole", "t", 0, 4, "b", 2, 4, 4, 1.0, 1.0),
    )
    trace = jobs_of(job(0, 1000, gpus=2, constraint="gpu_type=b"), job(1, 50, gpus=2))
    result = run(trace, Cluster("islands", nodes, ("r",)), "fifo+fully-consolidated")
    held = result.record.allocations.filter(job_id="1")
    assert held["node"].to_list() == ["whole"]
    assert column(result, "start_seconds")[1] == 1


def test_a_badly_placed_job_moves_when_its_lease_ends() -> None:
    # Job 2 gets one GPU of each machine at once, and a machine of its own when job 0 has left.
    places = ["first", "second"]
    nodes = tuple(Node(name, "t", at, 2, name, 2, 2, 2, 1.0, 1.0) for at, name in enumerate(places))
    cluster = Cluster("two", nodes, ("r0", "r1"), LINKS)
    trace = jobs_of(
        gang(1, 150, constraint="gpu_type=first"),
        gang(1, 1000, constraint="gpu_type=second"),
        gang(2, 400, model="chatty"),
    )
    layers = {"chatty": CHATTY}
    result = run(trace, cluster, "fifo+no-wait", LEASE, layers=layers)
    # 2 s an iteration over the network until the lease ends at 200, then 1.01 s on the first machine.
    assert finishes(result) == pytest.approx([150, 1000, 200 + 100 * 1.01])
    assert column(result, "moves") == [0, 0, 1]
    nodes_held = result.record.allocations.filter(job_id="2").sort("from_seconds")["node"].to_list()
    assert sorted(nodes_held[:2]) == places
    assert nodes_held[2:] == ["first"]


def test_a_job_that_is_offered_nothing_better_stays_where_it_is() -> None:
    result = run(jobs_of(gang(2, 2000)), racked((2, 2)), "dally", LEASE, restart_cost_seconds=50)
    assert finishes(result) == pytest.approx([1000])
    assert len(result.record.allocations) == 1


@pytest.mark.parametrize("scheduler", ["dally", "fifo+fully-consolidated"])
def test_a_job_that_may_use_any_node_passes_one_that_may_not(scheduler: str) -> None:
    """The first two hold the one node that the third may use; the fourth starts at once on the other one."""
    own, other = cluster_of(2, 2).nodes
    cluster = replace(cluster_of(2, 2), nodes=(replace(own, labels=("own",)), other))
    bound = [job(at, 50, constraint="label=own") for at in range(3)]
    trace = jobs_of(*bound, job(3, 50))
    assert column(run(trace, cluster, scheduler), "start_seconds") == [0, 1, 50, 3]


def test_who_lost_most_to_the_network_goes_first() -> None:
    # Both lose their leases at 100 and one machine is left: job 1 ran at half speed, so it goes first.
    nodes = tuple(Node(f"n{at}", "t", at, 2, "v100", 2, 2, 2, 1.0, 1.0) for at in range(2))
    cluster = Cluster("two", nodes, ("r0", "r1"), LINKS)
    trace = jobs_of(gang(2, 2000), gang(4, 4000, model="chatty"))
    result = run(trace, cluster, "network-sensitivity+fully-consolidated", LEASE, layers={"chatty": CHATTY})
    # Four GPUs fit no machine and no rack: the whole cluster, from the first lease on, in turn with job 0.
    held = result.record.allocations.sort("from_seconds")
    first_of = {row["job_id"]: row["from_seconds"] for row in reversed(held.to_dicts())}
    assert first_of == {"0": 0.0, "1": 100.0}
    second_turn = held.filter(job_id="0")["from_seconds"].to_list()
    # Nw_sens of job 1 is below 1 for ever after, so job 0 waits until it is done.
    assert second_turn[1] == finishes(result)[1]


def test_a_bound_on_waiting_lets_a_large_job_through() -> None:
    small = [job(at, 150) for at in range(0, 3000, 50)]
    trace = jobs_of(job(0, 1000), job(0, 1000), job(1, 100, gpus=4), *small)
    plain = run(trace, racked((4,)), "fifo+no-wait", LEASE)
    bounded = run(trace, racked((4,)), "fifo+no-wait", {**LEASE, "promote_after_seconds": "300"})
    assert column(bounded, "start_seconds")[2] <= 1 + 300 + 100
    assert column(bounded, "start_seconds")[2] <= column(plain, "start_seconds")[2]


# What must hold in any run


@dataclass
class Watched(Wrapped):
    """A leasing scheduler whose every decision is looked at."""

    inner: Leased

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        books, jobs, timers = snapshot.ledger.books, snapshot.jobs, self.inner.timers
        lease = timers.lease_seconds
        before = [snapshot.ledger.holding(number) for number in jobs.index.tolist()]
        running = jobs.running
        ends = _lease_ends(jobs, snapshot.now, lease)
        since = np.where(running, snapshot.now, jobs.last_stop)
        plan, after = self.inner.decide(snapshot, state)
        with snapshot.transaction() as transaction:
            transaction.try_out(plan.changes)
            books = snapshot.ledger.books
            machine_most, rack_most = snapshot.cluster.most_gpus_per_node, _largest_rack(snapshot.cluster)
            for at, number in enumerate(jobs.index.tolist()):
                gpus = int(jobs.gpus[at])
                if plan.reasons[at] != PLACED:
                    assert not snapshot.ledger.holds(number)
                    assert (books.nodes["free_gpus"] < gpus).all(), "a machine-level offer is never refused"
                    continue
                assert snapshot.ledger.holds(number)
                if running[at] and ends[at] > snapshot.now:
                    assert _gpus(snapshot.ledger.holding(number)) == _gpus(before[at]), (
                        "a lease is not broken"
                    )
                    continue
                if plan.reasons.any():
                    assert plan.lease_ends[number] == snapshot.now + lease
                level = int(level_of(books, int(books.heads[number])))
                waited = (snapshot.now - since[at]) / lease + 1e-9
                # What was learned on the way may only have come from this job's own size: either state will do.
                limits = [timers.limits(gpus, known["timers"]) for known in (state, after)]
                for_rack = min(rack for _, rack in limits)
                if level >= RACK:
                    # Also by the timer for any place, which what was learned may make the shorter one.
                    assert gpus > machine_most or waited >= min(for_rack, *(machine for machine, _ in limits))
                if level == NETWORK:
                    assert gpus > rack_most or waited >= for_rack
        return plan, after


def _lease_ends(jobs: Jobs, now: float, lease: float) -> list[float]:
    """When leases end; of a job that is lent its GPUs without an end, the next multiple of a lease since its start."""
    return [
        end if end < inf else start + lease * max(ceil((now - start) / lease), 1)
        for start, end in zip(np.nan_to_num(jobs.last_start).tolist(), jobs.lease_end.tolist(), strict=True)
    ]


def _gpus(shares: list[NodeAllocation]) -> list[tuple[int, tuple[int, ...]]]:
    return [(share.node, share.gpu_ids) for share in shares]


def _largest_rack(cluster: Cluster) -> int:
    return max(sum(cluster.nodes[node].gpus for node in rack) for rack in cluster.nodes_by_rack)


NOISY = CompactModel("noisy", 1.0, 4, 3.0, 0.3, 1.0, 1.0, 0.4, 0.0, 0.0, 0.0)
JOBS = st.lists(
    st.builds(
        lambda submit, gpus, work, model: {
            "submit_seconds": float(submit),
            "gpus": gpus,
            "gpu_work_seconds": float(work * gpus),
            "model": model,
        },
        st.integers(0, 500),
        st.sampled_from([1, 1, 2, 2, 3, 4, 6, 8]),
        st.integers(10, 700),
        st.sampled_from(["quiet", "noisy"]),
    ),
    min_size=2,
    max_size=14,
)
CLUSTERS = st.sampled_from([racked((4, 4), (4, 4)), racked((2, 4), (2, 2, 2)), racked((4,), (3,), (2,))])
TIMED = st.sampled_from(["dally", "dally-manual", "dally-nowait", "dally-consolidated", "fifo+delay-timers"])


@given(JOBS, CLUSTERS, TIMED, st.sampled_from([0.0, 1.0]), st.sampled_from(["best", "published"]))
@settings(max_examples=60, deadline=None)
def test_timers_are_kept_and_leases_hold(
    rows: list[dict[str, Any]], cluster: Cluster, preset: str, release: float, fit: str
) -> None:
    scheduler = build(preset, {"fit": fit, **LEASE})
    assert isinstance(scheduler, Leased)
    trace = jobs_of(*rows)
    result = run(
        trace,
        cluster,
        Watched(scheduler),
        layers={"noisy": NOISY},
        release_seconds_per_gpu=release,
        skip_impossible=True,
    )
    assert result.unfinished == 0
    jobs = result.record.jobs.filter(outcome="completed")
    held = result.record.allocations
    held_seconds = (held["gpus"] * (held["to_seconds"] - held["from_seconds"])).sum()
    # Held = leased = served: a program that leaks GPUs holds more than its jobs ever had.
    assert held_seconds == pytest.approx(jobs["attained_gpu_seconds"].sum())
    assert held_seconds == pytest.approx((jobs["gpus"] * jobs["run_seconds"]).sum())


@given(JOBS, CLUSTERS)
@settings(max_examples=20, deadline=None)
def test_the_ends_of_the_scale_are_the_named_kinds(rows: list[dict[str, Any]], cluster: Cluster) -> None:
    trace = jobs_of(*rows)
    layers = {"noisy": NOISY}

    def times(name: str, **given: str) -> list[float | None]:
        return finishes(run(trace, cluster, name, {**LEASE, **given}, layers=layers, skip_impossible=True))

    assert times("dally", history_leases="0") == times("dally-nowait")
    assert times("dally-manual", machine_leases="inf", rack_leases="inf") == times("dally-consolidated")


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("dally", {"history_leases": "-1"}, "history_leases: allowed: a number of leases from 0 on"),
        ("dally", {"history_leases": "nan"}, "history_leases takes a number"),
        ("dally", {"history_leases": "long"}, "history_leases takes a number"),
        (
            "dally-manual",
            {"machine_leases": "-0.5"},
            "machine_leases: allowed: a number of leases from 0 on",
        ),
        ("dally", {"lease_seconds": "0"}, "lease_seconds: allowed: a number of seconds above 0"),
        ("dally", {"preemptive": "true"}, "no such setting"),
    ],
)
def test_bad_timers_are_refused_sentence_of(name: str, given: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        build(name, given)


@pytest.mark.parametrize("waits", [False, True], ids=["nothing waits", "no GPU is free"])
def test_nothing_changes_until_an_event_where_nothing_can(waits: bool) -> None:
    """A job of two GPUs runs on its lease; a job that waits has no GPU to ask for."""
    case = round_of(cluster_of(2), [("resnet18", 2), ("resnet18", 1)][: 1 + waits])
    hold(case.snapshot.ledger, 0, [NodeAllocation(0, (0, 1))])
    facts = case.snapshot.table.facts
    facts["state"][0], facts["held"][0] = RUNNING, 1.0
    facts["lease_end"][0] = 1000.0
    scheduler = build("dally", {})
    decision, _ = scheduler.decide(case.snapshot, scheduler.initial(case.snapshot.cluster))
    assert decision.stable_until == np.inf
