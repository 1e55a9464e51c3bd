"""Each job's slowest moment in the record, against hand-worked speeds and a plain walk over the allocations."""

from __future__ import annotations

import polars as pl
import pytest

from muster.report import summarise
from muster.report.notes import notes
from muster.simulation import Run
from muster.workload.generators.synergy import generate
from muster.workload.models import synergy_models
from tests.building import cluster_of, column, finishes, job, jobs_of, run
from tests.schedulers.synergy_cases import on_types, servers, typed
from tests.speed.test_input_pipeline import plain_seconds

SYNERGYS = synergy_models()


def of_moments(result: Run) -> list[list[float | None]]:
    return [
        list(column(result, name))
        for name in ("min_speedup_vs_fair_share", "min_speedup_vs_slowest_fair_share")
    ]


def test_what_owners_ask_for_may_be_less_than_the_share() -> None:
    """A resnet18 with 1 core and 62.5 GB runs at 0.37 of its speed with 3 cores; the other has its share."""
    both = jobs_of(job(0, 600, model="resnet18", cpus=1.0, memory_gb=62.5), job(0, 600, model="resnet18"))
    result = run(both, servers(1), "fifo+requested")
    assert of_moments(result) == [pytest.approx([0.37, 1.0])] * 2
    moment = summarise(result.record)["slowest_moment"]
    assert moment["of_share"] == pytest.approx(0.37)
    assert moment["jobs_below_share"] == 1
    said = notes(["it"], [summarise(result.record)], [result.record.run])
    assert any("0.37 times" in sentence and "(1 job below it)" in sentence for sentence in said)


def test_two_measures_where_machines_differ() -> None:
    """On an A100 three times as fast as on the K80's 0.4: its own share is 1, of the slowest it is 7.5."""
    cluster = typed(cluster_of(1, 1), ["a100", "k80"])
    flat = {"gnmt": on_types(SYNERGYS["gnmt"], {"a100": 3.0, "k80": 0.4})}
    free = jobs_of(job(0, 1200, model="gnmt"))
    pinned = jobs_of(job(0, 1200, model="gnmt", constraint="gpu_type=a100"))
    assert of_moments(run(free, cluster, "fifo+tune-plus", models=flat)) == [[1.0], pytest.approx([7.5])]
    assert of_moments(run(pinned, cluster, "fifo+tune-plus", models=flat)) == [[1.0], [1.0]]


def test_jobs_without_a_share_have_none() -> None:
    apart = jobs_of(job(0, 600, gpu_milli=500, model="resnet18"), job(0, 600, gpus=2, model="unheard-of"))
    result = run(apart, servers(1), "fifo+tune")
    assert of_moments(result) == [[None, 1.0]] * 2
    only_shares = run(jobs_of(job(0, 600, gpu_milli=500)), servers(1), "fifo")
    assert summarise(only_shares.record)["slowest_moment"]["of_share"] is None


@pytest.mark.parametrize(
    ("order", "preemptive"), [("fifo", "false"), ("fifo", "true"), ("srtf-speed", "true"), ("las", "true")]
)
@pytest.mark.parametrize(
    "allocation", ["proportional", "greedy", "tune-published", "tune", "tune-plus", "opt"]
)
def test_every_recorded_run_keeps_the_promise(order: str, allocation: str, preemptive: str) -> None:
    """Also where running jobs stay, whatever comes beside them; and the figure is that of the allocations."""
    # An exact plan for each of 60 jobs that may be moved takes ten times as long as for 30.
    jobs = 30 if (allocation, order, preemptive) == ("opt", "fifo", "true") else 60
    trace = generate(jobs, load_per_hour=6.0, split=(33, 33, 33), multi_gpu=True, seed=7)
    settings = {"preemptive": preemptive}
    if allocation == "opt":
        settings |= {"exact_variables": "300" if order == "fifo" else "0", "nodes": "20"}
    result = run(trace, servers(2), f"{order}+{allocation}", settings, round_seconds=300.0)
    assert None not in finishes(result)
    moment = summarise(result.record)["slowest_moment"]
    assert moment["jobs_below_share"] == moment["jobs_below_slowest_share"] == 0
    assert column(result, "min_speedup_vs_fair_share") == pytest.approx(plainly(result))


def plainly(result: Run) -> list[float]:
    """The least speed of each job by its matrix, on Synergy's servers, whose share is the reference."""
    by_job = dict(result.record.jobs.select("job_id", "model").iter_rows())
    rows = result.record.allocations.filter(pl.col("to_seconds") > pl.col("from_seconds"))
    least: dict[str, float] = {}
    for row in rows.iter_rows(named=True):
        model = SYNERGYS[by_job[row["job_id"]]]
        seconds = plain_seconds(model, row["cpus"] / row["gpus"], row["memory_gb"] / row["gpus"])
        speed = min(model.seconds_per_iteration / seconds, model.best_speed)
        least[row["job_id"]] = min(least.get(row["job_id"], speed), speed)
    return [least[str(number)] for number in sorted(map(int, least))]
