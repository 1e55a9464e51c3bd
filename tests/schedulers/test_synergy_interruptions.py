"""tune, tune-plus and opt change running jobs only where it pays: no stop in vain, no move that is not repaid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.cluster.ledger import NodeAllocation
from muster.schedulers.allocation.opt import Opt
from muster.schedulers.allocation.tune import Tune
from muster.schedulers.allocation.tune_plus import TunePlus
from muster.schedulers.interruption import WORK_PER_INTERRUPTION
from muster.schedulers.parts import GangAllocator
from muster.simulation import Run
from muster.workload.generators.synergy import generate
from muster.workload.jobs import RUNNING
from tests.building import cluster_of, column, hold, job, jobs_of, run
from tests.schedulers.synergy_cases import Round, allocate, round_of, servers

ORDERS = ["fifo", "fifo-strict", "srtf-speed", "las", "tetris", "drf-static"]
RESTART = 60.0


def a_run(order: str, allocation: str, seed: int, cost: float, resize_restarts: bool = False) -> Run:
    """Some gangs and single GPUs on two servers, where they queue; running jobs compete."""
    trace = generate(20, load_per_hour=2.0, split=(50, 30, 20), multi_gpu=True, static=True, seed=seed)
    given_ = {"preemptive": "true"} | ({"exact_variables": "0"} if allocation == "opt" else {})
    return run(
        trace,
        servers(2),
        f"{order}+{allocation}",
        given_,
        round_seconds=300.0,
        restart_cost_seconds=cost,
        resize_restarts=resize_restarts,
    )


def stretches(result: Run) -> Iterator[list[tuple[float, float, frozenset[tuple[str, int]], float]]]:
    """For each job what it held: from, to, GPUs, CPUs; one entry for each allocation, in time."""
    held = result.record.allocations.sort("job_id", "from_seconds", "node")
    for _, of_job in groupby(held.iter_rows(named=True), key=lambda row: row["job_id"]):
        entries = []
        for begin, rows in groupby(of_job, key=lambda row: row["from_seconds"]):
            shares = list(rows)
            gpus = frozenset((row["node"], gpu) for row in shares for gpu in row["gpu_ids"])
            entries.append((begin, shares[0]["to_seconds"], gpus, sum(row["cpus"] for row in shares)))
        yield entries


@settings(max_examples=25, deadline=None)
@given(
    order=st.sampled_from(ORDERS),
    allocation=st.sampled_from(["tune", "tune-plus", "opt"]),
    seed=st.integers(0, 50),
    cost=st.sampled_from([0.0, RESTART]),
)
def test_no_job_is_stopped_in_vain(order: str, allocation: str, seed: int, cost: float) -> None:
    """Of the GPUs that a stopped job held, another job holds one at once."""
    result = a_run(order, allocation, seed, cost)
    everything = [entry for entries in stretches(result) for entry in entries]
    last = dict(result.record.jobs.select("job_id", "finish_seconds").rows())
    ends = set(last.values())
    for entries in stretches(result):
        resumed = {begin for begin, *_ in entries}
        for _, end, gpus, _ in entries:
            if end not in resumed and end not in ends:
                assert any(other[0] <= end < other[1] and other[2] & gpus for other in everything)


@settings(max_examples=25, deadline=None)
@given(
    order=st.sampled_from(ORDERS),
    allocation=st.sampled_from(["tune", "tune-plus", "opt"]),
    seed=st.integers(0, 50),
    resize_restarts=st.booleans(),
)
@example(order="fifo-strict", allocation="tune", seed=0, resize_restarts=True)
def test_protected_jobs_are_left_alone(order: str, allocation: str, seed: int, resize_restarts: bool) -> None:
    """Not stopped, not moved, and not resized where that restarts them, until they worked 12 times the cost."""
    result = a_run(order, allocation, seed, RESTART, resize_restarts)
    finish = set(result.record.jobs["finish_seconds"].to_list())
    for entries in stretches(result):
        began, lost = entries[0][0], 0.0
        for (_, end, gpus, cpus), following in pairwise([*entries, (np.inf, np.inf, frozenset(), 0.0)]):
            same_gpus = following[0] == end and following[2] == gpus
            if same_gpus and (following[3] == cpus or not resize_restarts):
                continue
            if end not in finish:
                assert end - began >= lost + WORK_PER_INTERRUPTION * RESTART - 1e-6
            began, lost = following[0], RESTART


def crowded() -> Round:
    """Eight jobs that want CPUs on one server, eight that do not on another; all run and may be interrupted."""
    hungry, content = [("alexnet", 1)] * 8, [("gnmt", 1)] * 8
    case = round_of(servers(2), hungry + content)
    for at in range(16):
        shares = [NodeAllocation(at // 8, (at % 8,), cpus=3.0, memory_gb=62.5, storage_gb_per_s=0.0625)]
        hold(case.snapshot.ledger, at, shares)
    facts = case.snapshot.table.facts
    facts["state"] = RUNNING
    facts["held"] = 1.0
    facts["resumes"] = facts["last_start"] = -1e9
    return case


@pytest.mark.parametrize("allocator", [Tune(), TunePlus(), Opt(exact_variables=0)], ids=lambda one: one.name)
@pytest.mark.parametrize(("cost", "moves"), [(0.0, True), (60.0, True), (36_000.0, False)])
def test_a_move_must_repay_itself(allocator: GangAllocator, cost: float, moves: bool) -> None:
    """Apart, alexnets go about 1.5 times as fast: worth a minute of start-up for some, not ten hours."""
    case = crowded()
    case.snapshot.table.facts["restart_cost"] = cost
    where = [case.snapshot.ledger.holding(at)[0].node for at in range(16)]
    allocate(allocator, case)
    assert moves == (where != [case.snapshot.ledger.holding(at)[0].node for at in range(16)])


@pytest.mark.parametrize(
    ("cost", "cpus"), [(0.0, 12.0), (60.0, 12.0), (36_000.0, 10.0)], ids=["free", "a minute", "ten hours"]
)
def test_a_resize_that_restarts_must_repay_itself(cost: float, cpus: float) -> None:
    """An alexnet with 10 of 24 CPUs is 1.27 times as fast with 12."""
    case = round_of(servers(1), [("alexnet", 1)])
    hold(
        case.snapshot.ledger,
        0,
        [NodeAllocation(0, (0,), cpus=10.0, memory_gb=125.0, storage_gb_per_s=0.0625)],
    )
    facts = case.snapshot.table.facts
    facts["state"], facts["held"], facts["restart_cost"] = RUNNING, 1.0, cost
    facts["resumes"] = facts["last_start"] = -1e9
    snapshot = replace(case.snapshot, resize_restarts=True)
    allocate(TunePlus(), replace(case, snapshot=snapshot, ranked=np.zeros(0, np.int64)))
    assert snapshot.ledger.holding(0)[0].cpus == cpus


@pytest.mark.parametrize("allocator", [Tune(), TunePlus(), Opt(exact_variables=0)], ids=lambda one: one.name)
def test_newcomers_use_what_protected_jobs_leave(allocator: GangAllocator) -> None:
    """A resize would restart the job with 16 of 24 CPUs; the alexnet beside it has use for 12, and gets 3 to 8."""
    case = round_of(servers(1), [("alexnet", 1)] * 2)
    hold(
        case.snapshot.ledger,
        0,
        [NodeAllocation(0, (0,), cpus=16.0, memory_gb=125.0, storage_gb_per_s=0.0625)],
    )
    facts = case.snapshot.table.facts
    facts["state"][0], facts["held"][0], facts["restart_cost"][0] = RUNNING, 1.0, 36_000.0
    snapshot = replace(case.snapshot, resize_restarts=True)
    assert snapshot.jobs.pinned.tolist() == [True, False]
    allocate(allocator, replace(case, snapshot=snapshot))
    assert [share.cpus for share in snapshot.ledger.holding(0)] == [16.0]
    assert [3.0 <= share.cpus <= 8.0 for share in snapshot.ledger.holding(1)] == [True]


def test_who_waits_for_protected_cpus_is_served_when_it_may_be() -> None:
    """The alexnet gives one of its 12 CPUs at 3600, works again at 3660, and is left alone 720 s."""
    jobs = jobs_of(
        job(0, 20_000, model="alexnet"), job(3600, 60_000, model="gnmt"), job(3700, 600, model="resnet50")
    )
    result = run(jobs, cluster_of(4), "fifo+tune-plus", restart_cost_seconds=RESTART, resize_restarts=True)
    assert column(result, "wait_seconds") == pytest.approx([0, 0, 680])
