"""joint places all jobs again only where that may be worth more than when it was last done."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

import pytest

from muster.cluster.ledger_arrays import Floats
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.contract import Decision, Proposal, Snapshot, State
from muster.schedulers.joint import joint
from muster.schedulers.joint.joint import Joint
from muster.schedulers.joint.looked_for import LookedFor
from muster.schedulers.joint.modelled_speeds import ANY_TYPE, TypedSizes
from muster.schedulers.joint.on_network import plans_on_network
from muster.schedulers.joint.placed_again import PlacedAgain
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

    def less(cls: type[PlacedAgain], *made_of: Any) -> PlacedAgain:
        *rest, worth = made_of
        known: PlacedAgain = remember(cls, *rest, worth - 1.0)
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


def sized_jobs() -> list[dict[str, Any]]:
    """Every second one may have a quarter of its GPUs to twice as many."""
    return [
        job(
            120.0 * at,
            900 + 400 * (at % 7),
            gpus,
            model=("cached", "")[at % 3 == 0],
            min_gpus=least,
            max_gpus=most,
        )
        for at in range(80)
        for gpus in [(1, 2, 4)[at % 3]]
        for least, most in [(max(gpus // 4, 1), 2 * gpus) if at % 2 else (gpus, gpus)]
    ]


@pytest.mark.parametrize("sized", [False, True])
def test_what_a_plan_may_be_worth_is_as_defined(monkeypatch: pytest.MonkeyPatch, sized: bool) -> None:
    """Against dictionaries, in runs with gangs, protected jobs, nodes that fail, few cores, jobs that change size."""
    remembered: dict[int, Counted] = {}
    smaller = 0
    remember, may_be_worth = PlacedAgain.of.__func__, PlacedAgain.may_be_worth  # type: ignore[attr-defined]

    def of(
        cls: type[PlacedAgain], given: AllocationInput, sizes: TypedSizes, most: Floats, worth: float
    ) -> PlacedAgain:
        made: PlacedAgain = remember(cls, given, sizes, most, worth)
        remembered[id(made)] = Counted(given, sizes, most)
        return made

    def checked(self: PlacedAgain, given: AllocationInput, sizes: TypedSizes, most: Floats) -> float:
        nonlocal smaller
        found = may_be_worth(self, given, sizes, most)
        assert found == pytest.approx(
            self.worth + more_than(remembered[id(self)], Counted(given, sizes, most))
        )
        smaller += found < (2.0 if sized else 1.1) * self.worth
        return found

    monkeypatch.setattr(PlacedAgain, "of", classmethod(of))
    monkeypatch.setattr(PlacedAgain, "may_be_worth", checked)
    trace = jobs_of(*sized_jobs()) if sized else generate(60, 6.0, (50, 0, 50), True, False, 3)
    failures = Failures(mean_seconds_between=20_000.0, repair_seconds=3_000.0)
    cluster = cluster_of(8, 3, cpus_per_gpu=1.5)
    if sized:
        nodes = [replace(node, gpu_type=("a", "b")[at % 2]) for at, node in enumerate(cluster.nodes)]
        cluster = replace(cluster, nodes=tuple(nodes))
    models = MODELS if sized else None
    run(trace, cluster, "las+joint", models=models, restart_cost_seconds=60.0, failures=failures)
    assert smaller > 50


class Counted(NamedTuple):
    """What a plan was made of, and what each job counts in it at most."""

    given: AllocationInput
    sizes: TypedSizes
    most: Floats

    def jobs(self) -> dict[int, tuple[float, int, int]]:
        """What each job of the plan counts at most, its GPUs and their type, by its number."""
        part = self.given.opened.movable | self.given.opened.fixed
        columns = self.most, self.sizes.gpus, self.sizes.gpu_type
        numbers = self.given.snapshot.jobs.index[part].tolist()
        return dict(zip(numbers, zip(*(each[part].tolist() for each in columns), strict=True), strict=True))

    def fixed(self) -> dict[int, int]:
        """The GPUs of the jobs that keep their places, by number."""
        fixed = self.given.opened.fixed
        numbers = self.given.snapshot.jobs.index[fixed].tolist()
        return dict(zip(numbers, self.sizes.gpus[fixed].tolist(), strict=True))


def more_than(before: Counted, now: Counted) -> float:
    """What a plan may be worth more now than before."""
    every = dict(
        zip(
            before.given.snapshot.jobs.index.tolist(),
            zip(before.sizes.gpus.tolist(), before.sizes.gpu_type.tolist(), strict=True),
            strict=True,
        )
    )
    then, more = before.jobs(), 0.0
    freed = max(now.given.opened.gpus - before.given.opened.gpus, 0)
    for number, (count, gpus, gpu_type) in now.jobs().items():
        had_gpus, had_type = every.get(number, (0, ANY_TYPE))
        as_before = (
            number in every
            and had_gpus == gpus
            and (ANY_TYPE in (had_type, gpu_type) or had_type == gpu_type)
        )
        more += max(count - (then.get(number, (0.0,))[0] if as_before else 0.0), 0.0)
        freed += max(had_gpus - gpus, 0)
    still = now.fixed()
    freed += sum(gpus for number, gpus in before.fixed().items() if number not in still)
    return float(more + freed * max(count / gpus for count, gpus, _ in now.jobs().values()))
