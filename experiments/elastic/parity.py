"""The recorded runs of Sia's and Rubick's simulators, repeated by Muster's engine."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.elastic.epoch_work import BatchRule, EpochWork, FixedBatches, SiaWorld
from experiments.elastic.files import FOLDER, FURTHER_FOLDER, read_table
from experiments.elastic.iteration_work import RESTART_SECONDS, IterationWork, RubickSpeeds
from experiments.elastic.recorded import (
    Change,
    RecordedAllocations,
    RecordedBatches,
    changes_of,
    with_ends,
)
from experiments.elastic.worlds import (
    CLUSTERS,
    cluster_named,
    rubick_jobs,
    sia_jobs,
    sia_world,
    trace_with,
)
from muster.cluster import Cluster
from muster.simulation import Options, Rules, simulate
from muster.simulation.rules import WorkLaw
from muster.workload.jobs import JobTable
from muster.workload.trace import Trace

_FURTHER_NODES = 64
"""Of each kind: the runs of Rubick with its defect have up to 344 GPUs at work on 64."""
_GAVEL_ROUND_SECONDS, _ROUND_SECONDS = 360.0, 60.0
_ANY_DURATION = 1.0


@dataclass(frozen=True)
class RecordedRun:
    """One stored run of another simulator."""

    simulator: str
    """sia or rubick"""
    workload: str
    cluster: str
    policy: str
    mode: str = ""

    @property
    def stem(self) -> str:
        """What its files are named after."""
        return "_".join(filter(None, (self.workload, self.cluster, self.policy, self.mode)))

    @property
    def round_seconds(self) -> float:
        """Seconds of its rounds."""
        return _GAVEL_ROUND_SECONDS if self.policy == "gavel" else _ROUND_SECONDS

    @property
    def ships(self) -> bool:
        """Whether the inputs have a licence that lets them ship."""
        return self.simulator == "rubick" or (self.workload.startswith("pollux-") and self.cluster == "homog")


@dataclass(frozen=True)
class Replay:
    """How far the finish times of a repeated run are from the recorded ones."""

    run: RecordedRun
    jobs: int
    largest_difference: float
    mean_jct: float


def recorded_runs(reference: Path) -> list[RecordedRun]:
    """The runs that are stored in a folder of reference data, and whose inputs are there too."""
    folder = reference / FOLDER
    stems = {name: _stems(folder / name) for name in ("sia", "rubick")}
    runs = [
        *(RecordedRun("sia", *stem.split("_")) for stem in stems["sia"]),
        *(
            RecordedRun("rubick", stem.partition("_")[0], "", stem.partition("_")[2])
            for stem in stems["rubick"]
        ),
    ]
    return [run for run in runs if run.ships or (folder / FURTHER_FOLDER).is_dir()]


def _stems(folder: Path) -> list[str]:
    """What the files of each run in a folder are named after."""
    files = folder.glob("allocations_*.csv.xz")
    return sorted(file.name.removeprefix("allocations_").removesuffix(".csv.xz") for file in files)


def replay(reference: Path, run: RecordedRun) -> Replay:
    """Repeat a run: its allocations, its batches and plans, everything else by the laws of its world."""
    folder = reference / FOLDER / run.simulator
    changes = changes_of(read_table(folder / f"allocations_{run.stem}.csv"), only_type="a800")
    expected = read_table(folder / f"jobs_{run.stem}.csv")
    cluster = run.cluster or "a800"
    trace, work = (_of_sia if run.simulator == "sia" else _of_rubick)(reference, run, changes)
    nodes = sum(count for count, *_ in CLUSTERS[cluster])
    rules = Rules(run.stem, "As recorded.", round_seconds=run.round_seconds, work=work)
    made = simulate(
        trace,
        cluster_named(cluster, _FURTHER_NODES),
        RecordedAllocations(with_ends(changes, expected), nodes),
        Options(rules=rules, network="none"),
        models={},
    )
    jobs = made.record.jobs.join(expected.select(job_id="job", expected="end_s"), on="job_id")
    off = (jobs["finish_seconds"] - jobs["expected"]).abs().fill_null(float("inf"))
    return Replay(run, len(jobs), float(off.to_numpy().max()), float(jobs["jct_seconds"].to_numpy().mean()))


Law = Callable[[JobTable, Cluster], WorkLaw]


def _of_sia(reference: Path, run: RecordedRun, changes: Sequence[Change]) -> tuple[Trace, Law]:
    """The jobs of a run of Sia's simulator, and their law; a fixed batch follows from the rule, no other does."""
    world = sia_world(reference, run.round_seconds)
    jobs = sia_jobs(reference, run.workload)

    def batches(table: JobTable, world: SiaWorld) -> BatchRule:
        return RecordedBatches(changes, table) if run.mode == "adaptive" else FixedBatches(table, world)

    def work(table: JobTable, cluster: Cluster) -> WorkLaw:
        return EpochWork(table, cluster, world, batches(table, world))

    pauses = [world.applications[name].restart_seconds for name in jobs["app"]]
    return trace_with(jobs, [_ANY_DURATION] * len(jobs), pauses, elastic=True), work


def _of_rubick(reference: Path, run: RecordedRun, changes: Sequence[Change]) -> tuple[Trace, Law]:
    """The jobs of a run of Rubick's simulator, and their law with the recorded plans."""
    jobs = rubick_jobs(reference, run.workload)
    speeds = RubickSpeeds(reference / FOLDER / "tables" / "rubick_seconds_per_iteration.csv")
    of_job: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        of_job[change.job].append(change)

    def work(table: JobTable, _: Cluster) -> WorkLaw:
        mine = [of_job[name] for name in table.ids]

        def plan(job: int, now: float) -> str:
            return mine[job][bisect_right(mine[job], now, key=lambda change: change.at) - 1].plan

        return IterationWork(table, speeds, plan, iterations)

    iterations = jobs.sort("submit_s", maintain_order=True)["iterations"].to_list()
    return trace_with(jobs, [_ANY_DURATION] * len(jobs), [RESTART_SECONDS] * len(jobs), elastic=True), work


def lines(reference: Path) -> Iterator[str]:
    """A line for each run, and one for all of them."""
    finish_times, runs, within = 0, 0, 0
    for run in recorded_runs(reference):
        made = replay(reference, run)
        runs, finish_times = runs + 1, finish_times + made.jobs
        within += made.largest_difference <= 1.0
        yield (
            f"{run.simulator:6} {run.stem:40} {made.jobs} jobs, largest difference of a finish time "
            f"{made.largest_difference:.2g} s, mean JCT {made.mean_jct:,.1f} s"
        )
    yield f"{within} of {runs} runs with all finish times within 1 s; {finish_times:,} finish times"
