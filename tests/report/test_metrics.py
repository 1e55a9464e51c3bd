"""The figures against hand computation, closed forms and a second-by-second count."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.problems import InputError
from muster.report import summarise
from muster.report.metrics import distribution, jain
from muster.report.timeline import Steps, gpus_in_use, held, jobs_waiting, window
from muster.runtime.records import DECISIONS, REASONS, CompactTable, Record
from tests.building import cluster_of, job, jobs_of, run
from tests.report.hand_made import ORDERS, run_record, scheduled, tables


def two_jobs() -> Record:
    """Four GPUs; A holds two from 0 to 100, B (all four) waits for it and runs from 100 to 150."""
    return tables(
        jobs=[
            {"job_id": "A", "gpus": 2.0, "submit_seconds": 0.0, "start_seconds": 0.0, "finish_seconds": 100.0,
             "wait_seconds": 0.0, "ideal_seconds": 100.0, "tenant": "red", "attained_gpu_seconds": 200.0},
            {"job_id": "B", "gpus": 4.0, "submit_seconds": 0.0, "start_seconds": 100.0, "finish_seconds": 150.0,
             "wait_seconds": 100.0, "ideal_seconds": 50.0, "tenant": "blue", "attained_gpu_seconds": 200.0,
             "preemptions": 2},
        ],
        allocations=[
            {"job_id": "A", "node": "node-0", "gpu_ids": [0, 1], "gpus": 2.0, "cpus": 6.0, "memory_gb": 120.0,
             "from_seconds": 0.0, "to_seconds": 100.0},
            {"job_id": "B", "node": "node-0", "gpu_ids": [0, 1, 2, 3], "gpus": 4.0, "cpus": 12.0,
             "memory_gb": 60.0, "from_seconds": 100.0, "to_seconds": 150.0},
        ],
        reasons=[
            {"job_id": "B", "reason": "no_free_gpus", "parameters": "{}", "from_seconds": 0.0, "to_seconds": 60.0},
            {"job_id": "B", "reason": "quota", "parameters": "{}", "from_seconds": 60.0, "to_seconds": 100.0},
        ],
    )  # fmt: skip


def test_how_far_below_the_best_by_hand() -> None:
    """90 of 100 s a quarter below, 10 s half below, 50 s with nothing to reach; a bound alone says nothing."""
    decisions = [
        {"time_seconds": time, "value": value, "bound": bound}
        for time, value, bound in (
            (0.0, 1.0, 4.0), (0.0, 3.0, 4.0), (50.0, None, 4.0), (90.0, 1.0, 2.0), (100.0, 0.0, 0.0)
        )
    ]  # fmt: skip
    record = two_jobs()
    below = summarise(replace(record, decisions=pl.DataFrame(decisions, schema=DECISIONS)))["below_best"]
    assert below == {"mean": pytest.approx(0.9 * 0.25 + 0.1 * 0.5), "p99": 0.5}
    bound_alone = pl.DataFrame([{"time_seconds": 0.0, "bound": 4.0}], schema=DECISIONS)
    for without in (record, replace(record, decisions=bound_alone)):
        assert summarise(without)["below_best"] == {"mean": None, "p99": None}


def test_two_jobs_by_hand() -> None:
    summary = summarise(two_jobs())
    assert (summary["jobs"], summary["completed"], summary["unfinished"]) == (2, 2, 0)
    assert summary["makespan_seconds"] == 150
    assert summary["jct_seconds"]["mean"] == 125
    assert summary["wait_seconds"]["max"] == 100
    assert summary["slowdown"]["max"] == 3
    assert summary["utilization"]["gpu"] == pytest.approx((2 * 100 + 4 * 50) / (4 * 150))
    assert summary["utilization"]["cpu"] == pytest.approx((6 * 100 + 12 * 50) / (12 * 150))
    assert summary["utilization"]["memory"] == pytest.approx((120 * 100 + 60 * 50) / (240 * 150))
    # While A runs two GPUs are free, which one of the two jobs (B) could not use.
    assert summary["fragmentation"] == pytest.approx(0.5)
    # A: two jobs in the system, fair share 2 GPUs, enough. B: 5/3 jobs, share 2.4 of the 4 GPUs it asks for.
    assert summary["fairness"]["rho_mean"] == pytest.approx((1.0 + 150 / (50 * 4 / 2.4)) / 2)
    assert summary["fairness"]["rho_max"] == pytest.approx(1.8)
    assert summary["fairness"]["jain"] == pytest.approx((1 + 1 / 3) ** 2 / (2 * (1 + 1 / 9)))
    assert summary["preemptions"] == 2
    assert summary["reasons"] == {
        "no_free_gpus": {"seconds": 60.0, "jobs": 1},
        "quota": {"seconds": 40.0, "jobs": 1},
    }
    assert [tenant["tenant"] for tenant in summary["tenants"]] == ["blue", "red"]
    assert summary["tenants"][0]["wait_seconds"]["mean"] == 100


def test_a_job_without_end_is_counted_and_not_averaged() -> None:
    record = two_jobs()
    cut = pl.col("job_id") == "B"
    jobs = record.jobs.with_columns(
        *(pl.when(~cut).then(pl.col(name)).alias(name) for name in ("finish_seconds", "jct_seconds")),
        pl.when(cut).then(pl.lit("unfinished")).otherwise("outcome").alias("outcome"),
    )
    summary = summarise(replace(record, jobs=jobs))
    assert (summary["jobs"], summary["completed"], summary["unfinished"]) == (2, 1, 1)
    assert summary["jct_seconds"] == dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "max"), 100.0)
    assert summary["wait_seconds"]["max"] == 0
    # The window ends with the last finish, so what B held after it does not count.
    assert summary["utilization"]["gpu"] == pytest.approx(0.5)
    # A tenant that got nothing done counts as served at speed 0.
    assert summary["fairness"]["jain"] == pytest.approx(0.5)


def test_only_measured_jobs_count_in_times_and_all_in_use() -> None:
    record = two_jobs()
    jobs = record.jobs.with_columns((pl.col("job_id") == "B").alias("measured"))
    summary = summarise(replace(record, jobs=jobs))
    assert (summary["jobs"], summary["jobs_in_record"], summary["jct_seconds"]["mean"]) == (1, 2, 150.0)
    assert summary["utilization"]["gpu"] == pytest.approx(2 / 3)


def test_a_run_without_events_has_figures_without_values() -> None:
    summary = summarise(tables(jobs=[]))
    assert summary["jct_seconds"]["mean"] is None
    assert summary["utilization"]["gpu"] is None
    assert summary["makespan_seconds"] is None
    json.dumps(summary, allow_nan=False)


def test_reasons_of_no_job_of_the_record_count_nothing() -> None:
    record = two_jobs()
    reasons = record.reasons.clear().with_columns(pl.col("job_id").cast(pl.String))
    row = {"job_id": "C", "reason": "gpus", "from_seconds": 0.0, "to_seconds": 1.0}
    reasons = pl.concat([reasons, pl.DataFrame([row])], how="diagonal_relaxed").select(*REASONS)
    lost = replace(record, jobs=record.jobs.clear(), compact_reasons=CompactTable(reasons))
    assert summarise(lost)["reasons"] == {}


def test_an_allocation_on_no_node_of_the_cluster_is_named() -> None:
    record = two_jobs()
    ghost = record.allocations.with_columns(node=pl.lit("ghost"))
    with pytest.raises(InputError, match="ghost"):
        summarise(replace(record, compact_allocations=CompactTable(ghost)))


def test_jobs_too_short_for_the_clock_leave_figures_finite() -> None:
    """A nanosecond of work at second 1e11 ends at the moment at which it begins."""
    result = run(jobs_of(job(0, 1e-9), job(1e11, 1e-9)), cluster_of(2), "fifo")
    summary = summarise(result.record)
    assert summary["completed"] == 2
    json.dumps(summary, allow_nan=False)


def test_measured_cost_stands_apart() -> None:
    plain = summarise(two_jobs())
    with_cost = summarise(two_jobs(), {"wall_seconds": 1.5})
    assert with_cost.pop("measured") == {"wall_seconds": 1.5}
    assert with_cost == plain


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_quantiles_interpolate_between_the_nearest_ranks(values: list[float]) -> None:
    found = distribution(pl.Series(values, dtype=pl.Float64()))
    ordered = sorted(values)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
        place = share * (len(ordered) - 1)
        low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
        assert found[name] == pytest.approx(low + (high - low) * (place - math.floor(place)), abs=1e-6)
    assert found["mean"] == pytest.approx(math.fsum(values) / len(values))


@given(st.integers(1, 50), st.floats(0.01, 100))
def test_jain_closed_forms(count: int, share: float) -> None:
    assert jain([share] * count) == pytest.approx(1)
    assert jain([share] + [0.0] * (count - 1)) == pytest.approx(1 / count)
    half = [share] * count + [0.0] * count
    assert jain(half) == pytest.approx(0.5)


def test_jain_of_nothing_is_unknown() -> None:
    assert jain([]) is None
    assert jain([0.0, 0.0]) is None


@settings(deadline=None)
@given(st.integers(1, 8), st.floats(10, 1000))
def test_sharing_one_gpu_evenly_is_exactly_fair(count: int, seconds: float) -> None:
    """All of n equal jobs that share one GPU evenly end at n times their length: rho is 1 for each."""
    end = count * seconds
    jobs = [
        {"job_id": str(index), "submit_seconds": 0.0, "finish_seconds": end, "ideal_seconds": seconds}
        for index in range(count)
    ]
    fairness = summarise(tables(jobs, run=run_record(1, 1)))["fairness"]
    assert fairness["rho_mean"] == pytest.approx(1)
    assert fairness["rho_max"] == pytest.approx(1)


GPUS, NODES = 4, 2


@st.composite
def small_runs(draw: st.DrawFn) -> Record:
    """Whole-second runs in which no GPU is overcommitted; jobs of a slice group share theirs."""
    busy: dict[tuple[int, int], int] = defaultdict(int)
    jobs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 6))):
        submit = draw(st.integers(0, 10))
        now, wait, ran = submit, 0, 0
        gang = draw(st.sampled_from([1, 2, 4]))
        for _ in range(draw(st.integers(1, 3))):
            node = draw(st.integers(0, NODES - 1))
            ids = (
                list(range(gang))
                if gang == 4
                else draw(st.lists(st.integers(0, 3), min_size=gang, max_size=gang, unique=True))
            )
            begin = max([now, *(busy[node, gpu] for gpu in ids)]) + draw(st.integers(0, 3))
            end = begin + draw(st.integers(1, 8))
            for gpu in ids:
                busy[node, gpu] = end
            group = draw(st.sampled_from([None, None, index]))
            row = {"job_id": str(index), "node": f"node-{node}", "gpu_ids": ids, "gpus": float(gang),
                   "from_seconds": float(begin), "to_seconds": float(end), "slice_group": group}  # fmt: skip
            rows.append(row)
            if group is not None:
                rows.append(
                    {**row, "job_id": f"{index}b", "from_seconds": begin + 0.5, "to_seconds": end - 0.25}
                )
            wait, ran, now = wait + begin - now, ran + end - begin, end
        asked = draw(st.sampled_from([float(gang), 2.0 * GPUS]))
        jobs.append({"job_id": str(index), "gpus": asked, "submit_seconds": float(submit),
                     "finish_seconds": float(now), "wait_seconds": float(wait),
                     "ideal_seconds": float(ran)})  # fmt: skip
    return tables(jobs, rows, run=run_record(NODES, GPUS))


@settings(max_examples=150, deadline=None)
@given(small_runs())
def test_use_fragmentation_and_queue_equal_a_count_by_sampling(record: Record) -> None:
    start, end = window(record)
    moments = np.arange(start, end, 0.25) + 0.125
    gangs = record.jobs["gpus"].to_list()
    allocations = record.allocations.to_dicts()
    used = free = lost = waiting = 0.0
    for moment in moments:
        now = [row for row in allocations if row["from_seconds"] <= moment < row["to_seconds"]]
        running = {row["job_id"] for row in now}
        waiting += sum(
            job["submit_seconds"] <= moment < job["finish_seconds"] and job["job_id"] not in running
            for job in record.jobs.to_dicts()
        )
        for node in range(NODES):
            held = {gpu for row in now if row["node"] == f"node-{node}" for gpu in row["gpu_ids"]}
            here = GPUS - len(held)
            used += len(held)
            free += here
            lost += here * sum(min(gang, GPUS) > here for gang in gangs) / len(gangs)
    summary = summarise(record)
    assert summary["utilization"]["gpu"] == pytest.approx(used / (len(moments) * NODES * GPUS))
    assert summary["fragmentation"] == pytest.approx(lost / free)
    # The partners of a slice group are in no jobs table: they run, but are never in the system.
    partners = sum(
        min(row["to_seconds"], end) - row["from_seconds"]
        for row in allocations
        if row["job_id"].endswith("b")
    )
    assert jobs_waiting(record).mean() * (end - start) == pytest.approx(waiting / 4 - partners)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-5, 5)), min_size=1, max_size=300), st.integers(1, 50))
def test_condensing_keeps_the_mean(changes: list[tuple[float, float]], points: int) -> None:
    times, amounts = (np.array(column) for column in zip(*changes, strict=True))
    steps = Steps.of_changes(times, amounts, 0.0, 100.0)
    condensed = steps.condensed(points)
    assert condensed.values.size <= max(points, 1) or condensed is steps
    assert condensed.mean() == pytest.approx(steps.mean(), abs=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_tables_of_a_whole_run_agree_with_each_other(order: str) -> None:
    """Queue length over time adds up to the jobs' waits, GPUs in use to the service they attained."""
    record = scheduled(order)
    start, end = window(record)
    summary = summarise(record)
    assert jobs_waiting(record).mean() * (end - start) == pytest.approx(record.jobs["wait_seconds"].sum())
    held = summary["utilization"]["gpu"] * 32 * (end - start)
    assert held == pytest.approx(record.jobs["attained_gpu_seconds"].sum())
    assert 0 <= summary["fragmentation"] <= 1
    assert json.dumps(summary) == json.dumps(summarise(scheduled(order)))


def test_reasons_count_each_measured_job_once() -> None:
    def waited(job: str, reason: str, since: float, until: float) -> dict[str, object]:
        return {
            "job_id": job,
            "reason": reason,
            "parameters": "{}",
            "from_seconds": since,
            "to_seconds": until,
        }

    record = tables(
        jobs=[{"job_id": name, "submit_seconds": 0.0, "measured": name != "c"} for name in "abc"],
        allocations=[],
        reasons=[
            waited("c", "no_place", 0, 7),
            waited("b", "outranked", 0, 1),
            waited("a", "no_gpus", 0, 2),
            waited("b", "no_gpus", 1, 4),
            waited("a", "no_gpus", 5, 9),
        ],
    )
    assert list(summarise(record)["reasons"].items()) == [
        ("no_gpus", {"seconds": 9.0, "jobs": 2}),
        ("outranked", {"seconds": 1.0, "jobs": 1}),
    ]


def test_what_is_held_at_the_end_counts_until_the_end() -> None:
    """A run that stops at 100 s with one job running on one GPU since 50 s, and another waiting since 60 s."""
    record = tables(
        jobs=[
            {"job_id": "done", "submit_seconds": 0.0, "finish_seconds": 100.0, "ideal_seconds": 100.0},
            {"job_id": "runs", "submit_seconds": 50.0, "outcome": "unfinished"},
            {"job_id": "waits", "submit_seconds": 60.0, "outcome": "unfinished"},
        ],
        allocations=[
            {"job_id": "done", "node": "node-0", "gpus": 2.0, "from_seconds": 0.0, "to_seconds": 100.0},
            {"job_id": "runs", "node": "node-0", "gpus": 1.0, "from_seconds": 50.0, "to_seconds": None},
        ],
        reasons=[
            {
                "job_id": "waits",
                "reason": "no_gpus",
                "parameters": "{}",
                "from_seconds": 60.0,
                "to_seconds": None,
            }
        ],
    )
    summary = summarise(record)
    assert summary["utilization"]["gpu"] == pytest.approx((2 * 100 + 1 * 50) / (4 * 100))
    assert summary["reasons"] == {"no_gpus": {"seconds": 40.0, "jobs": 1}}
    assert jobs_waiting(record).mean() * 100 == pytest.approx(40)
    in_use = gpus_in_use(held(record), *window(record))
    assert (in_use.times.tolist(), in_use.values.tolist()) == ([0, 50, 100], [2, 3])


def test_a_job_alone_on_a_large_cluster_is_exactly_fair() -> None:
    """It cannot gain from more GPUs than it asks for, so its yardstick is its own speed."""
    alone = {
        "job_id": "A",
        "gpus": 1.0,
        "submit_seconds": 0.0,
        "finish_seconds": 100.0,
        "ideal_seconds": 100.0,
    }
    fairness = summarise(tables([alone], run=run_record(1, 8)))["fairness"]
    assert fairness["rho_mean"] == fairness["rho_max"] == pytest.approx(1)


def test_steps_are_zero_before_their_first_change() -> None:
    steps = Steps.of_changes(np.array([5.0, 8.0]), np.array([2.0, -2.0]), 0.0, 10.0)
    assert steps.times.tolist() == [0, 5, 8, 10]
    assert steps.values.tolist() == [0, 2, 0]
    assert steps.integral_until(np.array([0.0, 5.0, 6.0, 10.0])).tolist() == [0, 0, 2, 6]
    assert steps.mean() == pytest.approx(0.6)
