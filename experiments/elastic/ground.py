"""The grounds of Sia and of Rubick: their jobs and their worlds, for any scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from experiments.elastic.batches import fixed_batch, iteration_seconds
from experiments.elastic.beliefs import LearnedSpeeds
from experiments.elastic.efficiency import Application
from experiments.elastic.epoch_work import AdaptiveBatches, EpochWork, FixedBatches, SiaWorld
from experiments.elastic.files import FOLDER, FURTHER_FOLDER, read_table
from experiments.elastic.iteration_work import (
    RESTART_SECONDS,
    IterationWork,
    MeasuredSpeeds,
    RubickSpeeds,
)
from experiments.elastic.step_times import Placement, StepTimes, closest
from experiments.elastic.worlds import (
    CLUSTERS,
    cluster_named,
    rubick_jobs,
    sia_jobs,
    sia_world,
    trace_with,
)
from experiments.joint.ground import Cell, Figures, figures
from experiments.published.sia import Sia
from muster.cluster import Cluster
from muster.simulation import Rules
from muster.simulation.rules import WorkLaw
from muster.workload.jobs import JobTable

ROUND_SECONDS = 60.0
RIGID, FIXED_BATCH, ADAPTIVE = "rigid", "fixed-batch", "adaptive"
SIA_SETTINGS = (
    ("pollux-1", "homog", (RIGID, FIXED_BATCH, ADAPTIVE)),
    ("saturn-1", "het", (RIGID, FIXED_BATCH, ADAPTIVE)),
    ("saturn-2", "het", (FIXED_BATCH,)),
    ("philly-1", "het", (FIXED_BATCH,)),
)
"""Workload, cluster and what may change: nothing, the number of GPUs, or also the batch."""
FURTHER_SETTINGS = (
    *((f"pollux-{number}", "homog", (RIGID, FIXED_BATCH, ADAPTIVE)) for number in range(2, 9)),
    *(
        (name, "het", (RIGID, FIXED_BATCH, ADAPTIVE))
        for name in ("saturn-5", "saturn-6", "saturn-7", "philly-2", "philly-3")
    ),
)
"""Likewise, of which no figure of Sia was recorded: constants are decided on these."""


def elastic(
    reference: Path,
    settings: Iterable[tuple[str, str, tuple[str, ...]]] = SIA_SETTINGS,
    *,
    shared: bool = False,
    moves_pause: bool = False,
) -> Iterator[Cell]:
    """The settings of Sia's simulator whose inputs are in the folder.

    `shared`: jobs of an application know what all of them have learned of their speed. `moves_pause`: a job also
    pauses where it gets as many GPUs on each of other nodes.
    """
    world = sia_world(reference, ROUND_SECONDS)
    for workload, cluster, modes in settings:
        if cluster == "homog" or (reference / FOLDER / FURTHER_FOLDER).is_dir():
            for mode in modes:
                changed = {"shared": shared, "moves_pause": moves_pause}
                yield sia_cell(reference, world, workload, cluster, mode, **changed)


def sia_cell(
    reference: Path,
    world: SiaWorld,
    workload: str,
    cluster: str,
    mode: str,
    *,
    shared: bool = False,
    moves_pause: bool = False,
) -> Cell:
    """A workload of Sia's simulator on one of its clusters; `shared` and `moves_pause` as for `elastic`."""
    jobs = sia_jobs(reference, workload)

    def work(table: JobTable, cluster: Cluster) -> WorkLaw:
        adapts = mode == ADAPTIVE
        gpus_per_node = {node.gpu_type: node.gpus for node in cluster.nodes}
        learned = LearnedSpeeds(
            table, world.applications, world.times, gpus_per_node, adaptive=adapts, shared=shared
        )
        batches = AdaptiveBatches(table, world, learned) if adapts else FixedBatches(table, world)
        return EpochWork(table, cluster, world, batches, learned, moves_pause=moves_pause)

    slowest = CLUSTERS[cluster][0]
    alone = [
        seconds_alone(world.applications[app], world.times[app, slowest[2]], batch, closest(gpus, slowest[1]))
        for app, gpus, batch in jobs.select("app", "requested_gpus", "batch").iter_rows()
    ]
    pauses = [world.applications[app].restart_seconds for app in jobs["app"]]
    rules = Rules("sia", "As Sia's simulator.", round_seconds=ROUND_SECONDS, work=work)
    return Cell(
        f"{workload} {cluster} {mode}",
        trace_with(jobs, alone, pauses, elastic=mode != RIGID),
        cluster_named(cluster),
        rules,
        recorded(reference / FOLDER / "sia", f"{workload}_{cluster}", mode, jobs),
        {Sia.name: Sia},
    )


def recorded(folder: Path, stem: str, mode: str, jobs: pl.DataFrame) -> list[Figures]:
    """The figures of the recorded runs of a setting; a file ends in the mode, if there is any."""
    found = []
    for file in sorted(folder.glob(f"jobs_{stem}_*{mode}.csv")):
        rows = read_table(file).join(jobs.select("job", submit="submit_s"), on="job")
        name = file.stem.removeprefix(f"jobs_{stem}_").removesuffix(f"_{mode}")
        submit, end = (rows[column].cast(pl.Float64).to_numpy() for column in ("submit", "end_s"))
        restarts = float(rows["restarts"].cast(pl.Float64).to_numpy().mean())
        found.append(figures(f"recorded: {name}", submit, end, restarts))
    return found


def seconds_alone(app: Application, times: StepTimes, requested_batch: int, placement: Placement) -> float:
    """Seconds of a whole job on a placement with its requested batch."""
    batch = fixed_batch(requested_batch, placement, times, app.initial_batch, app.max_batch)
    seconds = iteration_seconds(times, placement, batch) * app.slowdown
    progress = np.diff(np.array([0.0, *app.ends]))
    total = batch.total(sum(placement))
    gains = np.array([app.gain(total, epoch) for epoch in range(app.epochs)])
    return float((progress * seconds / gains).sum())


def rubick(reference: Path) -> Iterator[Cell]:
    """The base workload of Rubick's simulator with the plans of the owners."""
    jobs = rubick_jobs(reference, "base").sort("submit_s", maintain_order=True)
    speeds = RubickSpeeds(reference / FOLDER / "tables" / "rubick_seconds_per_iteration.csv")
    plans, iterations = jobs["plan"].to_list(), jobs["iterations"].to_list()

    def work(table: JobTable, _: Cluster) -> WorkLaw:
        known = MeasuredSpeeds(table, speeds, plans, CLUSTERS["a800"][0][1])
        return IterationWork(table, speeds, lambda job, _: plans[job], iterations, known)

    alone = [
        (count + 1) * speeds.seconds(app, closest(gpus, 8), plan)
        for app, gpus, plan, count in jobs.select("app", "requested_gpus", "plan", "iterations").iter_rows()
    ]
    rules = Rules("rubick", "As Rubick's simulator.", round_seconds=ROUND_SECONDS, work=work)
    yield Cell(
        "base a800",
        trace_with(jobs, alone, [RESTART_SECONDS] * len(jobs), elastic=True),
        cluster_named("a800"),
        rules,
        recorded(reference / FOLDER / "rubick", "base", "", jobs),
    )
