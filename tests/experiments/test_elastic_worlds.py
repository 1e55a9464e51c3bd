"""Muster's engine with the worlds of Sia and Rubick repeats their recorded runs, job by job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from experiments.elastic.batches import Batch, fixed_batch
from experiments.elastic.beliefs import LearnedSpeeds
from experiments.elastic.epoch_work import AdaptiveBatches, EpochWork, Place
from experiments.elastic.files import FOLDER, read_table
from experiments.elastic.parity import RecordedRun, recorded_runs, replay
from experiments.elastic.recorded import RecordedAllocations, RecordedBatches, changes_of, with_ends
from experiments.elastic.step_times import key_of
from experiments.elastic.worlds import cluster_named, sia_jobs, sia_world, trace_with
from muster.cluster import Cluster
from muster.simulation import Options, Rules, simulate
from muster.workload.jobs import JobTable

SHIPPED = (
    *(RecordedRun("sia", "pollux-1", "homog", "sia", mode) for mode in ("rigid", "fixed-batch", "adaptive")),
    RecordedRun("sia", "pollux-1", "homog", "gavel", "rigid"),
    *(
        RecordedRun("rubick", "base", "", policy)
        for policy in ("antman", "rubick", "rubick-preemption-repaired", "synergy")
    ),
)
EXACT_SECONDS = 1e-6


def test_a_placement_is_known_by_its_smallest_rotation() -> None:
    assert [key_of(placement) for placement in ((4,), (4, 2), (2, 4, 3), (3, 2, 4))] == [
        "4",
        "24",
        "243",
        "243",
    ]


@pytest.mark.reference
@pytest.mark.parametrize("recorded", SHIPPED, ids=lambda recorded: recorded.stem)
def test_recorded_allocations_give_recorded_finish_times(reference: Path, recorded: RecordedRun) -> None:
    assert recorded in recorded_runs(reference)
    made = replay(reference, recorded)
    assert made.jobs == (160 if recorded.simulator == "sia" else 406)
    assert made.largest_difference < EXACT_SECONDS


@pytest.mark.long
@pytest.mark.reference
def test_recorded_runs_that_cannot_ship_are_repeated(unshipped_reference: Path) -> None:
    others = [run for run in recorded_runs(unshipped_reference) if run not in SHIPPED]
    if not others:
        pytest.skip("the tables and workloads of Sia's repository are not in the reference folder")
    assert {run.cluster for run in others} == {"homog", "het"}
    for run in others:
        assert replay(unshipped_reference, run).largest_difference < EXACT_SECONDS, run


@pytest.mark.reference
def test_the_rule_of_fixed_batches_gives_every_recorded_batch(reference: Path) -> None:
    world = sia_world(reference, 60.0)
    jobs = {row["job"]: row for row in sia_jobs(reference, "pollux-1").iter_rows(named=True)}
    for stem in ("sia_rigid", "sia_fixed-batch", "gavel_rigid"):
        rows = read_table(reference / FOLDER / "sia" / f"allocations_pollux-1_homog_{stem}.csv")
        for row in rows.filter(rows["gpus_per_node"].is_not_null()).iter_rows(named=True):
            job = jobs[row["job"]]
            app = world.applications[job["app"]]
            placement = tuple(map(int, row["gpus_per_node"].split("+")))
            times = world.times[app.name, "t4"]
            batch = fixed_batch(job["batch"], placement, times, app.initial_batch, app.max_batch)
            assert batch == Batch(row["batch_per_gpu"], row["accumulation"]), row


def adaptive_rows_repeated(reference: Path, run: RecordedRun, jobs: Sequence[str]) -> list[bool]:
    """Whether the rule gives each recorded batch of some jobs, each time that they may change it."""
    world = sia_world(reference, run.round_seconds)
    rows = read_table(reference / FOLDER / "sia" / f"allocations_{run.stem}.csv")
    changes = [change for change in changes_of(rows) if change.job in jobs]
    ends = read_table(reference / FOLDER / "sia" / f"jobs_{run.stem}.csv").filter(pl.col("job").is_in(jobs))
    mine = sia_jobs(reference, run.workload).filter(pl.col("job").is_in(jobs))
    same: list[bool] = []

    class Compared(RecordedBatches):
        def __init__(self, table: JobTable, learned: LearnedSpeeds) -> None:
            super().__init__(changes, table)
            self.rule = AdaptiveBatches(table, world, learned)

        def batch(self, job: int, now: float, epoch: int, place: Place) -> Batch:
            recorded = super().batch(job, now, epoch, place)
            same.append(self.rule.batch(job, now, epoch, place) == recorded)
            return recorded

        def next_change(self, job: int, now: float) -> float:
            return min(super().next_change(job, now), self.rule.next_change(job, now))

    def work(table: JobTable, cluster: Cluster) -> EpochWork:
        machines = {node.gpu_type: node.gpus for node in cluster.nodes}
        learned = LearnedSpeeds(table, world.applications, world.times, machines, adaptive=True)
        return EpochWork(table, cluster, world, Compared(table, learned), learned)

    pauses = [world.applications[app].restart_seconds for app in mine["app"]]
    recorded = RecordedAllocations(with_ends(changes, ends), len(cluster_named(run.cluster).nodes))
    rules = Rules(run.stem, "As recorded.", round_seconds=run.round_seconds, work=work)
    trace = trace_with(mine, [1.0] * len(mine), pauses, elastic=True)
    simulate(trace, cluster_named(run.cluster, 64), recorded, Options(rules=rules, network="none"), models={})
    return same


@pytest.mark.reference
def test_adaptive_jobs_take_the_recorded_batches(reference: Path) -> None:
    run = RecordedRun("sia", "pollux-1", "homog", "sia", "adaptive")
    jobs = ("bert-27", "cifar10-0", "ncf-2")
    same = adaptive_rows_repeated(reference, run, jobs)
    assert len(same) > 100
    assert np.mean(same) > 0.99


@pytest.mark.long
@pytest.mark.reference
def test_recorded_batches_that_cannot_ship(unshipped_reference: Path) -> None:
    run = RecordedRun("sia", "saturn-1", "het", "sia", "adaptive")
    if run not in recorded_runs(unshipped_reference):
        pytest.skip("the tables and workloads of Sia's repository are not in the reference folder")
    jobs = sia_jobs(unshipped_reference, "saturn-1").filter(pl.col("app") != "cifar10")["job"].to_list()
    assert np.mean(adaptive_rows_repeated(unshipped_reference, run, jobs)) > 0.99


def test_further_nodes_come_after_those_of_the_cluster() -> None:
    plain, further = cluster_named("het"), cluster_named("het", 2)
    assert further.nodes[: len(plain.nodes)] == plain.nodes
    assert [node.gpu_type for node in further.nodes[len(plain.nodes) :]] == [
        "t4",
        "t4",
        "a100",
        "a100",
        "rtx2080ti",
        "rtx2080ti",
    ]
