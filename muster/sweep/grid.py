"""From a sweep file to its cells: all combinations, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.formatting import counted, gpus
from muster.sweep.cell import Cell, FromFile, Made
from muster.sweep.sweep_file import OptionsTable, SweepFile

JOBS_AN_HOUR, OF_GPU_TIME = "jobs an hour", "share of GPU time"


@dataclass(frozen=True)
class Point:
    """A cell and where it stands on the axes of the sweep."""

    workload: str
    """Its description, without its load."""
    load: float | None
    """None: a trace file or a static trace, which has none."""
    load_unit: str
    cluster: str
    options: str
    seed: int
    scheduler: str
    cell: Cell

    @property
    def setting(self) -> tuple[str, str, str]:
        """All but load, seed and scheduler: what one panel of a chart shows."""
        return self.workload, self.cluster, self.options


@dataclass(frozen=True)
class _Workload:
    words: str
    load: float | None
    unit: str
    made: Made | FromFile
    seed: int


def points_of(file: SweepFile) -> list[Point]:
    """All cells of the sweep: the schedulers of one workload next to each other, so that a trace is made once."""
    points = [
        Point(
            workload.words,
            workload.load,
            workload.unit,
            cluster,
            table.name or "",
            workload.seed,
            scheduler.called(),
            Cell(workload.made, cluster, scheduler.name, table.options(workload.seed), scheduler.settings),
        )
        for table in file.options
        for cluster in file.clusters
        for workload in _workloads(file, table)
        for scheduler in file.schedulers
    ]
    # Tables of the file may overlap.
    return list(
        {(*point.setting, point.load, point.seed, point.scheduler): point for point in points}.values()
    )


def _workloads(file: SweepFile, table: OptionsTable) -> Iterator[_Workload]:
    for trace in file.traces:
        # Without chance in the run every seed would give the same.
        seeds = file.seeds if table.failures or table.knowledge.startswith("noisy") else file.seeds[:1]
        for seed in seeds:
            yield _Workload(trace, None, "", FromFile(Path(trace), file.map), seed)
    for words, load, unit, kind, arguments in (*_synergy(file), *_philly_like(file), *_mixed(file)):
        for seed in file.seeds:
            yield _Workload(words, load, unit, Made(kind, {**arguments, "seed": seed}), seed)


_Row = tuple[str, float | None, str, str, Mapping[str, Any]]


def _synergy(file: SweepFile) -> Iterator[_Row]:
    for table in file.synergy:
        for split in table.splits:
            for multi_gpu in table.multi_gpu:
                sizes = "1 to 16 GPUs" if multi_gpu else "1 GPU"
                words = f"{table.jobs:,} {'static ' if table.static else ''}jobs of Synergy, {split}, {sizes}"
                shares: Sequence[int] = [int(share) for share in split.split(",")]
                common = {"jobs": table.jobs, "split": shares, "multi_gpu": multi_gpu, "static": table.static}
                if table.static:
                    yield words, None, "", "synergy", common
                    continue
                for load in table.loads:
                    yield words, load, JOBS_AN_HOUR, "synergy", {**common, "load_per_hour": load}


def _philly_like(file: SweepFile) -> Iterator[_Row]:
    for table in file.philly_like:
        for tenants in table.tenants:
            for load in table.loads:
                arguments = {"jobs": table.jobs, "per_hour": load, "tenants": tenants}
                yield (
                    f"{counted(table.jobs, 'job')} like Philly, {counted(tenants, 'tenant')}",
                    load,
                    JOBS_AN_HOUR,
                    "philly-like",
                    arguments,
                )


def _mixed(file: SweepFile) -> Iterator[_Row]:
    for table in file.mixed:
        for load in table.loads:
            arguments = {"jobs": table.jobs, "gpus": table.gpus, "load": load}
            yield (
                f"{counted(table.jobs, 'mixed job')} for {gpus(table.gpus)}",
                load,
                OF_GPU_TIME,
                "mixed",
                arguments,
            )
