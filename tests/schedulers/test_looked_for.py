"""joint looks for better places of the same jobs again only where enough of them changed since it last looked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from muster.cluster.ledger_arrays import Floats
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.joint.looked_for import LookedFor
from muster.simulation.failures import Failures
from tests.building import jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, gang, small_cluster

MILD = replace(CHATTY, gradient_gb=0.2)
"""0.8 as fast on two machines as on one."""
Jobs = dict[int, tuple[int, bool, float]]
"""By number of a job that has a place: its GPUs, whether it may have another, and what it loses there."""


@pytest.mark.parametrize("sized", [False, True])
def test_what_changed_is_as_defined(monkeypatch: pytest.MonkeyPatch, sized: bool) -> None:
    """Against dictionaries, in runs with gangs, protected jobs, nodes that fail, and jobs that change size."""
    seen: Counter[str] = Counter()
    before: dict[int, tuple[Jobs, int]] = {}
    remember, changed = LookedFor.of.__func__, LookedFor.changed  # type: ignore[attr-defined]

    def of(cls: type[LookedFor], given: AllocationInput, *plan: Any) -> LookedFor:
        made: LookedFor = remember(cls, given, *plan)
        before[id(made)] = by_number(given, *plan), given.opened.gpus
        return made

    def checked(self: LookedFor, given: AllocationInput, *plan: Any) -> float:
        found = changed(self, given, *plan)
        (then, gpus_then), now, gpus = before[id(self)], by_number(given, *plan), given.opened.gpus
        news = {number: what for number, job in now.items() if (what := news_of(then.get(number), job))}
        gone = [job for number, job in then.items() if now.get(number, (0,))[0] != job[0]]
        left = sum(gpus for gpus, *_ in gone) + abs(gpus - gpus_then)
        assert found == max(sum(now[number][0] for number in news), left) / gpus
        seen.update(news.values())
        seen["left"] += left > sum(now[number][0] for number in news)
        seen["other GPUs"] += gpus != gpus_then
        seen["nothing"] += found == 0
        return found

    monkeypatch.setattr(LookedFor, "of", classmethod(of))
    monkeypatch.setattr(LookedFor, "changed", checked)
    gangs = [
        gang(1 + at % 3, 4_000 + 900 * (at % 7), model=("mild", "other")[at % 2], submit_seconds=150 * at)
        | ({"min_gpus": 1, "max_gpus": 3} if sized and at % 4 == 0 else {})
        for at in range(90)
    ]
    failures = Failures(mean_seconds_between=9_000.0, repair_seconds=1_000.0)
    options: dict[str, Any] = {"restart_cost_seconds": 20.0, "failures": failures}
    run(jobs_of(*gangs), small_cluster(4, 6), "gittins+joint", layers={"mild": MILD}, **options)
    every = ("has a place", "may move", "loses less", "left", "other GPUs", "nothing")
    assert min(seen[name] for name in (("another size",) if sized else every)) > 2


def by_number(given: AllocationInput, gangs: Gangs, kept: PlacementDraft, lost: Floats) -> Jobs:
    """The jobs that have a place."""
    numbers, gpus = given.snapshot.jobs.index.tolist(), gangs.gpus.tolist()
    placed = (kept.first >= 0).nonzero()[0].tolist()
    return {numbers[at]: (gpus[at], bool(kept.movable[at]), float(lost[at])) for at in placed}


def news_of(then: tuple[int, bool, float] | None, now: tuple[int, bool, float]) -> str:
    """What is new of a job; empty: nothing."""
    if then is None:
        return "has a place"
    if now[0] != then[0]:
        return "another size"
    if now[1] and not then[1]:
        return "may move"
    return "loses less" if now[2] < then[2] - 1e-9 else ""
