"""joint places all jobs again only where that may be worth more than when it was last done."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import inf
from typing import Any

import pytest

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Floats
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.contract import Decision, Proposal, Snapshot, State
from muster.schedulers.joint import joint
from muster.schedulers.joint.joint import Joint
from muster.schedulers.joint.looked_for import LookedFor
from muster.schedulers.joint.on_network import plans_on_network
from muster.schedulers.joint.placed_again import PlacedAgain
from muster.schedulers.joint.remembered import Remembered
from muster.schedulers.registry import build
from muster.simulation.failures import Failures
from muster.workload.generators.synergy import generate
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, gang, small_cluster
from tests.schedulers.test_joint import MODELS
from tests.schedulers.wrapped import Wrapped


def test_jobs_that_come_start_a_plan_again_once_they_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs use all memory of two nodes; their protection has ended when the first of four more comes.

    The plan of 1,000 s is taken to be worth 1.0 less than it was. The other three count 0.6, 0.2625 and 0.2333 at most.
    """
    made: Counter[float] = Counter()
    place, remember = joint._place, PlacedAgain.of.__func__  # type: ignore[attr-defined]

    def counted(given: AllocationInput, *rest: Any) -> None:
        made[given.snapshot.now] += 1
        place(given, *rest)

    def less(cls: type[PlacedAgain], given: AllocationInput, most: Floats, worth: float) -> PlacedAgain:
        known: PlacedAgain = remember(cls, given, most, worth - 1.0)
        return known

    monkeypatch.setattr(joint, "_place", counted)
    monkeypatch.setattr(PlacedAgain, "of", classmethod(less))
    run_long = [job(0, 100_000, model="cached"), job(0, 100_000, model="cached")]
    wait = [job(1_000 + 10 * at, 900_000 + at, model="cached") for at in range(4)]
    cluster = cluster_of(2, 2, memory_gb_per_gpu=5.0)
    run(jobs_of(*run_long, *wait), cluster, "srtf+joint", models=MODELS, restart_cost_seconds=10.0)
    assert [made[now] for now in (1_000, 1_010, 1_020, 1_030)] == [2, 1, 1, 2]


@pytest.mark.parametrize(
    ("may_be_worth", "changed", "drafts"),
    [(-inf, 1.0, {6: 1, 2: 44}), (inf, 1.0, {6: 5, 2: 40}), (-inf, 0.01, {6: 1, 2: 1, 1: 45})],
)
def test_on_a_network_others_are_made_once_more_if_they_may_win(
    monkeypatch: pytest.MonkeyPatch, may_be_worth: float, changed: float, drafts: dict[int, int]
) -> None:
    """Nothing is known at the first decision that could stop a job; six drafts are all that are made."""
    made: Counter[int] = Counter()
    plans = plans_on_network

    def counted(*given: Any) -> list[tuple[float, PlacementDraft]]:
        drafts = plans(*given)
        made[len(drafts)] += 1
        return drafts

    monkeypatch.setattr(joint, "plans_on_network", counted)
    monkeypatch.setattr(PlacedAgain, "may_be_worth", lambda *_: may_be_worth)
    monkeypatch.setattr(LookedFor, "changed", lambda *_: changed)
    gangs = [
        gang(1 + at % 5, 4_000, model=("chatty", "other")[at % 2], submit_seconds=60 * at) for at in range(20)
    ]
    run(jobs_of(*gangs), small_cluster(4, 4), "las+joint", layers={"chatty": CHATTY})
    assert made == drafts


class Kept(Wrapped):
    """Keeps what is remembered after each decision."""

    def initial(self, cluster: Cluster) -> State:
        self.kept: list[PlacedAgain | None] = []
        return super().initial(cluster)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        decision, after = super().decide(snapshot, state)
        plans: Remembered | None = after["plans"]
        self.kept.append(None if plans is None else plans.again)
        return decision, after


def test_no_plan_of_jobs_with_a_choice_of_sizes_is_remembered() -> None:
    elastic = [job(60.0 * at, 2_000, model="cached", min_gpus=1, max_gpus=4) for at in range(8)]
    scheduler = Kept(build("las+joint"))
    run(jobs_of(*elastic), cluster_of(4, 2, memory_gb_per_gpu=5.0), scheduler, models=MODELS)
    assert set(scheduler.kept) == {None}


class OfBefore(Wrapped):
    """The memory of each decision is that of a version which remembered no plan."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        decision, after = super().decide(snapshot, state)
        return decision, {key: value for key, value in after.items() if key != "plans"}


def test_a_memory_of_before_goes_on_without_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an update of the daemon; no plan is asked what it may be worth then."""
    monkeypatch.delattr(PlacedAgain, "may_be_worth")
    trace = generate(40, 6.0, (50, 0, 50), True, False, 3)
    result = run(trace, cluster_of(8, 2, cpus_per_gpu=1.5), OfBefore(build("gittins+joint")))
    assert result.record.jobs["finish_seconds"].is_finite().all()


def test_room_for_a_promoted_job_is_made_without_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other jobs are served then, and more and more of the running ones may leave."""
    asked: list[tuple[Snapshot, Any]] = []
    allocate = Joint.allocate

    def recorded(self: Joint, snapshot: Snapshot, proposal: Proposal, *rest: Any) -> None:
        asked.append((snapshot, proposal.remembered))
        allocate(self, snapshot, proposal, *rest)

    monkeypatch.setattr(Joint, "allocate", recorded)
    scheduler = build("srtf+joint", {"promote_after_seconds": "3000"})
    run(generate(60, 6.0, (50, 0, 50), True, False, 3), cluster_of(8, 2, cpus_per_gpu=1.5), scheduler)
    again = [plans for (before, _), (now, plans) in pairwise(asked) if now is before]
    assert len(again) > 10
    assert all(plans is None for plans in again)


def test_what_a_plan_may_be_worth_is_as_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against dictionaries, in runs with gangs, protected jobs, nodes that fail, and few cores."""
    remembered: dict[int, tuple[AllocationInput, Floats]] = {}
    smaller = 0
    remember, may_be_worth = PlacedAgain.of.__func__, PlacedAgain.may_be_worth  # type: ignore[attr-defined]

    def of(cls: type[PlacedAgain], given: AllocationInput, most: Floats, worth: float) -> PlacedAgain:
        made: PlacedAgain = remember(cls, given, most, worth)
        remembered[id(made)] = given, most
        return made

    def checked(self: PlacedAgain, given: AllocationInput, most: Floats) -> float:
        nonlocal smaller
        found = may_be_worth(self, given, most)
        assert found == pytest.approx(self.worth + more_than(*remembered[id(self)], given, most))
        smaller += found < 1.1 * self.worth
        return found

    monkeypatch.setattr(PlacedAgain, "of", classmethod(of))
    monkeypatch.setattr(PlacedAgain, "may_be_worth", checked)
    trace = generate(60, 6.0, (50, 0, 50), True, False, 3)
    failures = Failures(mean_seconds_between=20_000.0, repair_seconds=3_000.0)
    cluster = cluster_of(8, 3, cpus_per_gpu=1.5)
    run(trace, cluster, "las+joint", restart_cost_seconds=60.0, failures=failures)
    assert smaller > 50


def more_than(before: AllocationInput, then: Floats, given: AllocationInput, now: Floats) -> float:
    """What a plan may be worth more now than before, by what each job counts at most then and now."""
    counted_then, counts_now = by_job(before, then), by_job(given, now)
    more = sum(max(count - counted_then.get(number, 0.0), 0.0) for number, count in counts_now.items())
    freed = max(given.opened.gpus - before.opened.gpus, 0)
    still = fixed_jobs(given)
    freed += sum(gpus for number, gpus in fixed_jobs(before).items() if number not in still)
    wants = dict(zip(given.snapshot.jobs.index.tolist(), given.gangs.gpus.tolist(), strict=True))
    return float(more + freed * max(count / wants[number] for number, count in counts_now.items()))


def by_job(given: AllocationInput, most: Floats) -> dict[int, float]:
    """What each job of a plan counts at most, by its number."""
    part = given.opened.movable | given.opened.fixed
    return dict(zip(given.snapshot.jobs.index[part].tolist(), most[part].tolist(), strict=True))


def fixed_jobs(given: AllocationInput) -> dict[int, int]:
    """The GPUs of the jobs that keep their places, by number."""
    jobs, fixed = given.snapshot.jobs, given.opened.fixed
    return dict(zip(jobs.index[fixed].tolist(), jobs.gpus[fixed].tolist(), strict=True))
