"""EASY and conservative backfill against a reservation table made by brute force on random small cases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muster
from muster.cluster import Cluster
from muster.cluster.ledger_arrays import GPU, MICRO
from muster.cluster.shipped import parse_cluster
from muster.schedulers.backfill.reserving import Reservation, ReservingScheduler
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.trace import Trace, trace_of
from tests import building
from tests.building import cluster_of, jobs_of, run

HORIZON = 400
"""Seconds that the brute-force table covers."""


@dataclass
class Watched:
    """A scheduler of which every reservation and start is written down."""

    scheduler: ReservingScheduler
    name: str = "watched"
    promised: dict[int, list[float]] = field(default_factory=dict)
    started: dict[int, float] = field(default_factory=dict)
    heads: list[tuple[float, float]] = field(default_factory=list)
    """Of each decision, when the first waiting job is to start: by its reservation, and by brute force."""

    def describe(self) -> dict[str, Any]:
        return self.scheduler.describe()

    def initial(self, cluster: Cluster) -> State:
        return self.scheduler.initial(cluster)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        decision, after = self.scheduler.decide(snapshot, state)
        reserved: dict[int, Reservation] = after["reserved"]
        for job, one in reserved.items():
            self.promised.setdefault(job, []).append(one.start)
        for job in decision.changes.jobs.tolist():
            self.started[job] = snapshot.now
        waits = [job for job in decision.ranked.tolist() if decision.reasons[job]]
        if waits:
            head = int(snapshot.jobs.index[waits[0]])
            self.heads.append(
                (reserved[head].start, earliest(snapshot, decision, head, self.most_nodes(snapshot, head)))
            )
        return decision, after

    def most_nodes(self, snapshot: Snapshot, job: int) -> int:
        gpus = int(snapshot.table.asked["gpus"][job])
        most = int(snapshot.ledger.books.nodes["gpus"].max())
        return gpus if self.scheduler.placement.name == "pack" else -(-gpus // most)


def earliest(snapshot: Snapshot, decision: Decision, job: int, most_nodes: int) -> float:
    """The first second at which a job fits for its limit, if running jobs end at theirs and no other one waits."""
    asked, facts, now = snapshot.table.asked, snapshot.table.facts, int(snapshot.now)
    free = [[int(node["gpus"])] * HORIZON for node in snapshot.ledger.books.nodes]

    def take(holder: int, node: int, gpus: int, start: float) -> None:
        for second in range(HORIZON):
            if second + now < start + asked["time_limit"][holder]:
                free[node][second] -= gpus

    for holder in snapshot.jobs.index[snapshot.jobs.running].tolist():
        for share in snapshot.ledger.holding(holder):
            take(holder, share.node, len(share.gpu_ids), float(facts["last_start"][holder]))
    changes = decision.changes
    for at, holder in enumerate(changes.jobs.tolist()):
        for row in changes.rows[changes.first[at] : changes.first[at + 1]]:
            take(holder, int(row["node"]), int(row["amount"][GPU]) // MICRO, now)
    for second in range(HORIZON):
        until = min(second + int(asked["time_limit"][job]), HORIZON)
        least = sorted((min(node[second:until]) for node in free), reverse=True)
        if sum(least[:most_nodes]) >= asked["gpus"][job]:
            return now + second
    return inf


@st.composite
def cases(draw: st.DrawFn) -> tuple[Cluster, Trace]:
    """A few jobs in whole seconds, each done within its limit, on a few small nodes."""
    cluster = parse_cluster(f"{draw(st.integers(1, 3))}x{draw(st.integers(1, 4))}gpu")
    count = draw(st.integers(2, 12))
    moments = sorted(draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
    durations = draw(st.lists(st.integers(1, 12), min_size=count, max_size=count))
    beyond = draw(st.lists(st.integers(0, 12), min_size=count, max_size=count))
    gpus = draw(st.lists(st.integers(1, cluster.total_gpus), min_size=count, max_size=count))
    columns = {
        "job_id": [str(number) for number in range(count)],
        "submit_seconds": moments,
        "gpus": gpus,
        "duration_seconds": durations,
        "time_limit_seconds": [one + more for one, more in zip(durations, beyond, strict=True)],
    }
    return cluster, trace_of(columns, "drawn")


def watched(name: str, cluster: Cluster, trace: Trace) -> Watched:
    scheduler = build(name)
    assert isinstance(scheduler, ReservingScheduler)
    watch = Watched(scheduler)
    simulate(trace, cluster, watch, Options(restart_cost_seconds=0.0))
    assert len(watch.started) == len(trace.jobs)
    return watch


@pytest.mark.parametrize("placement", ["pack", "consolidate"])
@given(case=cases())
@settings(max_examples=40)
def test_conservative_keeps_every_promise(placement: str, case: tuple[Cluster, Trace]) -> None:
    watch = watched(f"fifo+conservative+{placement}", *case)
    for job, starts in watch.promised.items():
        assert starts == sorted(starts, reverse=True)
        assert watch.started[job] <= starts[-1]


@pytest.mark.parametrize("placement", ["pack", "consolidate"])
@given(case=cases())
@settings(max_examples=40)
def test_easy_reserves_the_first_start_there_is(placement: str, case: tuple[Cluster, Trace]) -> None:
    watch = watched(f"fifo+easy+{placement}", *case)
    for reserved, brute_force in watch.heads:
        assert reserved == brute_force
    for job, starts in watch.promised.items():
        assert watch.started[job] <= min(starts)


@given(case=cases(), name=st.sampled_from(["smallest+easy", "fifo+easy", "smallest+conservative"]))
@settings(max_examples=30)
def test_several_reservations_hold_under_any_order(case: tuple[Cluster, Trace], name: str) -> None:
    cluster, trace = case
    scheduler = build(name, {"reservations": "3"})
    simulate(trace, cluster, scheduler, Options(restart_cost_seconds=0.0))


def names_and_starts(name: str, columns: dict[str, list[float]], **options: str) -> list[float]:
    count = len(columns["gpus"])
    frame = {"job_id": [str(at) for at in range(count)], **columns}
    run = simulate(
        trace_of(frame, "by hand"),
        parse_cluster("1x4gpu"),
        build(name, options),
        Options(restart_cost_seconds=0.0),
    )
    starts: list[float] = run.record.jobs["start_seconds"].to_list()
    return starts


HAND: dict[str, list[float]] = {
    # 3 of 4 GPUs until 10 (really 6); the head needs 4; a short and a long job of one GPU behind it.
    "submit_seconds": [0, 1, 2, 3],
    "gpus": [3, 4, 1, 1],
    "duration_seconds": [6, 5, 7, 20],
    "time_limit_seconds": [10, 5, 8, 20],
}


def test_a_job_passes_if_its_limit_ends_before_the_reservation() -> None:
    # Job 2 ends by 10 and passes; job 3 would delay job 1 and waits until it has run (9 to 14).
    assert names_and_starts("fifo+easy", HAND) == [0, 9, 2, 14]
    assert names_and_starts("fifo+conservative", HAND) == [0, 9, 2, 14]


def test_slurms_backfill_keeps_the_head_its_start_too() -> None:
    # The same jobs in thousands of seconds, as its slots are minutes; its loops run seconds after an arrival.
    columns = {
        name: [1000 * one for one in HAND[name]] for name in ("duration_seconds", "time_limit_seconds")
    }
    columns |= {"submit_seconds": [0, 100, 200, 300], "gpus": HAND["gpus"]}
    assert names_and_starts("slurm", columns) == pytest.approx([0, 7200, 200, 12200], abs=60)


def test_decisions_at_an_interval_wait_for_its_multiples() -> None:
    # At 4 job 2 would end after 10, for which job 1 has its reservation; at 8 job 1 starts, at 16 the others.
    assert names_and_starts("fifo+easy", HAND, interval_seconds="4") == [0, 8, 16, 16]


def test_jobs_beyond_the_depth_are_not_looked_at() -> None:
    assert names_and_starts("fifo+easy", HAND, depth="1") == [0, 6, 11, 11]


def test_beyond_the_window_there_is_no_reservation() -> None:
    # At 6 job 1 could start at 10, which is beyond the window of 3 s: job 3 takes the GPU for 20 s.
    assert names_and_starts("fifo+easy", HAND, window_seconds="3") == [0, 26, 2, 6]


def test_a_reservation_that_moves_lets_others_start() -> None:
    """At 10 a job of the second node ends early, and the gang of two GPUs moves there, from 30 on the first to 20.

    Job 7 needs one GPU of the first node for 35 s: until then it was in the way of that gang. Job 5, which needs the
    same for longer, comes before it and waits for the gang of three, which has the first node from 50.
    """
    first, second = (
        replace(cluster_of(3).nodes[0], gpu_type="x"),
        replace(cluster_of(2).nodes[0], gpu_type="y"),
    )
    cluster = Cluster("two", (first, replace(second, name="node1")), ("rack0",))
    limited = [
        building.job(0, 50, constraint="gpu_type=x"),
        building.job(0, 30, constraint="gpu_type=x"),
        building.job(0, 20, constraint="gpu_type=y"),
        building.job(0, 10, constraint="gpu_type=y", time_limit_seconds=200.0),
        building.job(1, 40, gpus=3, constraint="gpu_type=x"),
        building.job(2, 100, constraint="gpu_type=x"),
        building.job(3, 20, gpus=2),
        building.job(4, 35, constraint="gpu_type=x"),
    ]
    trace = jobs_of(*({"time_limit_seconds": one["duration_seconds"]} | one for one in limited))
    starts = (
        run(trace, cluster, "fifo+conservative+consolidate", {"moving": "10"})
        .record.jobs["start_seconds"]
        .to_list()
    )
    assert starts == [0, 0, 0, 0, 50, 90, 20, 10]


def test_an_order_by_duration_can_go_by_the_limits_of_users() -> None:
    # Job 1 is shorter than job 2, but its limit is longer.
    columns = {
        "submit_seconds": [0, 1, 1],
        "gpus": [4, 4, 4],
        "duration_seconds": [5, 5, 9],
        "time_limit_seconds": [9, 30, 10],
    }
    frame = trace_of({"job_id": ["0", "1", "2"], **columns}, "by hand")
    starts = {}
    for knowledge in ("oracle", "limit"):
        options = Options(restart_cost_seconds=0.0, knowledge=knowledge)
        run = simulate(frame, parse_cluster("1x4gpu"), build("sjf"), options)
        starts[knowledge] = run.record.jobs["start_seconds"].to_list()
    assert starts == {"oracle": [0, 5, 10], "limit": [0, 14, 5]}


@pytest.mark.parametrize(
    ("per_node", "gpus", "on"),
    [
        ((8, 4, 4), 8, ["node1", "node2"]),
        ((8, 4, 4, 2), 6, ["node1", "node2"]),
        ((8, 3, 3, 1, 1), 4, ["node1", "node2"]),
    ],
)
def test_a_job_of_slurm_takes_as_few_of_its_own_nodes(
    per_node: tuple[int, ...], gpus: int, on: list[str]
) -> None:
    """The first node alone holds it, and is of another partition."""
    cluster = cluster_of(*per_node)
    labels = ["partition:large", *["partition:small"] * (len(per_node) - 1)]
    nodes = tuple(replace(node, labels=(label,)) for node, label in zip(cluster.nodes, labels, strict=True))
    trace = jobs_of(building.job(0, 100, gpus=gpus, partition="small"))
    result = run(trace, replace(cluster, nodes=nodes), "slurm")
    assert result.record.jobs["outcome"].to_list() == ["completed"]
    assert sorted(result.record.allocations["node"].to_list()) == on


@pytest.mark.parametrize("before", [[], [4, 8]], ids=["main loop", "backfill"])
def test_shares_of_slurm_leave_what_others_request(before: list[int]) -> None:
    """Four jobs start at once on one node; the last one requests eight of its sixteen cores."""
    gpus = [*before, 1, 1, 1, 1]
    count = len(gpus)
    columns = {
        "job_id": [f"j{at}" for at in range(count)],
        "submit_seconds": [float(at) for at in range(len(before))] + [10.0] * 4,
        "gpus": gpus,
        "duration_seconds": [900.0] * len(before) + [100.0] * 4,
        "time_limit_seconds": [900.0] * len(before) + [100.0] * 4,
        "cpus": [None] * (count - 1) + [8.0],
    }
    result = muster.simulate(pl.DataFrame(columns), f"{1 + bool(before)}x4gpu,16cpu,64gb", "slurm")
    held = {row["job_id"]: row for row in result.allocations.to_dicts()}
    four = [held[f"j{at}"] for at in range(count - 4, count)]
    assert len({(row["node"], row["from_seconds"]) for row in four}) == 1
    assert [row["cpus"] for row in four] == [4.0, 4.0, 0.0, 8.0]


@pytest.mark.parametrize("backfill", ["easy", "conservative", "slurm-cycles"])
def test_deadlines_count_with_backfill_under_edf(backfill: str) -> None:
    """And no note says that they are ignored."""
    later = [building.job(1, 50, gpus=4, deadline_seconds=at) for at in (900.0, 800.0)]
    trace = jobs_of(building.job(0, 100, gpus=4), *later)
    result = run(trace, cluster_of(4), f"edf+{backfill}")
    starts = result.record.jobs["start_seconds"].to_list()
    assert starts[2] < starts[1]
    assert "deadline_seconds" not in str(result.record.run)
