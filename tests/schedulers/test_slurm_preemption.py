"""Preemption in the preset `slurm`: cases by hand, and what no preemption may break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster
from muster.problems import InputError
from muster.schedulers.actions import Preempt, Start, actions_of
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.registry import build
from muster.service.live_scheduler import live_scheduler
from muster.simulation import Run
from tests.building import cluster_of, column, finishes, job, jobs_of, run

TIERS = {"preempt": "partition_prio", "priority_tier": "high:10,mid:5"}
BY_QOS = {"preempt": "qos", "qos_preempt": "urgent:normal/standby,normal:standby"}
CLOCKS = {"main_phase": "0", "bf_phase": "0.5", "bf_interval": "5", "bf_cycle_seconds": "0"}
"""The main loop looks at whole seconds."""


@dataclass
class Watched:
    """The preset, with who was preempted for whom and when."""

    settings: Mapping[str, str]
    parts: str = "slurm"
    name: str = "watched"
    seen: list[tuple[float, int, tuple[int, ...]]] = field(default_factory=list)
    last_start: dict[int, float] = field(default_factory=dict)
    runtimes: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = build(self.parts, {**CLOCKS, **self.settings})

    def describe(self) -> dict[str, Any]:
        return self.scheduler.describe()

    def initial(self, cluster: Cluster) -> State:
        return self.scheduler.initial(cluster)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        decision, after = self.scheduler.decide(snapshot, state)
        for action in actions_of(decision, snapshot.ledger):
            if isinstance(action, Start):
                self.last_start[action.job] = snapshot.now
            elif isinstance(action, Preempt):
                self.seen.append((snapshot.now, action.job, action.makes_room_for))
                self.runtimes.append((action.job, snapshot.now - self.last_start[action.job]))
        return decision, after


def simulated(
    rows: list[dict[str, Any]], gpus: tuple[int, ...], given_as: Mapping[str, str], **options: Any
) -> tuple[Run, Watched]:
    watched = Watched(given_as)
    return run(jobs_of(*rows), cluster_of(*gpus), watched, **options), watched


def low(gpus: int, nodes: int = 1, submit: float = 0, duration: float = 600, **more: Any) -> dict[str, Any]:
    more = {"partition": "low", "qos": "standby", **more}
    return job(submit, duration, gpus=gpus, nodes=nodes, time_limit_seconds=1200, **more)


def high(submit: float, gpus: int, nodes: int = 1, duration: float = 20, **more: Any) -> dict[str, Any]:
    more = {"partition": "high", "qos": "urgent", **more}
    return job(submit, duration, gpus=gpus, nodes=nodes, time_limit_seconds=60, **more)


@pytest.mark.parametrize("rule", [TIERS, BY_QOS])
def test_victims_are_those_of_a_real_slurm(rule: dict[str, str]) -> None:
    # A real Slurm 22.05.8 did this: job 4 took the node of job 1, job 5 that of jobs 2 and 3, job 6 those of job 0.
    rows = [low(16, 2), low(8), low(4), low(4), high(4, 8), high(8.6, 8), high(8.6, 16, 2)]
    result, watched = simulated(rows, (8, 8, 8, 8), rule)
    assert watched.seen == [(4, 1, (4,)), (9, 2, (5,)), (9, 3, (5,)), (9, 0, (6,))]
    assert column(result, "start_seconds") == [0, 0, 0, 0, 4, 9, 9]


def test_a_requeued_job_goes_on_after_its_delay() -> None:
    # Stopped at 10 with 590 s to go; it may start again at 131 and pays 7 s for that. Backfill looks at 135.5.
    result, watched = simulated([low(8), high(10, 8)], (8,), TIERS, restart_cost_seconds=7.0)
    assert watched.seen == [(10, 0, (1,))]
    assert finishes(result) == [135.5 + 7 + 590, 30]
    assert column(result, "outcome") == ["completed", "completed"]
    reasons = result.record.reasons
    assert reasons.filter(reasons["reason"] == "requeued")["job_id"].to_list() == ["0"]


@pytest.mark.parametrize(
    "mode",
    [{"preempt_mode": "cancel"}, {"partition_preempt_mode": "low:cancel"}],
    ids=["cluster", "partition"],
)
def test_a_cancelled_job_ends_with_its_outcome(mode: dict[str, str]) -> None:
    result, _ = simulated([low(8), high(10, 8), low(8, submit=11)], (8,), {**TIERS, **mode})
    assert column(result, "outcome") == ["cancelled", "completed", "completed"]
    assert finishes(result)[:2] == [10, 30]
    assert column(result, "run_seconds")[0] == 10


def test_the_mode_of_a_qos_wins() -> None:
    result, _ = simulated([low(8), high(10, 8)], (8,), {**BY_QOS, "qos_preempt_mode": "standby:cancel"})
    assert column(result, "outcome") == ["cancelled", "completed"]


def test_a_partition_without_preemption_keeps_its_nodes() -> None:
    rows = [low(8, partition="safe"), high(10, 8)]
    result, watched = simulated(rows, (8,), {**TIERS, "partition_preempt_mode": "safe:off"})
    assert not watched.seen
    assert column(result, "start_seconds") == [0, 600]


@pytest.mark.parametrize(("submit", "preempted"), [(50, 100.5), (98.9, 100.5), (99.2, 100), (100, 100)])
def test_exempt_time_ends_at_its_second(submit: float, preempted: float) -> None:
    # The main loop looks at 99 and 100, and backfill at 95.5 and 100.5; only backfill looks again without news.
    rule = {**TIERS, "preempt_exempt_seconds": "100"}
    _, watched = simulated([low(8), high(submit, 8)], (8,), rule)
    assert watched.seen == [(preempted, 0, (1,))]


def test_the_ends_of_delays_are_news_under_any_order() -> None:
    # Backfill looks again when job 0 is no longer exempt (100) and when it may start again (221.5).
    watched = Watched({**TIERS, "preempt_exempt_seconds": "100"}, "fifo+slurm-cycles")
    result = run(jobs_of(low(8), high(50, 8)), cluster_of(8), watched)
    assert watched.seen == [(100.5, 0, (1,))]
    assert finishes(result) == [225.5 + 499.5, 120.5]


def test_the_exempt_time_of_a_qos_wins() -> None:
    rule = {**BY_QOS, "preempt_exempt_seconds": "300", "qos_preempt_exempt": "standby:100"}
    _, watched = simulated([low(8), high(50, 8)], (8,), rule)
    assert watched.seen == [(100.5, 0, (1,))]


def test_equal_tiers_and_other_qos_preempt_nothing() -> None:
    rows = [low(8, partition="high"), high(10, 8)]
    assert not simulated(rows, (8,), TIERS)[1].seen
    rows = [low(8, qos="other"), high(10, 8)]
    assert not simulated(rows, (8,), BY_QOS)[1].seen


def test_the_lowest_tier_and_the_fewest_nodes_go_first() -> None:
    rows = [low(8, partition="mid"), low(16, 2), low(8), high(10, 8), high(20, 8), high(30, 8)]
    _, watched = simulated(rows, (8, 8, 8, 8), TIERS)
    # Job 2 has one node, job 1 two; the second of them is free for the last job.
    assert watched.seen == [(10, 2, (3,)), (20, 1, (4,))]


def test_as_few_jobs_as_need_be_make_room() -> None:
    # By size alone jobs 0 and 1 would go first; job 2 makes room by itself.
    rows = [low(2), low(2), low(8), high(10, 8)]
    _, watched = simulated(rows, (4, 8), TIERS)
    assert watched.seen == [(10, 2, (3,))]


def test_the_job_that_makes_room_is_tried_alone() -> None:
    # Job 0 is lifted first and does not make room; job 1 does, and is enough without job 0.
    _, watched = simulated([low(2), low(6), high(10, 6)], (8,), TIERS)
    assert watched.seen == [(10, 1, (2,))]


def test_strict_order_keeps_the_other_candidates_in_place() -> None:
    # Lifted are jobs 0, 1, 2, then 2, 0, 1; job 0 is on another node and runs on.
    strict = {**TIERS, "preempt_strict_order": "true", "preempt_reorder_count": "0"}
    _, watched = simulated([low(4), low(2), low(6), high(10, 8)], (4, 8), strict)
    assert watched.seen == [(10, 2, (3,)), (10, 1, (3,))]


def test_the_youngest_may_go_first() -> None:
    rows = [low(8), low(8, submit=5), high(10, 8)]
    assert simulated(rows, (8, 8), TIERS)[1].seen == [(10, 0, (2,))]
    youngest = {**TIERS, "preempt_youngest_first": "true"}
    assert simulated(rows, (8, 8), youngest)[1].seen == [(10, 1, (2,))]


def test_an_owner_may_forbid_it() -> None:
    rows = [low(8, preemptible=False), low(8, min_runtime_seconds=50), high(10, 8), high(50, 8)]
    _, watched = simulated(rows, (8, 8), TIERS)
    assert watched.seen == [(50, 1, (2,))]


def test_a_job_waits_for_gpus_that_are_being_released() -> None:
    # The victim's 8 GPUs come free at 18; no other job is preempted meanwhile.
    rows = [low(8), low(8), high(10, 8), low(1, submit=11)]
    result, watched = simulated(rows, (8, 8), TIERS, release_seconds_per_gpu=1.0)
    assert [victim for _, victim, _ in watched.seen] == [0]
    assert column(result, "start_seconds")[2] == 18


def test_higher_tiers_are_served_first_without_preemption() -> None:
    rows = [low(8), low(8, submit=1), high(2, 8)]
    assert column(simulated(rows, (8,), {})[0], "start_seconds") == [0, 600, 1200]
    rule = {"priority_tier": "high:10"}
    assert column(simulated(rows, (8,), rule)[0], "start_seconds") == [0, 620, 600]


def test_qos_that_may_preempt_are_served_first() -> None:
    rows = [low(8, preemptible=False), low(8, submit=1), high(2, 8)]
    assert column(simulated(rows, (8,), BY_QOS)[0], "start_seconds") == [0, 620, 600]


def behind_a_blocked_head(*more: dict[str, Any], gpus: int = 16) -> tuple[Run, Watched]:
    """Three nodes: a job that keeps the first, a low one on as many GPUs, and a head of the queue that needs all."""
    kept, head = low(8, partition="high"), high(9, 24, 3)
    return simulated([kept, low(gpus, gpus // 8), head, *more], (8, 8, 8), TIERS)


def test_backfill_preempts_for_a_job_behind_the_head() -> None:
    # Job 3 takes one node of job 1 for less than the 60 s of a slot; job 4 has the other one in the same cycle.
    third = {**high(10, 8, partition="mid"), "time_limit_seconds": 30}
    result, watched = behind_a_blocked_head(third, high(10, 8, partition="low"))
    assert watched.seen[0] == (10.5, 1, (3, 4))
    assert column(result, "start_seconds")[3:] == [10.5, 10.5]


def test_backfill_preempts_nothing_for_a_job_that_fits() -> None:
    result, watched = behind_a_blocked_head(high(10, 8, partition="mid"), gpus=8)
    assert column(result, "start_seconds")[3] == 10.5
    assert watched.seen == [] or watched.seen[0][0] > 10.5


def test_circles_and_odd_settings_are_refused() -> None:
    with pytest.raises(InputError, match="no circle"):
        build("slurm", {"qos_preempt": "a:b,b:a"})
    with pytest.raises(InputError, match="takes one of off, requeue, cancel"):
        build("slurm", {"partition_preempt_mode": "low:suspend"})
    with pytest.raises(InputError, match="requeue_seconds: allowed"):
        build("slurm", {"requeue_seconds": "-1"})


def test_a_service_refuses_what_cancels_jobs() -> None:
    live_scheduler("slurm", TIERS, 60.0)
    with pytest.raises(InputError, match="the daemon cancels no job"):
        live_scheduler("slurm", {**TIERS, "preempt_mode": "cancel"}, 60.0)


def test_nothing_starts_on_what_a_stopped_job_still_releases() -> None:
    """The gang on two nodes is stopped for the third job; the last one waits until its other GPUs are free."""
    rows = [
        job(4, 22, gpus=3, nodes=1, time_limit_seconds=120, qos="standby"),
        job(10, 55, gpus=8, nodes=2, time_limit_seconds=120, qos="normal"),
        job(25, 83, gpus=4, nodes=2, time_limit_seconds=120, qos="urgent"),
        job(35, 55, gpus=2, nodes=1, time_limit_seconds=120, qos="urgent"),
    ]
    given_as = {**BY_QOS, "preempt_exempt_seconds": "27", "preempt_mode": "cancel"}
    result, _ = simulated(rows, (4, 4, 4), given_as, release_seconds_per_gpu=0.5)
    assert column(result, "outcome") == ["completed", "cancelled", "completed", "completed"]


@st.composite
def cases(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Jobs of three partitions and QOS of the same ranks, on 1 or 2 of three nodes of 4 GPUs."""
    rows = []
    for submit in sorted(draw(st.lists(st.integers(0, 60), min_size=2, max_size=9))):
        rank = draw(st.integers(0, 2))
        nodes = draw(st.integers(1, 2))
        group = {"partition": ("low", "mid", "high")[rank], "qos": ("standby", "normal", "urgent")[rank]}
        gpus = nodes * draw(st.integers(1, 4))
        rows.append(
            job(submit, draw(st.integers(1, 90)), gpus=gpus, nodes=nodes, time_limit_seconds=120, **group)
        )
    return rows


@given(
    rows=cases(),
    rule=st.sampled_from([TIERS, BY_QOS]),
    exempt=st.integers(0, 30),
    mode=st.sampled_from(["requeue", "cancel"]),
    release=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=30)
def test_preemption_keeps_its_rules(
    rows: list[dict[str, Any]], rule: dict[str, str], exempt: int, mode: str, release: float
) -> None:
    given_as = {**rule, "preempt_exempt_seconds": f"{exempt}", "preempt_mode": mode}
    result, watched = simulated(rows, (4, 4, 4), given_as, release_seconds_per_gpu=release)
    ranks = [("low", "mid", "high").index(row["partition"]) for row in rows]
    for _, victim, makers in watched.seen:
        assert release or any(ranks[victim] < ranks[one] for one in makers)
    assert all(np.floor(ran + 1) > exempt for _, ran in watched.runtimes)
    outcomes = column(result, "outcome")
    victims = {victim for _, victim, _ in watched.seen}
    for at in range(len(rows)):
        assert outcomes[at] == ("cancelled" if mode == "cancel" and at in victims else "completed")
