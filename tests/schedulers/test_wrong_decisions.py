"""A whole scheduler of a user whose decision is wrong: refused with what is wrong, in place of wrong figures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np
import pytest

from muster.cluster import Cluster
from muster.cluster.ledger import Ledger, NodeAllocation, Transaction
from muster.cluster.ledger_arrays import ENTRIES
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.runtime.checked_decisions import check_decision
from muster.schedulers.contract import Proposal, Snapshot, State
from muster.schedulers.reasons import NO_GPUS
from muster.simulation import PlanRefused
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.synergy_cases import round_of

JOBS = jobs_of(job(0, 100, gpus=2), job(10, 50, gpus=1), job(500, 20, gpus=2))
Change = Callable[[Snapshot, Proposal], None]


def nothing(snapshot: Snapshot, proposal: Proposal) -> None:
    """Leave the decision as it is."""


@dataclass(frozen=True)
class FirstNode:
    """Waiting jobs on the first node as it has GPUs free; `change` spoils the decision."""

    change: Change = nothing
    answer: Callable[[Any, State], Any] = lambda decision, state: (decision, state)
    name: str = "first-node"

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "parts": {}, "settings": {}, "needs": []}

    def initial(self, cluster: Cluster) -> State:
        return None

    def decide(self, snapshot: Snapshot, state: State) -> Any:
        with snapshot.transaction() as transaction:
            proposal = Proposal.blank(transaction, len(snapshot.jobs))
            for at in np.flatnonzero(snapshot.jobs.waiting).tolist():
                gpus, free = int(snapshot.jobs.gpus[at]), snapshot.ledger.free_ids(0)
                if len(free) >= gpus:
                    transaction.put(int(snapshot.jobs.index[at]), [NodeAllocation(0, free[:gpus])])
                else:
                    proposal.reasons[at] = NO_GPUS
            self.change(snapshot, proposal)
            return self.answer(proposal.decision(), state)


def writes(**fields: Any) -> Change:
    """Write these fields of the decision."""

    def change(snapshot: Snapshot, proposal: Proposal) -> None:
        for name, value in fields.items():
            setattr(proposal, name, value)

    return change


def puts(number: int, **fields: Any) -> Change:
    """Give a job its GPUs of the first node, with other fields of the allocation."""

    def change(snapshot: Snapshot, proposal: Proposal) -> None:
        proposal.transaction.put(number, [replace(NodeAllocation(0, (0, 1)), **fields)])

    return change


def codes(code: int) -> Change:
    """Write one reason for all jobs."""

    def change(snapshot: Snapshot, proposal: Proposal) -> None:
        proposal.reasons[:] = code

    return change


def test_a_right_decision_is_carried_out() -> None:
    assert column(run(JOBS, cluster_of(4), FirstNode()), "start_seconds") == [0, 10, 500]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (puts(2, gpu_ids=(2, 3)), r"it changes jobs that it was not asked about: \[2\]"),
        (
            puts(0, milli=500, gpu_ids=(0, 1, 2, 3)),
            "job 0 would hold 500 thousandths of each GPU; allowed: 1000",
        ),
        (codes(NO_GPUS), "job 0 would hold an allocation, and its reason is not PLACED"),
        (codes(987), "there is no reason 987"),
        (lambda _, proposal: proposal.transaction.release(0), "job 0 would wait, and its reason is PLACED"),
        (
            writes(reasons=[0]),
            "reasons: allowed: an array of integer numbers, one for each of 1 job, not list",
        ),
        (writes(reasons=np.zeros(0, np.int64)), r"one for each of 1 job, not int64 of shape \(0,\)"),
        (writes(next_wake=nan), "next_wake: found nan; allowed: a number"),
        (writes(next_wake="soon"), "next_wake: found 'soon'; allowed: a number"),
        (writes(stable_until=nan), "stable_until: found nan; allowed: a number"),
        (writes(lease_ends={0: None}), "the end of the lease of job 0: found None; allowed: a number"),
        (writes(lease_ends={2: 5.0}), r"a lease for jobs that it was not asked about: \[2\]"),
        (writes(cancelled=(9999,)), r"it cancels jobs that it was not asked about: \[9999\]"),
        (writes(ranked=np.array([1])), "ranked: allowed: positions of 1 job"),
        (writes(notes="word"), "notes have to be sentences"),
        (
            writes(value=5.0, bound=1.0),
            "value: found 5; allowed: at most the bound of the decision, which is 1",
        ),
        (writes(value=0.0, bound=-2.0), "value: found 0; allowed: at most the bound .*, which is -2"),
    ],
)
@pytest.mark.parametrize("certify", [False, True])
def test_a_wrong_decision_is_refused(change: Change, said: str, certify: bool) -> None:
    with pytest.raises(PlanRefused, match=f"first-node: .*{said}"):
        run(JOBS, cluster_of(4), FirstNode(change), certify=certify)


@pytest.mark.parametrize(
    "figures",
    [
        {"value": 3.0, "bound": 3.0},
        {"value": 3.0 + 1e-9, "bound": 3.0},
        {"value": 3.0, "bound": float("inf")},
        {"value": 3.0},
        {"bound": 3.0},
        {"value": -3.0, "bound": -2.0},
    ],
)
def test_a_value_up_to_its_bound_is_taken(figures: dict[str, float]) -> None:
    assert column(run(JOBS, cluster_of(4), FirstNode(writes(**figures))), "start_seconds") == [0, 10, 500]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (lambda decision, state: None, "NoneType"),
        (lambda decision, state: decision, "Decision"),
        (lambda decision, state: (decision, state, 1), "Decision, NoneType, int"),
        (lambda decision, state: ({}, state), "dict, NoneType"),
    ],
)
@pytest.mark.parametrize("certify", [False, True])
def test_an_answer_that_is_none_is_refused(
    answer: Callable[[Any, State], Any], found: str, certify: bool
) -> None:
    with pytest.raises(InputError, match=rf"found '?\(?{found}\)?'?; allowed: a Decision and the next state"):
        run(JOBS, cluster_of(4), FirstNode(answer=answer), certify=certify)


def test_a_node_that_a_job_may_not_use_is_refused() -> None:
    bound = jobs_of(job(0, 100, gpus=2, constraint="gpu_type=a100"))
    cluster = parse_cluster("1x4v100+1x4a100")
    with pytest.raises(PlanRefused, match=r"job 0 would be on node .*; allowed: nodes of its constraint"):
        run(bound, cluster, FirstNode())


def test_a_job_may_stay_where_it_was_allowed_to_be() -> None:
    """Its node has lost a label while it runs: other cores there are no new place."""
    given = round_of(cluster_of(2, 2), [("resnet18", 1)])
    given.snapshot.ledger.put(0, [NodeAllocation(0, (0,), cpus=2.0)])
    given.snapshot.ledger.books.totals[ENTRIES] = 0
    given.snapshot.table.node_allowed[:, 0] = False
    for node, refused in ((0, False), (1, True)):
        given.snapshot.table.node_allowed[:, 1] = not refused
        with given.snapshot.transaction() as transaction:
            transaction.put(0, [NodeAllocation(node, (0,), cpus=1.0)])
            decision = Proposal.blank(transaction, 1).decision()
        with pytest.raises(ValueError, match="would be on node node1") if refused else nullcontext():
            check_decision(decision, given.snapshot)


def test_changes_of_another_kind_are_refused() -> None:
    answer = FirstNode(answer=lambda decision, state: (decision._replace(changes={}), state))
    with pytest.raises(PlanRefused, match="changes: found dict; allowed: those of a transaction"):
        run(JOBS, cluster_of(4), answer)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gpu_ids": (1, 1)}, "gpu_ids: found"),
        ({"gpu_ids": (-1,)}, "gpu_ids: found"),
        ({"gpu_ids": (70,)}, "gpu_ids: found"),
        ({"cpus": -3.0}, "cpus: found -3.0; allowed: a number from 0 on"),
        ({"memory_gb": nan}, "memory_gb: found nan"),
        ({"storage_gb_per_s": float("inf")}, "storage_gb_per_s: found inf"),
        ({"milli": 0}, "milli: found 0; allowed: 1 to 1000"),
        ({"milli": 2000}, "milli: found 2000"),
        ({"role": 7}, "role: found 7"),
        ({"node": 0.7}, "node: found 0.7; allowed: the number of a node"),
        ({"further": (1.0,) * 9}, "further: found"),
    ],
)
def test_what_no_node_could_hold_is_refused(fields: dict[str, Any], said: str) -> None:
    ledger = Ledger(cluster_of(4), 3)
    with Transaction(ledger) as transaction, pytest.raises(ValueError, match=said):
        transaction.put(0, [replace(NodeAllocation(0, (0,)), **fields)])
    assert not ledger.holds(0)


@pytest.mark.parametrize("number", [-1, 3, 9999])
def test_a_job_that_there_is_not_is_refused(number: int) -> None:
    with Transaction(Ledger(cluster_of(4), 3)) as transaction:
        with pytest.raises(ValueError, match=f"there is no job {number}; allowed: 0 to 2"):
            transaction.put(number, [NodeAllocation(0, (0,))])
        with pytest.raises(ValueError, match=f"there is no job {number}"):
            transaction.release(number)
        transaction.put(0, [NodeAllocation(0, (0,))])
        changes = transaction.take_changes()
        with pytest.raises(ValueError, match=f"there is no job {number}"):
            transaction.try_out(changes._replace(jobs=np.array([number])))
