"""Muster's engine with the worlds of Sia and Rubick repeats their recorded runs, job by job."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.elastic.batches import Batch, fixed_batch
from experiments.elastic.files import FOLDER, read_table
from experiments.elastic.parity import RecordedRun, recorded_runs, replay
from experiments.elastic.step_times import key_of
from experiments.elastic.worlds import cluster_named, sia_jobs, sia_world

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
