"""tune, tune-plus and opt beside running jobs that keep their GPUs: no newcomer is crowded onto a busy machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.papers.synergy.running_jobs_stay import SETTINGS, TOLERANCE, Setting
from muster.cluster.shipped import parse_cluster
from muster.schedulers.allocation.tune_plus import TunePlus
from muster.workload.generators.synergy import generate
from muster.workload.jobs import RUNNING
from muster.workload.trace import Trace
from tests.building import cluster_of, column, jobs_of, run
from tests.schedulers.synergy_cases import Round, allocate, random_round, servers, total_speed, tried
from tests.schedulers.test_synergy_guarantee import GUARANTEED, check_round

ALLOCATIONS = ["tune", "tune-plus", "opt"]
JOBS = 80


def four_jobs() -> Trace:
    """Two alexnets, which gain from CPUs, and two gnmts, which do not."""
    models = ((0, "alexnet", 5000), (1, "gnmt", 50_000), (2, "gnmt", 50_000), (100, "alexnet", 5000))
    return jobs_of(
        *(
            {"submit_seconds": submit, "gpus": 1, "model": model, "iterations": iterations}
            for submit, model, iterations in models
        )
    )


@pytest.mark.parametrize("preemptive", ["false", "true"])
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_a_newcomer_goes_to_an_empty_machine(allocation: str, preemptive: str) -> None:
    """All four can have all that they want: an alexnet then takes 5000 iterations at 2.94 times its reference."""
    result = run(four_jobs(), servers(4), f"fifo+{allocation}", {"preemptive": preemptive})
    assert column(result, "jct_seconds") == pytest.approx([1020.408, 6000, 6000, 1020.408], abs=0.001)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_fifo_is_no_slower_than_the_published_tune(setting: Setting) -> None:
    """With its defaults, on a short stretch of the cells of `muster reproduce synergy`."""
    trace = generate(JOBS, setting.load, setting.split, setting.gangs, seed=1)
    cluster = parse_cluster(setting.cluster)
    published, *ours = (
        float(np.mean(column(run(trace, cluster, f"fifo+{allocation}"), "jct_seconds")))
        for allocation in ("tune-published", *ALLOCATIONS[:2])
    )
    assert max(ours) <= TOLERANCE * published


@settings(max_examples=60, deadline=None)
@given(case=random_round(), running=st.integers(1, 10))
def test_promises_beside_running_jobs(case: Round, running: int) -> None:
    """Running jobs keep their GPUs; opt >= tune-plus >= tune in speed, and no job is below its fair speed."""
    snapshot = case.snapshot
    first = np.arange(min(running, len(snapshot.jobs)))
    among_first = np.isin(case.ranked, first)
    allocate(TunePlus(), replace(case, ranked=first, chosen=case.chosen & among_first))
    runs = snapshot.ledger.books.heads[snapshot.jobs.index] >= 0
    snapshot.table.facts["state"][runs] = RUNNING
    later = replace(case, ranked=np.flatnonzero(~runs))
    places = [_places(case, at) for at in range(len(runs))]
    totals = []
    for allocator in GUARANTEED:
        with tried(allocator, later) as plan:
            check_round(later, plan.reasons)
            assert all(_places(case, at) == places[at] for at in np.flatnonzero(runs).tolist())
            totals.append(total_speed(later))
    assert totals == pytest.approx(sorted(totals), rel=1e-6)


def _places(case: Round, at: int) -> list[tuple[int, tuple[int, ...]]]:
    return [(share.node, share.gpu_ids) for share in case.snapshot.ledger.holding(at)]


def test_a_gang_gives_up_what_a_newcomer_needs() -> None:
    """A gang on two machines holds all their memory; a newcomer still gets its share of one."""
    cluster = cluster_of(4, 4)
    jobs = jobs_of(
        {"submit_seconds": 0.0, "gpus": 6, "model": "deepspeech", "iterations": 50_000},
        {"submit_seconds": 100.0, "gpus": 1, "model": "m5", "iterations": 1000},
    )
    result = run(jobs, cluster, "fifo+tune-plus")
    assert column(result, "wait_seconds") == [0, 0]
    assert min(column(result, "min_speedup_vs_fair_share")) >= 1 - 1e-9
