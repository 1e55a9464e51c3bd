"""joint chooses how many GPUs elastic jobs have, against closed forms and an exact program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.schedulers.joint.sizes import SizeOptions, best_sizes
from muster.simulation import Run
from muster.workload.models import Compute
from muster.workload.trace import Trace
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.test_node_amounts import by_cpus

FIXED = replace(by_cpus("fixed", {1: 1.0}), compute=Compute(48.0, None))
MODELS = {"fixed": FIXED}
ELASTIC: dict[str, Any] = {"gpus": 2, "min_gpus": 1, "max_gpus": 8}


def sizes_of(result: Run, job_id: str) -> list[float]:
    """The GPUs of a job, one number for each time that it holds something else."""
    held = result.record.allocations.filter(pl.col("job_id") == job_id)
    at_once = held.group_by("from_seconds").agg(pl.col("gpus").sum()).sort("from_seconds")
    sizes = at_once["gpus"].to_list()
    return [size for at, size in enumerate(sizes) if at == 0 or size != sizes[at - 1]]


def finished(result: Run) -> list[float]:
    """When the jobs ended, in their order."""
    return result.record.jobs["finish_seconds"].to_list()


def test_a_job_alone_has_as_many_gpus_as_it_can_use() -> None:
    """Compute is in proportion to the samples of a GPU: on eight GPUs in place of two it takes a quarter."""
    result = run(jobs_of(job(0, 400, **ELASTIC)), cluster_of(8), "fifo+joint")
    assert sizes_of(result, "0") == [8]
    assert finished(result) == [100.0]


def test_running_jobs_shrink_for_newcomers_that_repay() -> None:
    """Three fifths of a pass take as long with few samples as with many: small gangs do more in all."""
    trace = jobs_of(*(job(1_000.0 * at, 500_000, model="fixed", **ELASTIC) for at in range(5)))
    result = run(trace, cluster_of(8, 8), "las+joint", models=MODELS, restart_cost_seconds=60.0)
    held = result.record.allocations.filter(
        (pl.col("from_seconds") <= 5_000) & (pl.col("to_seconds") > 5_000)
    )
    assert held["job_id"].n_unique() == 5
    assert held["gpus"].sum() == 16


def test_a_running_job_keeps_its_size_where_a_restart_costs_more() -> None:
    """It runs on eight GPUs when another comes; a restart would cost two hours."""
    trace = jobs_of(job(0, 40_000, **ELASTIC), job(100, 400, **ELASTIC))
    result = run(trace, cluster_of(8), "fifo+joint", {"preemptive": "true"}, restart_cost_seconds=7_200.0)
    assert sizes_of(result, "0") == [8]


def test_an_elastic_job_grows_as_soon_as_others_end() -> None:
    """It has worked longer than a restart costs; a rigid job could not be interrupted for twelve times that."""
    trace = jobs_of(job(0, 200, gpus=2), job(0, 20_000, **ELASTIC))
    result = run(trace, cluster_of(8), "las+joint", restart_cost_seconds=60.0)
    grown = result.record.allocations.filter((pl.col("job_id") == "1") & (pl.col("gpus") == 8))
    assert sizes_of(result, "1") == [6, 8]
    assert grown["from_seconds"].to_list() == [200.0]


def test_a_rigid_job_has_what_it_asks_for() -> None:
    result = run(jobs_of(job(0, 400, gpus=2), job(0, 400, **ELASTIC)), cluster_of(8), "fifo+joint")
    assert sizes_of(result, "0") == [2]
    assert sizes_of(result, "1") == [6]


def elastic_trace(draw: st.DrawFn) -> Trace:
    """Some jobs of random bounds."""
    rows = []
    for at in range(draw(st.integers(1, 8))):
        least = draw(st.integers(1, 4))
        gpus = draw(st.integers(least, 8))
        most = draw(st.integers(gpus, 12))
        rows.append(
            job(
                at * draw(st.sampled_from([0.0, 50.0])),
                400,
                gpus=gpus,
                min_gpus=least,
                max_gpus=most,
                model="resnet18",
            )
        )
    return jobs_of(*rows)


@given(st.data(), st.sampled_from(["fifo", "las", "srtf"]), st.sampled_from([0.0, 30.0]))
@settings(deadline=None, max_examples=40)
def test_every_size_is_within_the_bounds_of_its_job(data: st.DataObject, order: str, cost: float) -> None:
    trace = data.draw(st.composite(elastic_trace)())
    result = run(trace, cluster_of(8, 4), f"{order}+joint", restart_cost_seconds=cost)
    assert result.unfinished == 0
    held = result.record.allocations.group_by("job_id", "from_seconds").agg(pl.col("gpus").sum())
    bounds = trace.jobs.select("job_id", "min_gpus", "max_gpus")
    both = held.join(bounds, on="job_id")
    assert ((both["gpus"] >= both["min_gpus"]) & (both["gpus"] <= both["max_gpus"])).all()


@given(
    st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=5), min_size=1, max_size=6), st.integers(0, 24)
)
@settings(deadline=None, max_examples=300)
def test_concave_jobs_get_the_most_worth_for_all_gpus(gains: list[list[int]], gpus: int) -> None:
    """Each further GPU gains less: the exact program takes the largest gains, and so must the prices."""
    falling = [np.sort(rows)[::-1] + np.arange(len(rows))[::-1] * 1e-6 for rows in map(np.array, gains)]
    at = np.repeat(np.arange(len(gains)), list(map(len, gains)))
    sizes = np.concatenate([np.arange(1, len(rows) + 1) for rows in gains])
    worth = np.concatenate([np.cumsum(rows) for rows in falling])
    taken = best_sizes(SizeOptions(at, sizes, worth), gpus)
    assert sizes[taken].sum() <= gpus
    assert len(set(at[taken].tolist())) == len(taken)
    best = np.sort(np.concatenate(falling))[::-1][:gpus].sum()
    assert worth[taken].sum() >= best - 1e-4 * max(best, 1)
