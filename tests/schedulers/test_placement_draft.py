"""What an opened draft may do with each job, and that copies of a draft change on their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muster.cluster.ledger import NodeAllocation
from muster.schedulers.allocation.drafting import add_part
from muster.schedulers.allocation.placement_draft import open_draft
from muster.workload.jobs import RUNNING
from tests.building import cluster_of, hold
from tests.schedulers.synergy_cases import Round, round_of

WAITS, RUNS, NOT_RANKED, PINNED, SHARE = range(5)


def case_of(resize_restarts: bool) -> Round:
    """One job of each kind on nodes of their own; those that run hold one GPU each."""
    case = round_of(cluster_of(2, 2, 2, 2, 2), [("resnet18", 1)] * 5)
    ledger, table = case.snapshot.ledger, case.snapshot.table
    for job in (RUNS, NOT_RANKED, PINNED):
        hold(ledger, job, [NodeAllocation(job, (0,), cpus=1.0)])
        table.facts["state"][job], table.facts["held"][job] = RUNNING, 1.0
    table.facts["resumes"] = table.facts["last_start"] = -1e9
    table.asked["preemptible"][PINNED] = 0
    table.asked["milli"][SHARE] = 500
    snapshot = replace(case.snapshot, resize_restarts=resize_restarts)
    return replace(case, snapshot=snapshot, ranked=np.array([WAITS, RUNS, PINNED, SHARE]))


@pytest.mark.parametrize(("resize_restarts", "fixed"), [(False, [NOT_RANKED, PINNED]), (True, [NOT_RANKED])])
def test_a_draft_moves_ranked_jobs_and_keeps_fixed_ones(resize_restarts: bool, fixed: list[int]) -> None:
    case = case_of(resize_restarts)
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    assert np.flatnonzero(draft.movable).tolist() == [WAITS, RUNS]
    assert np.flatnonzero(draft.fixed).tolist() == fixed
    assert np.flatnonzero(draft.first >= 0).tolist() == fixed
    free = [2] * 5
    for job in {NOT_RANKED, PINNED}:
        free[job] -= 1
    assert draft.free[:, 0].tolist() == free


def test_a_copied_draft_changes_on_its_own() -> None:
    case = case_of(False)
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    before = [column.copy() for column in draft]
    copied = draft.copy()
    add_part(copied, WAITS, 0, 2)
    copied.movable[WAITS] = False
    assert all(np.array_equal(*pair) for pair in zip(before, draft, strict=True))
    assert copied.first[WAITS] >= 0
