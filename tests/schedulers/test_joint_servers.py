"""Jobs with parameter servers under joint: their sizes, and what runs beside them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest

from muster.report import summarise
from muster.schedulers.registry import build
from muster.simulation import Options, Run, simulate
from muster.workload.models import synergy_models
from tests.building import column, finishes, jobs_of, run
from tests.schedulers.smd_cases import machines, sized_job, trace_of_seed

UNRATED = {"utility_priority": None, "utility_urgency_per_hour": None, "utility_target_seconds": None}
LASTING = {"utility_priority": 1000.0, "utility_urgency_per_hour": 0.1}
"""A high utility that hardly falls as time passes."""
FOUR_BESIDE_FOUR = machines(2, cpus=100.0, nic_gb_per_s=10.0)


def gang(gpus: int, hours: float) -> dict[str, Any]:
    """A job without servers, of so many hours on V100s."""
    seconds = synergy_models()["resnet18"].seconds_per_iteration
    return {"submit_seconds": 0.0, "gpus": gpus, "model": "resnet18", "iterations": hours * 3600 / seconds}


def held(result: Run, job: str, role: str) -> float:
    """Amounts of one job at its start: GPUs of its workers, or CPUs of its servers."""
    rows = result.record.allocations.filter((pl.col("job_id") == job) & (pl.col("role") == role))
    rows = rows.filter(pl.col("from_seconds") == rows["from_seconds"].min())
    return float(rows["gpus" if role == "worker" else "cpus"].sum())


def test_a_job_alone_has_its_fastest_workers_and_servers() -> None:
    """As under smd, with and without a utility; servers hold CPUs of their own."""
    for stated in ({}, UNRATED):
        trace = jobs_of(sized_job(**stated))
        ours, smd = (run(trace, machines(2), name) for name in ("gittins+joint", "smd"))
        assert finishes(ours) == finishes(smd) == pytest.approx(column(ours, "ideal_seconds"))
        assert held(ours, "0", "server") == held(smd, "0", "server") > 0


def test_all_gpus_are_used_where_jobs_want_more() -> None:
    """One machine of four GPUs for three jobs of up to four workers, and a network card for all their servers."""
    trace = jobs_of(*[sized_job(**UNRATED)] * 3)
    result = run(trace, machines(1, nic_gb_per_s=10.0), "gittins+joint")
    begun = result.record.allocations.filter(pl.col("from_seconds") == 0.0)
    assert begun.filter(pl.col("role") == "worker")["gpus"].sum() == 4


@pytest.mark.parametrize("scheduler", ["gittins+joint", "las+joint", "fifo+joint", "smd"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_idle_nodes_of_others_do_not_make_sizes_larger(scheduler: str, seed: int) -> None:
    """Jobs bound to two of four machines: sizes for all four would find no place on their own."""
    random, now, rows = Random(seed), 0.0, []
    for _ in range(14):
        now += random.expovariate(1 / 600)
        stated = {
            "submit_seconds": now,
            "iterations": float(random.randint(200, 4_000)),
            "constraint": "label=own",
        }
        rows.append(sized_job(**({} if scheduler == "smd" else UNRATED) | stated))
    mean_jct = []
    for labels in ((("own",),) * 2, (("own",), (), ("own",), ())):
        nodes = zip(machines(len(labels)).nodes, labels, strict=True)
        cluster = replace(machines(1), nodes=tuple(replace(node, labels=own) for node, own in nodes))
        result = run(jobs_of(*rows), cluster, scheduler, restart_cost_seconds=60.0)
        mean_jct.append(float(np.mean(column(result, "jct_seconds"))))
    assert mean_jct[1] <= 1.02 * mean_jct[0]


def test_gangs_run_beside_jobs_with_servers() -> None:
    """The gang was there first and keeps its GPUs; the first of the others starts at once, beside it."""
    trace = jobs_of(
        gang(2, 2),
        sized_job(submit_seconds=10.0, **UNRATED),
        sized_job(submit_seconds=20.0, **UNRATED),
    )
    result = run(trace, machines(1), "gittins+joint")
    assert result.unfinished == 0
    assert column(result, "moves")[0] == column(result, "preemptions")[0] == 0
    assert column(result, "start_seconds")[:2] == [0.0, 10.0]
    assert 0 < held(result, "1", "worker") <= 2


def test_a_running_gang_makes_room_for_what_is_worth_more() -> None:
    """All four GPUs run a gang that has had many hours; the job with servers is new, and first under las."""
    trace = jobs_of(gang(4, 100), sized_job(submit_seconds=100_000.0, iterations=20_000.0, **UNRATED))
    result = run(trace, machines(1), "las+joint", restart_cost_seconds=60.0)
    assert column(result, "start_seconds")[1] == 100_000.0
    assert column(result, "preemptions") == [1, 0]
    assert result.unfinished == 0


def test_utilities_count_as_much_as_under_smd() -> None:
    """Ten jobs an hour for a while, on machines that are short of GPUs."""
    gained = dict.fromkeys(("smd", "gittins+joint"), 0.0)
    for seed, name in product(range(2), gained):
        options = Options(restart_cost_seconds=30.0)
        ran = simulate(trace_of_seed(seed, 10, 10.0, ring=0.0), machines(3), build(name), options)
        gained[name] += summarise(ran.record)["utility"]["total"]
    assert gained["gittins+joint"] >= 0.98 * gained["smd"]


@pytest.mark.parametrize("stated", [UNRATED, LASTING])
@pytest.mark.parametrize("sizes", [{}, {"min_gpus": 1, "max_gpus": 4}])
def test_running_jobs_make_room_for_a_guaranteed_gang(sizes: dict[str, int], stated: dict[str, Any]) -> None:
    """All GPUs are held by workers: the gang has its four when it comes, and no worker keeps what it was to free."""
    trace = jobs_of(*_holders(stated), gang(4, 1) | {"submit_seconds": 100.0, "tenant": "owner"} | sizes)
    result = run(trace, FOUR_BESIDE_FOUR, "quota+gittins+joint", {"guaranteed": "owner:4"})
    assert column(result, "start_seconds")[-1] == 100.0


@pytest.mark.parametrize("stated", [UNRATED, LASTING])
def test_running_jobs_make_room_for_a_promoted_gang(stated: dict[str, Any]) -> None:
    trace = jobs_of(*_holders(stated), gang(4, 1) | {"submit_seconds": 100.0})
    result = run(trace, FOUR_BESIDE_FOUR, "gittins+joint", {"promote_after_seconds": "1000"})
    assert column(result, "start_seconds")[-1] == pytest.approx(1_100.0)


def test_a_guaranteed_job_loses_nothing_to_utilities() -> None:
    """It is worth a thousandth of those that come, and holds two GPUs of the four that are guaranteed."""
    own = sized_job(**LASTING | {"utility_priority": 1.0}, iterations=20_000.0, tenant="owner")
    trace = jobs_of(own, *[row | {"submit_seconds": 50.0} for row in _holders(LASTING)])
    kept = run(trace, FOUR_BESIDE_FOUR, "quota+gittins+joint", {"guaranteed": "owner:4"})
    others_first = run(trace, FOUR_BESIDE_FOUR, "gittins+joint")
    alone = column(kept, "ideal_seconds")[0]
    assert column(kept, "jct_seconds")[0] == pytest.approx(alone)
    assert column(others_first, "jct_seconds")[0] > 1.5 * alone


def _holders(stated: dict[str, Any]) -> list[dict[str, Any]]:
    """Jobs with servers that hold all GPUs for many hours."""
    return [
        sized_job(submit_seconds=float(at), iterations=20_000.0, tenant="others", **stated)
        for at in range(12)
    ]
