"""Gangs under the schedulers that count workers and servers: one size each, beside jobs that are sized."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.papers.synergy.random_mixes import all_at_once
from muster.problems import InputError
from muster.schedulers.admission.knapsack import FAST, SolverEffort, choose
from muster.schedulers.reasons import GPU_NOT_PARTED, PLACED
from muster.schedulers.registry import build
from tests.building import cluster_of, column, finishes, jobs_of, run
from tests.schedulers.knapsack_cases import smd_columns, smd_jobs
from tests.schedulers.smd_cases import FIELD, machines, sized_job

ITERATIONS = 100.0


def gang(gpus: int, priority: float, **more: Any) -> dict[str, Any]:
    """All finish in time, so that a gang's worth is nearly its priority."""
    utility = {
        "utility_priority": priority,
        "utility_urgency_per_hour": 1.0,
        "utility_target_seconds": 1e6,
    }
    return (
        {"submit_seconds": 0.0, "gpus": gpus, "model": "resnet50", "iterations": ITERATIONS} | utility | more
    )


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 50)), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_the_gangs_that_start_first_are_worth_most_together(wanted: list[tuple[int, int]]) -> None:
    """Against all subsets, on one machine of eight GPUs."""
    rows = jobs_of(*(gang(gpus, float(priority)) for gpus, priority in wanted))
    result = run(rows, cluster_of(8), "smd", {"objective": "published", "interval_seconds": "1000000"})
    started = [at == 0.0 for at in column(result, "start_seconds")]
    best = max(
        sum(priority for _, priority in chosen)
        for count in range(len(wanted) + 1)
        for chosen in combinations(wanted, count)
        if sum(gpus for gpus, _ in chosen) <= 8
    )
    reached = sum(priority for (_, priority), at_once in zip(wanted, started, strict=True) if at_once)
    assert reached == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("name", FIELD)
def test_gangs_servers_and_rings_run_beside_each_other(name: str) -> None:
    ring = sized_job(sync="ring", servers=None, server_cpus=None, server_memory_gb=None)
    plain = {"submit_seconds": 0.0, "gpus": 3, "model": "resnet50", "iterations": ITERATIONS}
    rows = jobs_of(plain | {"cpus": 6.0}, ring, sized_job(), gang(6, 5.0), gang(2, 5.0, submit_seconds=50.0))
    result = run(rows, machines(3), name, {"interval_seconds": "300"}, restart_cost_seconds=10)
    assert result.unfinished == 0 or name == "oasis"
    held = result.record.allocations
    gpus = held.group_by("job_id", "from_seconds").agg(pl.col("gpus").sum())
    for job, whole in (("0", 3), ("3", 6), ("4", 2)):
        assert set(gpus.filter(job_id=job)["gpus"]) <= {whole}
    assert (held.filter(job_id="0")["cpus"] == 2.0 * held.filter(job_id="0")["gpus"]).all()


def test_a_gang_alone_runs_at_its_own_pace() -> None:
    plain = {"submit_seconds": 0.0, "gpus": 4, "model": "resnet50", "iterations": ITERATIONS}
    for cluster in (cluster_of(4), cluster_of(8, 8)):
        assert finishes(run(jobs_of(plain), cluster, "smd")) == finishes(run(jobs_of(plain), cluster, "fifo"))


def test_a_gang_is_believed_to_be_as_fast_as_it_is() -> None:
    """Without a utility it is worth 1 / (1 + hours), and a thousandth of that for progress."""
    plain = {"submit_seconds": 0.0, "gpus": 4, "model": "resnet50", "iterations": 50_000.0}
    result = run(jobs_of(plain), cluster_of(4), "smd", {"objective": "published"})
    (done,) = finishes(result)
    assert done is not None
    assert result.record.decisions["value"][0] == pytest.approx(1.001 / (1 + done / 3600))


def test_a_share_of_a_gpu_is_refused_by_name() -> None:
    rows = jobs_of(
        {"submit_seconds": 0.0, "gpus": 1, "gpu_milli": 500, "model": "resnet50", "iterations": 1.0}
    )
    with pytest.raises(
        InputError, match=r"gpu_milli: found 500; allowed: 1000, a whole GPU; job 0 asks .* scheduler smd "
    ):
        run(rows, cluster_of(1), "smd")


@pytest.mark.parametrize("name", FIELD)
def test_a_share_of_a_gpu_among_living_jobs_waits_and_says_why(name: str) -> None:
    """A daemon may find one in its queue that came under another scheduler."""
    share = {"submit_seconds": 0.0, "gpus": 1, "gpu_milli": 500, "model": "resnet50", "iterations": 9.0}
    plain = {"submit_seconds": 0.0, "gpus": 3, "model": "resnet50", "iterations": ITERATIONS}
    cluster, scheduler = cluster_of(4), build(name)
    snapshot = all_at_once(jobs_of(plain, share, plain | {"gpus": 1}), cluster)
    plan, _ = scheduler.decide(snapshot, scheduler.initial(cluster))
    assert plan.reasons.tolist() == [PLACED, GPU_NOT_PARTED, PLACED]
    only = all_at_once(jobs_of(share), cluster)
    assert scheduler.decide(only, scheduler.initial(cluster))[0].reasons.tolist() == [GPU_NOT_PARTED]


def test_a_search_out_of_time_says_so_and_keeps_the_best() -> None:
    columns, capacity = smd_columns(*smd_jobs(40, most=12))
    fast = choose(columns, capacity, FAST)
    cut = choose(columns, capacity, SolverEffort(gap=0.0, nodes=1_000_000, seconds=1e-9))
    assert cut.out_of_time
    assert fast.value <= cut.value <= cut.bound <= fast.bound * (1 + 1e-12)
    usage = columns.usage[cut.chosen[cut.chosen >= 0]].sum(axis=0)
    assert (usage <= capacity * (1 + 1e-6)).all()
    assert not fast.out_of_time
    assert not choose(columns, capacity, SolverEffort(nodes=1)).out_of_time


def test_the_plan_notes_that_time_ran_out_with_its_gap() -> None:
    rng = np.random.default_rng(3)
    rows = jobs_of(*(gang(int(rng.integers(3, 8)), float(rng.uniform(1, 9))) for _ in range(30)))
    hurried = {"nodes": "100000", "solver_seconds": "1e-9", "interval_seconds": "1000000"}
    notes = run(rows, cluster_of(*[8] * 6), "smd", hurried).record.run["trace"]["notes"]
    assert any(
        "smd: out of time after 1e-09 s" in note and "below the best there is" in note for note in notes
    )
    calm = run(rows, cluster_of(*[8] * 6), "smd", {"interval_seconds": "1000000"})
    assert not any("out of time" in note for note in calm.record.run["trace"]["notes"])
