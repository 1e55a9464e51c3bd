"""joint looks for better places of the same jobs only where these may lack less than when it last looked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from muster.cluster.ledger_arrays import Floats
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.joint.kept_places import KeptPlaces
from muster.simulation.failures import Failures
from tests.building import jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, gang, small_cluster

MILD = replace(CHATTY, gradient_gb=0.2)
"""0.8 as fast on two machines as on one."""
Jobs = dict[int, tuple[float, bool, int, float, float]]
"""By number of a job that has a place: its loss in another, whether it may have one, its GPUs, what it counts at most
and there."""


def test_what_other_places_lack_is_as_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against dictionaries, in a run with gangs, protected jobs, checkpoints and nodes that fail."""
    seen: Counter[str] = Counter()
    before: dict[int, tuple[Jobs, int]] = {}
    remember, may_lack = KeptPlaces.of.__func__, KeptPlaces.may_lack  # type: ignore[attr-defined]

    def of(
        cls: type[KeptPlaces], given: AllocationInput, kept: PlacementDraft, lost: Floats, lacked: float
    ) -> KeptPlaces:
        made: KeptPlaces = remember(cls, given, kept, lost, lacked)
        nothing = np.zeros(len(lost))
        before[id(made)] = by_number(given, kept, lost, nothing, nothing), given.opened.gpus
        return made

    def checked(
        self: KeptPlaces,
        given: AllocationInput,
        kept: PlacementDraft,
        lost: Floats,
        most: Floats,
        counts: Floats,
    ) -> float:
        found = may_lack(self, given, kept, lost, most, counts)
        (then, gpus_then), now = before[id(self)], by_number(given, kept, lost, most, counts)
        terms = {"jobs": more_of_jobs(then, now), "losses": less_lost(then, now)}
        gain = sum(max(top - here, 0.0) for _, _, _, top, here in now.values())
        mean = gain / sum(gpus for _, _, gpus, _, _ in now.values())
        terms["ended"] = sum(job[2] for number, job in then.items() if number not in now) * mean
        terms["more GPUs"] = max(given.opened.gpus - gpus_then, 0) * mean
        assert found == pytest.approx(self.lacked - sum(terms.values()))
        seen.update(name for name, value in terms.items() if value > 0)
        seen["still"] += found >= 0
        return found

    monkeypatch.setattr(KeptPlaces, "of", classmethod(of))
    monkeypatch.setattr(KeptPlaces, "may_lack", checked)
    gangs = [
        gang(1 + at % 3, 4_000 + 900 * (at % 7), model=("mild", "other")[at % 2], submit_seconds=150 * at)
        for at in range(90)
    ]
    failures = Failures(mean_seconds_between=9_000.0, repair_seconds=1_000.0)
    options: dict[str, Any] = {
        "restart_cost_seconds": 20.0,
        "checkpoint_seconds": 600.0,
        "failures": failures,
    }
    run(jobs_of(*gangs), small_cluster(4, 6), "las+joint", layers={"mild": MILD}, **options)
    assert min(seen[name] for name in ("jobs", "losses", "ended", "more GPUs", "still")) > 2


def test_what_jobs_count_adds_up_to_what_a_plan_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before restarts, and where gangs on the same uplinks slow each other."""
    of_each, slowed = Worth.of_each, list[bool]()

    def checked(self: Worth, plan: PlacementDraft, relative: Floats | None = None) -> Floats:
        found = of_each(self, plan, relative)
        assert found.sum() == pytest.approx(self.of(plan, relative, restarts=False))
        assert (found[plan.first < 0] == 0).all()
        slowed.append(relative is not None and bool((relative < 1).any()))
        return found

    monkeypatch.setattr(Worth, "of_each", checked)
    gangs = [gang(3 + at % 4, 8_000, model="mild", submit_seconds=100 * at) for at in range(60)]
    cluster, layers = small_cluster(4, 8), {"mild": MILD}
    run(jobs_of(*gangs), cluster, "las+joint", layers=layers, restart_cost_seconds=60.0, contention=True)
    assert sum(slowed) > 5


def by_number(
    given: AllocationInput, kept: PlacementDraft, lost: Floats, most: Floats, counts: Floats
) -> Jobs:
    """The jobs that have a place."""
    numbers, gpus = given.snapshot.jobs.index.tolist(), given.gangs.gpus.tolist()
    return {
        number: (lost[at], bool(kept.movable[at]), gpus[at], most[at], counts[at])
        for at, number in enumerate(numbers)
        if kept.first[at] >= 0
    }


def more_of_jobs(then: Jobs, now: Jobs) -> float:
    """What jobs may gain that had no place then, or were to keep it."""
    free = {
        number: job for number, job in now.items() if number not in then or (job[1] and not then[number][1])
    }
    return sum(max(most - here, 0.0) for _, _, _, most, here in free.values())


def less_lost(then: Jobs, now: Jobs) -> float:
    """What other places cost less for the jobs that had one and could have had another."""
    same = {number: job for number, job in now.items() if number in then and (then[number][1] or not job[1])}
    return sum(max(then[number][0] - job[0], 0.0) * job[4] for number, job in same.items())
