"""joint leaves all as it is where no job waits and none would be faster, and then does as if it had looked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.runtime.records import TABLES
from muster.schedulers.allocation.gangs import gangs_of
from muster.schedulers.contract import Proposal, Snapshot
from muster.schedulers.joint.joint import Joint
from muster.schedulers.joint.nothing_to_gain import nothing_to_gain
from muster.service.learned_sizes import LearnedSizes
from muster.simulation import Run
from muster.workload.generators.synergy import generate
from muster.workload.jobs import RUNNING, WAITING
from muster.workload.sized import RING
from tests.building import cluster_of, hold, jobs_of, run
from tests.schedulers.synergy_cases import round_of
from tests.schedulers.test_dally_network import CHATTY, gang, small_cluster
from tests.simulation.cases import Case, simulated
from tests.simulation.random_runs import case_of


def quiet_case(number: int) -> Case:
    """A random run in which jobs come seldom; in half of them no job has a choice of size or a part of a GPU."""
    case, chance = case_of(number), Random(number)
    rows = [dict(row, deadline_seconds=None) for row in case.rows]
    for row in rows:
        row["submit_seconds"] *= chance.choice([1, 4, 10])
        if number % 2:
            whole = max(row["gpus"], 1)
            row |= {"gpu_milli": 1000, "gpus": whole, "min_gpus": whole, "max_gpus": whole}
    order = chance.choice(["fifo", "las", "gittins", "srtf", "2d-las"])
    rows.sort(key=lambda row: row["submit_seconds"])
    return replace(case, rows=rows, scheduler=f"{order}+joint", settings={})


def scarce_case(gangs: bool) -> Run:
    """A load at which the queue is empty at times, and half of the cores that the jobs can use."""
    trace = generate(80, 2.0, (50, 0, 50), gangs, False, 5)
    return run(trace, cluster_of(8, 8, cpus_per_gpu=1.5), "fifo+joint")


def spread_case() -> Run:
    """The third gang starts on both machines, and comes together once the first has ended; these two may not move."""
    gangs = [
        gang(gpus, work, model="chatty", submit_seconds=at, preemptible=at == 2)
        for at, (gpus, work) in enumerate([(3, 600), (3, 90_000), (2, 60_000)])
    ]
    return run(jobs_of(*gangs), small_cluster(4, 2), "las+joint", layers={"chatty": CHATTY})


def test_what_it_leaves_is_what_it_would_have_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Joint.settle
    answers: Counter[bool] = Counter()

    def counted(self: Joint, snapshot: Snapshot, proposal: Proposal) -> bool:
        answer = settle(self, snapshot, proposal)
        answers[answer] += 1
        return answer

    def all_tables() -> list[list[str]]:
        quiet = [tables(simulated(quiet_case(number))) for number in range(28) if number % 10 < 9]
        return [*quiet, *map(tables, (scarce_case(False), scarce_case(True), spread_case()))]

    monkeypatch.setattr(Joint, "settle", counted)
    settled = all_tables()
    monkeypatch.setattr(Joint, "settle", lambda *_: False)
    assert all_tables() == settled
    assert answers[True] > 50
    assert answers[False] > 50


def tables(result: Run) -> list[str]:
    """All but the decisions: a job that may be interrupted from now on is no reason for another one then."""
    names = [name for name in TABLES if name != "decisions"]
    return [repr(getattr(result.record, name).to_dict(as_series=False)) for name in names]


@pytest.mark.parametrize(
    ("model", "held", "may_move", "answer"),
    [
        ("resnet18", {0: 6.0}, False, True),
        ("resnet18", {0: 5.0}, False, False),
        ("resnet18", {0: 6.0}, True, False),
        ("resnet18", {1: 9.0}, True, True),
        ("resnet18", {1: 9.0, 2: 9.0}, False, True),
        ("resnet18", {1: 9.0, 2: 8.0}, False, False),
        ("resnet18", {0: 3.0, 1: 9.0}, False, False),
        ("resnet18", {0: 3.0, 3: 3.0}, False, False),
        ("unknown", {0: 3.0}, True, True),
        ("unknown", {0: 2.0}, True, False),
    ],
)
def test_a_job_that_could_use_more_is_seen(
    model: str, held: dict[int, float], may_move: bool, answer: bool
) -> None:
    """ResNet-18 can use 9 cores and 62.5 GB for each GPU; the first and the last node have 6 cores, the others 24.

    A model of which nothing is known is to have its share, which is 3 cores of the first node.
    """
    poor, rich = (cluster_of(2, 2, 2, 2, cpus_per_gpu=cpus) for cpus in (3.0, 12.0))
    cluster = replace(poor, nodes=(poor.nodes[0], *rich.nodes[1:3], poor.nodes[3]))
    snapshot = round_of(cluster, [(model, len(held))]).snapshot
    places = [
        NodeAllocation(node, (0,), cpus=cpus, memory_gb=62.5, storage_gb_per_s=0.0625)
        for node, cpus in held.items()
    ]
    hold(snapshot.ledger, 0, places)
    assert nothing_to_gain(snapshot.ledger.books, snapshot.jobs.index, gangs_of(snapshot), may_move) is answer


@pytest.mark.parametrize("unlike", ["sync", "size speeds", "waits"])
def test_what_others_may_gain_is_left_to_a_plan(unlike: str) -> None:
    """A job whose servers a scheduler counts, speeds that are learned, and a job that waits."""
    snapshot = round_of(cluster_of(2), [("unknown", 1)]).snapshot
    hold(snapshot.ledger, 0, [NodeAllocation(0, (0,), cpus=3.0, memory_gb=62.5, storage_gb_per_s=0.0625)])
    asked, facts = snapshot.table.asked, snapshot.table.facts
    facts["state"] = RUNNING
    with snapshot.transaction() as transaction:
        proposal = Proposal.blank(transaction, 1)
        assert Joint().settle(snapshot, proposal)
        if unlike == "sync":
            asked["sync"] = RING
        elif unlike == "waits":
            facts["state"] = WAITING
        else:
            snapshot = replace(snapshot, size_speeds=LearnedSizes())
        assert not Joint().settle(snapshot, proposal)
