"""Whole runs of jobs with workers and servers: their speed, their places, what every scheduler of the field keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.smd import decisions, large_trace
from experiments.recurrence import iteration_ends
from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.report import summarise
from muster.schedulers import reasons
from muster.schedulers.contract import Decision, Snapshot, State
from muster.simulation import Run
from muster.speed.parameter_server.architectures import estimated_layers
from tests.building import column, finishes, jobs_of, run
from tests.schedulers.smd_cases import FIELD, machines, sized_job, trace_of_seed
from tests.schedulers.test_example_policies import Toy

SERVER, WORKER = 1, 0


class Puts(Toy):
    """Gives every job the same shares at once."""

    def __init__(self, *shares: NodeAllocation) -> None:
        super().__init__()
        self.shares = shares

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        with snapshot.transaction() as transaction:
            for number in snapshot.jobs.index[snapshot.jobs.waiting].tolist():
                transaction.put(number, self.shares)
            return self.plan(snapshot, transaction, reasons.NO_GPUS, stable_until=np.inf), state


def workers(node: int, *gpus: int) -> NodeAllocation:
    return NodeAllocation(node, gpus, cpus=2.0 * len(gpus), memory_gb=4.0 * len(gpus))


def servers(node: int, count: int) -> NodeAllocation:
    return NodeAllocation(node, (), cpus=3.0 * count, memory_gb=5.0 * count, role=SERVER)


@pytest.mark.parametrize(("w", "p"), [(1, 1), (2, 1), (1, 3), (3, 2), (4, 4)])
def test_a_job_runs_at_the_pace_of_the_layered_recurrence(w: int, p: int) -> None:
    held = [workers(0, *range(w)), servers(0, p - p // 2), *([servers(1, p // 2)] if p // 2 else [])]
    result = run(jobs_of(sized_job()), machines(2), Puts(*held))
    (step,) = iteration_ends(estimated_layers("vgg16", 6.0), 256, 0.5, w, p)
    assert finishes(result) == pytest.approx([1000 * step])
    stages = [column(result, f"{stage}_seconds")[0] for stage in ("compute", "communication", "input_stall")]
    assert sum(stages) == pytest.approx(1000 * step)
    layers = estimated_layers("vgg16", 6.0)
    compute = 256 * layers.forward_seconds_per_sample.sum() / w + layers.backward_seconds.sum()
    assert stages[0] == pytest.approx(1000 * compute)


def test_without_servers_workers_keep_the_parameters() -> None:
    result = run(jobs_of(sized_job()), machines(1), "fifo")
    (step,) = iteration_ends(estimated_layers("vgg16", 6.0), 256, 0.5, 2, 2)
    assert finishes(result) == pytest.approx([1000 * step])


def test_a_new_number_of_servers_is_a_restart() -> None:
    class Grows(Puts):
        def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
            with snapshot.transaction() as transaction:
                for number in snapshot.jobs.index.tolist():
                    transaction.put(number, [workers(0, 0), servers(0, 1 if snapshot.now < 100 else 2)])
                return self.plan(
                    snapshot, transaction, reasons.NO_GPUS, next_wake=100.0 if snapshot.now < 100 else np.inf
                ), state

    result = run(jobs_of(sized_job(iterations=300)), machines(1), Grows(), restart_cost_seconds=50)
    one, two = (iteration_ends(estimated_layers("vgg16", 6.0), 256, 0.5, 1, count)[0] for count in (1, 2))
    assert finishes(result) == pytest.approx([100 + 50 + (300 - 100 / one) * two])
    assert column(result, "moves") == [1]


def assert_placed(result: Run, jobs: pl.DataFrame) -> None:
    """Every stretch of holding keeps to the owner's limits, and every network card to its bandwidth."""
    held = result.record.allocations.with_columns(pl.col("job_id").cast(pl.Int64)).join(
        jobs.with_columns(pl.col("job_id").cast(pl.Int64)), on="job_id", suffix="_limit"
    )
    is_server = pl.col("role") == "server"
    held = held.with_columns(
        w=pl.when(is_server).then(0).otherwise(pl.col("gpus") / pl.col("worker_gpus")),
        p=pl.when(is_server).then(pl.col("cpus") / pl.col("server_cpus")).otherwise(0),
    ).with_columns(
        nic=pl.when(pl.col("sync") == "ring").then(0).otherwise(pl.col("p")) * pl.col("nic_gb_per_s")
    )
    moments = held["from_seconds"].unique().sort().to_list()
    for moment in moments[:: max(1, len(moments) // 60)]:
        now = held.filter((pl.col("from_seconds") <= moment) & (pl.col("to_seconds") > moment))
        by_job = now.group_by("job_id").agg(
            pl.col("w", "p", "cpus", "memory_gb").sum(),
            pl.col("max_workers", "servers", "cpus_limit", "memory_gb_limit", "sync").first(),
        )
        assert (by_job["w"] >= 1 - 1e-9).all()
        assert (by_job["w"] <= by_job["max_workers"] + 1e-9).all()
        assert ((by_job["p"] >= 1 - 1e-6) == (by_job["sync"] == "ps")).all()
        assert (by_job["p"] <= by_job["servers"].fill_null(0) + 1e-6).all()
        assert (by_job["cpus"] <= by_job["cpus_limit"] + 1e-6).all()
        assert (by_job["memory_gb"] <= by_job["memory_gb_limit"] + 1e-6).all()
        assert (now.group_by("node").agg(pl.col("nic").sum())["nic"] <= 1.25 + 1e-6).all()


@pytest.mark.parametrize("name", FIELD)
@pytest.mark.parametrize("accounting", ["usage", "reservation"])
def test_every_sizing_scheduler_keeps_the_limits_and_ends(name: str, accounting: str) -> None:
    trace = trace_of_seed(4, jobs=16, per_hour=8.0)
    settings = {"accounting": accounting, "interval_seconds": "3600"}
    result = run(trace, machines(3, gpus=8, cpus=64), name, settings, restart_cost_seconds=30)
    assert_placed(result, trace.jobs)
    assert result.unfinished == 0 or name == "oasis"
    again = run(trace, machines(3, gpus=8, cpus=64), name, settings, restart_cost_seconds=30)
    assert again.record.jobs.equals(result.record.jobs)
    assert again.record.decisions.equals(result.record.decisions)


def test_decisions_carry_the_bound_of_what_was_possible() -> None:
    result = run(trace_of_seed(2, jobs=12), parse_cluster("smd"), "smd", {"objective": "published"})
    assert result.record.decisions["bound"].is_not_null().all()
    assert result.record.decisions["bound"][0] >= summarise(result.record)["utility"]["total"] * (
        1 - 1e-9
    ) or (
        # Those not served at first may still be worth something later.
        result.record.decisions["waiting"][0] > 0
    )


def test_the_utility_of_a_run_is_that_of_its_completion_times() -> None:
    rows = [sized_job(), sized_job(utility_priority=None), sized_job(utility_target_seconds=10.0)]
    result = run(jobs_of(*rows), machines(3), "smd")
    seconds = np.array(column(result, "jct_seconds"))[[0, 2]]
    rated = 10 / (1 + np.exp(0.5 / 3600 * (seconds - np.array([7200.0, 10.0]))))
    assert column(result, "utility")[1] is None
    reply = summarise(result.record)["utility"]
    assert reply["total"] == pytest.approx(rated.sum())
    assert reply["on_target"] == pytest.approx(np.mean(seconds <= np.array([7200.0, 10.0])))


def test_without_knowledge_of_durations_it_still_ends() -> None:
    result = run(
        trace_of_seed(3, jobs=12), parse_cluster("smd"), "smd", {"interval_seconds": "1800"}, knowledge="none"
    )
    assert result.unfinished == 0


BAD: list[tuple[dict[str, Any], str]] = [
    ({"worker_cpus": 90.0, "cpus": 20.0}, "one worker and one server need"),
    ({"worker_cpus": 33.0}, "no node of cluster machines has a worker's"),
    ({"nic_gb_per_s": 2.0}, "no node of cluster machines has a server's"),
    ({"model": "mine"}, "its layers are not known"),
    ({"min_workers": 2, "cpus": 6.0}, "min_workers with one server need more than the limit"),
    ({"utility_priority": -1.0}, "a number from 0 to 1e12"),
    ({"nic_gb_per_s": 0.0}, "a bandwidth in GB/s above 0"),
    ({"servers": None}, "a job with sync = ps needs it"),
    ({"gpus": 3, "worker_gpus": 2}, "whole workers of worker_gpus each"),
    ({"max_gpus": 4}, "says min_workers and max_workers instead"),
    ({"utility_target_seconds": None}, "a utility needs its target"),
    ({"sync": "tree"}, "ps (parameter servers) or ring (all-reduce)"),
]


@pytest.mark.parametrize(("change", "reply"), BAD)
def test_what_cannot_be_is_refused(change: dict[str, Any], reply: str) -> None:
    with pytest.raises(InputError) as refused:
        run(jobs_of(sized_job(), sized_job(**change)), machines(2), "smd")
    assert reply in str(refused.value)


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="interval_seconds"):
        run(jobs_of(sized_job()), machines(1), "smd", {"interval_seconds": "0"})
    with pytest.raises(InputError, match="usage, reservation"):
        run(jobs_of(sized_job()), machines(1), "smd", {"accounting": "guess"})


def test_the_benchmark_counts_what_a_decision_places() -> None:
    """With room for all, every job has at least a worker and a server."""
    seconds, tasks = decisions("smd", large_trace(5, 1), machines(20, gpus=8, cpus=64.0))
    assert len(seconds) == 2
    assert tasks >= 2 * 5
