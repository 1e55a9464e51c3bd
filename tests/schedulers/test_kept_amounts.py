"""What running jobs have while a plan is made, and which of them get their GPUs back."""

from __future__ import annotations

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import CPU, MEMORY, MICRO
from muster.schedulers.allocation.drafting import add_part, keep_amounts, keep_in_place
from muster.schedulers.allocation.fair_share import keep_stopped
from muster.schedulers.allocation.gangs import gangs_of
from muster.schedulers.allocation.placement_draft import PlacementDraft, open_draft
from muster.schedulers.allocation.tune_core import tune
from muster.workload.jobs import RUNNING
from tests.building import cluster_of, hold
from tests.schedulers.synergy_cases import round_of


def places(plan: PlacementDraft, job: int) -> list[tuple[int, int]]:
    """Node and GPUs of each part of a job in a plan."""
    found, number = [], int(plan.first[job])
    while number >= 0:
        found.append((int(plan.node_parts[number]["node"]), int(plan.node_parts[number]["gpus"])))
        number = int(plan.node_parts[number]["next"])
    return found


def test_a_job_keeps_its_amounts_where_no_other_job_comes() -> None:
    """The third job moves to the second job's node; the fourth one waits and comes to a node without jobs."""
    case = round_of(cluster_of(2, 2, 2, 1), [("resnet18", 1)] * 4)
    ledger, index = case.snapshot.ledger, case.snapshot.jobs.index
    for job in range(3):
        hold(ledger, job, [NodeAllocation(job, (0,), cpus=1.0 + job, memory_gb=10.0)])
    with case.snapshot.transaction() as transaction:
        plan = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
        numbers = [add_part(plan, job, node, 1) for job, node in enumerate((0, 1, 1, 3))]
        keep_amounts(ledger.books, index, plan)
        amounts = [plan.node_parts[number]["amount"][[CPU, MEMORY]].tolist() for number in numbers]
    assert amounts == [[MICRO, 10 * MICRO], [0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("comes", "gang", "single"),
    [
        (None, [(0, 2), (1, 1)], [(1, 1)]),
        (0, [], [(1, 1)]),
        (1, [], []),
        (2, [(0, 2), (1, 1)], [(1, 1)]),
    ],
)
def test_a_stopped_job_gets_its_gpus_back_if_all_are_free(
    comes: int | None, gang: list[tuple[int, int]], single: list[tuple[int, int]]
) -> None:
    """A gang of three on two nodes and a job of one GPU lose their places; a third job comes to a node, or none."""
    case = round_of(cluster_of(2, 2, 2), [("resnet18", 3), ("resnet18", 1), ("resnet18", 2)])
    ledger, facts = case.snapshot.ledger, case.snapshot.table.facts
    hold(ledger, 0, [NodeAllocation(0, (0, 1), cpus=2.0), NodeAllocation(1, (0,), cpus=1.0)])
    hold(ledger, 1, [NodeAllocation(1, (1,), cpus=1.0)])
    facts["state"][:2], facts["held"][:2] = RUNNING, 1.0
    facts["resumes"] = facts["last_start"] = -1e9
    gangs = gangs_of(case.snapshot)
    with case.snapshot.transaction() as transaction:
        plan = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
        if comes is not None:
            add_part(plan, 2, comes, 2)
        keep_stopped(case.snapshot, gangs, plan, case.ranked, case.chosen)
    assert (places(plan, 0), places(plan, 1)) == (gang, single)
    fair = gangs.demands.fair[gangs.classes]
    for number in plan.first[:2].tolist():
        if number >= 0:
            part = plan.node_parts[number]
            assert part["amount"][CPU] == part["gpus"] * fair[part["at"], 0, CPU]


def test_a_gang_short_of_its_fair_share_keeps_what_it_has() -> None:
    """No CPU is free on the first node, and no neighbour has one, so the fair share of 3 has no room there."""
    case = round_of(cluster_of(1, 1), [("resnet18", 2)])
    ledger, index = case.snapshot.ledger, case.snapshot.jobs.index
    held = [(1.0, 10.0), (2.5, 20.0)]
    hold(ledger, 0, [NodeAllocation(node, (0,), cpus, memory) for node, (cpus, memory) in enumerate(held)])
    ledger.books.nodes["free"][0, CPU] = 0
    with case.snapshot.transaction() as transaction:
        plan = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
        keep_in_place(ledger.books, index, plan, case.chosen)
        plan.movable[0], plan.fixed[0] = False, True
        keep_amounts(ledger.books, index, plan)
        tune(plan, gangs_of(case.snapshot), index, index)
        amounts = plan.node_parts[:2]["amount"][:, [CPU, MEMORY]] / MICRO
    assert [tuple(amount) for amount in amounts.tolist()] == held
