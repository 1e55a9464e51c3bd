"""What running jobs have beside their GPUs while a plan is made."""

from __future__ import annotations

from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import CPU, MEMORY, MICRO
from muster.schedulers.allocation.placement_draft import empty_copy, keep_amounts, open_draft, sit
from tests.building import cluster_of, hold
from tests.schedulers.synergy_cases import round_of


def test_a_job_keeps_its_amounts_where_no_other_job_comes() -> None:
    """The third job moves to the second job's node; the fourth one waits and comes to a node without jobs."""
    case = round_of(cluster_of(2, 2, 2, 1), [("resnet18", 1)] * 4)
    ledger, index = case.snapshot.ledger, case.snapshot.jobs.index
    for job in range(3):
        hold(ledger, job, [NodeAllocation(job, (0,), cpus=1.0 + job, memory_gb=10.0)])
    with case.snapshot.transaction() as transaction:
        plan = empty_copy(open_draft(case.snapshot, transaction, case.ranked, case.chosen))
        numbers = [sit(plan, job, node, 1) for job, node in enumerate((0, 1, 1, 3))]
        keep_amounts(ledger.books, index, plan)
        amounts = [plan.node_parts[number]["amount"][[CPU, MEMORY]].tolist() for number in numbers]
    assert amounts == [[MICRO, 10 * MICRO], [0, 0], [0, 0], [0, 0]]
