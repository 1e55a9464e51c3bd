"""The grounds of Sia and Rubick: their jobs under Muster's schedulers, beside what was recorded."""

from __future__ import annotations

import dataclasses
from math import ceil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from experiments.elastic.batches import Batch
from experiments.elastic.beliefs import LearnedSpeeds, Limits
from experiments.elastic.epoch_work import EpochWork, FixedBatches
from experiments.elastic.files import FOLDER, read_table
from experiments.elastic.ground import elastic, rubick
from experiments.elastic.iteration_work import RubickSpeeds
from experiments.elastic.speed_fits import fitted
from experiments.elastic.step_times import StepTimes, closest
from experiments.elastic.worlds import cluster_named, sia_jobs, sia_world, trace_with
from experiments.joint.ground import table
from muster.cluster.ledger import Ledger, NodeAllocation
from muster.schedulers.composed import Composed
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.speed.statistical_efficiency import gain
from muster.workload.jobs import job_table

SAME_UNTIL_SECONDS = 21_055.0
"""The first job of llama30 on 24 GPUs comes then, which Synergy places on six nodes whatever is free."""


def test_the_closest_placement_fills_nodes() -> None:
    assert [closest(gpus, 4) for gpus in (1, 4, 6, 8)] == [(1,), (4,), (4, 2), (4, 4)]


@pytest.mark.reference
def test_the_ground_of_sia_has_its_recorded_figures(reference: Path) -> None:
    cells = {cell.name: cell for cell in elastic(reference)}
    assert list(cells) == [f"pollux-1 homog {mode}" for mode in ("rigid", "fixed-batch", "adaptive")]
    rigid = {each.name: each for each in cells["pollux-1 homog rigid"].recorded}
    assert rigid["recorded: sia"].mean_jct == pytest.approx(4972.77, abs=0.01)
    assert rigid["recorded: sia"].p99_jct == pytest.approx(70254.8, abs=0.1)
    assert rigid["recorded: gavel"].makespan == 138592
    assert cells["pollux-1 homog rigid"].trace.jobs["max_gpus"].to_list() == [
        *cells["pollux-1 homog rigid"].trace.jobs["gpus"]
    ]


@pytest.mark.reference
def test_an_adaptive_job_takes_the_batch_of_most_progress(reference: Path) -> None:
    world = sia_world(reference, 60.0)
    jobs = sia_jobs(reference, "pollux-1").head(1)
    table = job_table(trace_with(jobs, [1.0], [50.0], elastic=True), cluster_named("homog"), {}, {})
    learned = LearnedSpeeds(table, world.applications, world.times, {"t4": 4}, adaptive=True)
    app = learned.app(0)
    for placement, batch in (((1,), 256), ((2,), 512), ((4,), 512), ((4, 4), 256)):
        learned.learn(0, placement, "t4", batch)
    norm, variance = 0.02, 3.0
    learned.see_gradient(0, (norm, variance))
    model = fitted(learned._seen[0]["t4"])
    limits = Limits(app.max_batch, app.max_batch_per_gpu)

    def progress(total: float) -> tuple[float, Batch]:
        passes = max(ceil(total / 4 / app.max_batch_per_gpu - 1e-8), 1)
        each = ceil(total / 4 / passes - 1e-8)
        size = np.array([1.0]), np.array([4.0]), np.array([float(each)])
        seconds = model.step_seconds(*size)[0] + (passes - 1) * model.compute_seconds(size[2])[0]
        return gain(4 * each * passes / app.initial_batch, norm, variance) / seconds, Batch(each, passes - 1)

    best = max(progress(total) for total in np.geomspace(app.initial_batch, app.max_batch))
    found = learned.best(0, 4, 1, "t4", limits)
    assert found[0] == pytest.approx(best[0])
    assert found[1] == best[1]
    assert best[1].total(4) > app.initial_batch
    four = np.array([0]), np.array([4]), np.array([1]), "t4"
    believed = learned.seconds_per_iteration(*four)[0]
    assert believed == 1 / found[0]
    learned.see_gradient(0, (norm, 100 * variance))
    now = 1 / learned.best(0, 4, 1, "t4", limits)[0]
    assert learned.seconds_per_iteration(*four)[0] == now < believed
    # Sia plans with the requested batch at most.
    requested = int(table.sized["batch"][0])
    assert requested < app.max_batch
    planned = 1 / learned.best(0, 4, 1, "t4", limits._replace(total=requested))[0]
    assert learned.seconds(0, 4, 1, "t4", as_sia=True) == planned > now


@pytest.mark.reference
@pytest.mark.parametrize("adaptive", [False, True])
def test_another_type_is_believed_as_fast_as_alone(reference: Path, adaptive: bool) -> None:
    world = sia_world(reference, 60.0)
    jobs = sia_jobs(reference, "pollux-1").filter(pl.col("app") == "yolov3").head(1)
    table = job_table(trace_with(jobs, [1.0], [80.0], elastic=True), cluster_named("homog"), {}, {})
    slow = world.times["yolov3", "t4"]
    times = {
        ("yolov3", "t4"): slow,
        ("yolov3", "fast"): StepTimes(slow.rows.with_columns(pl.col("step_s") / 3)),
    }
    learned = LearnedSpeeds(table, world.applications, times, {"t4": 4, "fast": 8}, adaptive=adaptive)
    learned.see_gradient(0, (0.02, 3.0))
    for placement, batch in (((1,), 8), ((2,), 8), ((4,), 8), ((4, 4), 8), ((4, 4, 4), 5)):
        learned.learn(0, placement, "t4", batch)
    # A machine with eight fast GPUs is believed to be as two machines with four.
    for as_sia in (False, True):
        two_machines = learned.seconds(0, 8, 2, "t4", as_sia)
        assert learned.seconds(0, 8, 1, "fast", as_sia) == pytest.approx(two_machines / 3)
        # The requested batch of 64 is too small for 24 GPUs, the least batch of each of them in all is not.
        assert np.isfinite(learned.seconds(0, 24, 6, "t4", as_sia)) == adaptive
        assert np.isfinite(learned.seconds(0, 16, 4, "t4", as_sia))


@pytest.mark.reference
def test_a_size_that_was_not_tried_is_believed_fast(reference: Path) -> None:
    world = sia_world(reference, 60.0)
    jobs = sia_jobs(reference, "pollux-1").filter(app="imagenet", batch=3200).head(1)
    table = job_table(trace_with(jobs, [1.0], [250.0], elastic=True), cluster_named("homog"), {}, {})
    # As on A100s, about.
    syncs = {"1": 0.0, "2": 0.05, "4": 0.23}
    rows = [
        ("placements", placement, batch, 0.00095 * batch + sync, sync)
        for placement, sync in syncs.items()
        for batch in (400, 800)
    ]
    columns = ["source", "placement", "batch_per_gpu", "step_s", "sync_s"]
    times = {("imagenet", "t4"): StepTimes(pl.DataFrame(rows, schema=columns, orient="row"))}
    learned = LearnedSpeeds(table, world.applications, times, {"t4": 8})
    for placement in ((1,), (2,), (4,)):
        learned.learn(0, placement, "t4", 800)
    four, eight = (learned.seconds(0, gpus, 1, "t4") for gpus in (4, 8))
    assert eight < four
    # Sia believes that eight GPUs communicate for longer than they save.
    assert learned.seconds(0, 8, 1, "t4", as_sia=True) > learned.seconds(0, 4, 1, "t4", as_sia=True)


@pytest.mark.reference
@pytest.mark.parametrize("shared", [False, True])
def test_jobs_of_an_application_may_learn_together(reference: Path, shared: bool) -> None:
    world = sia_world(reference, 60.0)
    jobs = sia_jobs(reference, "pollux-1").filter(pl.col("app") == "cifar10").head(2)
    trace = trace_with(jobs, [1.0] * 2, [50.0] * 2, elastic=True)
    table = job_table(trace, cluster_named("homog"), {}, {})
    learned = LearnedSpeeds(table, world.applications, world.times, {"t4": 4}, adaptive=True, shared=shared)
    assert [learned.most_gpus(job) for job in (0, 1)] == [1, 1]
    learned.see_gradient(0, (0.02, 3.0))
    learned.learn(0, (1,), "t4", 128)
    learned.learn(0, (2,), "t4", 128)
    assert learned.most_gpus(0) == 4
    assert (learned.most_gpus(1), learned.knows(1, "t4")) == ((4, True) if shared else (1, False))
    if shared:
        learned._batch[1] = learned._batch[0]
        assert learned.seconds(1, 2, 1, "t4") == learned.seconds(0, 2, 1, "t4")


@pytest.mark.reference
@pytest.mark.parametrize("moves_pause", [False, True])
def test_a_move_to_like_nodes_may_pause_a_job(reference: Path, moves_pause: bool) -> None:
    world, cluster = sia_world(reference, 60.0), cluster_named("homog")
    jobs = sia_jobs(reference, "pollux-1").head(1)
    table = job_table(trace_with(jobs, [1.0], [50.0], elastic=True), cluster, {}, {})
    work = EpochWork(table, cluster, world, FixedBatches(table, world), moves_pause=moves_pause)
    pause = world.applications[jobs["app"][0]].restart_seconds
    for now, node in ((0.0, 0), (500.0, 3), (900.0, 3)):
        ledger = Ledger(cluster, 1)
        ledger.put(0, [NodeAllocation(node, (0, 1))])
        work.rate(0, now, ledger)
    assert table.facts["resumes"][0] == pause + (500.0 if moves_pause else 0.0)


@pytest.mark.reference
def test_fifo_repeats_synergy_until_it_places_otherwise(reference: Path) -> None:
    (cell,) = rubick(reference)
    options = Options(rules=cell.rules, network="none", round_origin=60.0)
    jobs = simulate(cell.trace, cell.cluster, build("fifo"), options, models={}).record.jobs
    expected = read_table(reference / FOLDER / "rubick" / "jobs_base_synergy.csv")
    both = jobs.join(expected.select(job_id="job", expected="end_s"), on="job_id")
    early = both.filter(both["submit_seconds"] < SAME_UNTIL_SECONDS)
    assert len(early) == 60
    assert (early["finish_seconds"] - early["expected"]).abs().to_numpy().max() < 1e-6
    # Afterwards a few gangs on other nodes decide: 6,340 s beside 6,104.
    assert jobs["jct_seconds"].to_numpy().mean() == pytest.approx(6104.1, rel=0.05)


@pytest.mark.reference
def test_a_table_has_a_line_for_each_run(reference: Path) -> None:
    (cell,) = rubick(reference)
    lines = list(table(cell, ["fifo"]))
    assert len(lines) == 1 + 4 + 1
    assert lines[-1].split()[0] == "fifo"


@pytest.mark.reference
def test_a_size_that_was_not_measured_does_not_run(reference: Path) -> None:
    speeds = RubickSpeeds(reference / FOLDER / "tables" / "rubick_seconds_per_iteration.csv")
    on_three, on_six = (speeds.seconds("llama30", placement, "") for placement in ((8,) * 3, (4,) * 6))
    assert on_three == on_six < float("inf")
    assert speeds.seconds("llama30", (8, 8), "") == float("inf")


@pytest.mark.reference
def test_speeds_of_other_sizes_are_those_of_the_table(reference: Path) -> None:
    (cell,) = rubick(reference)
    asked: list[list[float]] = []

    class Asks(Composed):
        def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
            assert snapshot.size_speeds is not None
            jobs, gpus, nodes = np.array([0, 1, 1, 1]), np.array([2, 48, 40, 4]), np.array([1, 6, 8, 5])
            asked.append(snapshot.size_speeds.seconds_per_iteration(jobs, gpus, nodes, "a800").tolist())
            return super().decide(snapshot, state)

    fifo = build("fifo")
    assert isinstance(fifo, Composed)
    fields = {field.name: getattr(fifo, field.name) for field in dataclasses.fields(fifo) if field.init}
    options = Options(rules=cell.rules, network="none")
    simulate(cell.trace, cell.cluster, Asks(**fields), options, models={})
    speeds = RubickSpeeds(reference / FOLDER / "tables" / "rubick_seconds_per_iteration.csv")
    vit = speeds.seconds("vit", (2,), "zero-dp")
    spread, packed = (speeds.seconds("llama30", placement, "") for placement in ((5,) * 8, (8,) * 6))
    assert asked[0] == [vit, packed, spread, float("inf")]


def test_a_placement_beyond_all_measured_is_as_the_nearest() -> None:
    points = [(nodes, gpus, batch) for nodes in (1, 2) for gpus in (4, 8) for batch in (16, 32)]
    rows = pl.DataFrame(
        {
            "source": ["scalability"] * len(points),
            "placement": [None] * len(points),
            "nodes": [nodes for nodes, _, _ in points],
            "gpus": [gpus for _, gpus, _ in points],
            "batch_per_gpu": [batch for _, _, batch in points],
            "step_s": [0.01 * batch + 0.1 * nodes + 0.001 * gpus for nodes, gpus, batch in points],
            "sync_s": [0.1 * nodes for nodes, _, _ in points],
        },
        schema_overrides={"placement": pl.String},
    )
    times = StepTimes(rows)
    assert times.of((3, 3), 24.0) == pytest.approx((0.24 + 0.2 + 0.006, 0.2))
    assert times.of((4, 4, 8), 16.0) == pytest.approx((0.16 + 0.2 + 0.008, 0.2))
