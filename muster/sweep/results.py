"""What a sweep found: a row a cell, and over the seeds the mean of every figure with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from muster.report.comparison import row_of
from muster.report.metrics import NOT_COMPLETED, complete_the_same_jobs
from muster.sweep.grid import Point
from muster.sweep.pieces import name_of
from muster.sweep.statistics import Estimate, estimate, relative_difference

FIGURES = (
    "jct_mean_seconds",
    "jct_p50_seconds",
    "jct_p90_seconds",
    "jct_p99_seconds",
    "wait_mean_seconds",
    "wait_p99_seconds",
    "makespan_seconds",
    "slowdown_mean",
    "rho_mean",
    "gpu_use",
    "cpu_use",
    "memory_use",
    "fragmentation",
    "preemptions",
)
"""Columns of a comparison of which a sweep has means."""

OF_COMPLETED = tuple(
    name for name in FIGURES if name.startswith(("jct_", "wait_", "makespan_", "slowdown_", "rho_"))
)
"""Columns that are of the jobs that complete."""

COUNTS = ("jobs", "completed", *NOT_COMPLETED)
PLACE = ("workload", "load", "load_unit", "cluster", "options", "scheduler")
"""What distinguishes a mean over seeds from the others."""

SCHEMA: Mapping[str, pl.DataType] = {
    "cell": pl.String(),
    **dict.fromkeys(PLACE, pl.String()),
    "load": pl.Float64(),
    "seed": pl.Int64(),
    **dict.fromkeys(COUNTS, pl.Int64()),
    **dict.fromkeys(FIGURES, pl.Float64()),
}


@dataclass(frozen=True)
class Mean:
    """One scheduler at one load of one setting, over all seeds."""

    workload: str
    load: float | None
    load_unit: str
    cluster: str
    options: str
    scheduler: str
    figures: Mapping[str, Estimate | None]
    """By column; None where a seed has no such figure."""
    against_first: Mapping[str, Estimate | None]
    """The relative difference to the first scheduler on the same seeds; None where it says nothing, as where a figure
    is of the jobs that complete and these are others."""
    not_completed: Mapping[str, int]
    """Jobs of all seeds that are not in the figures, by kind, as `timed_out`."""

    @property
    def setting(self) -> tuple[str, str, str]:
        """What one panel of a chart shows."""
        return self.workload, self.cluster, self.options


def cells_frame(points: Sequence[Point], summaries: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A row a cell, in the order of the sweep."""
    rows = [
        {
            "cell": name_of(point.cell),
            **{name: getattr(point, name) for name in PLACE},
            "seed": point.seed,
            **{name: row[name] for name in COUNTS},
            **{name: row[name] for name in FIGURES},
        }
        for point, row in zip(points, map(row_of, summaries), strict=True)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def means_of(cells: pl.DataFrame) -> list[Mean]:
    """The means over seeds, by setting, load and scheduler, in the order of the sweep."""
    columns: dict[tuple[Any, ...], pl.DataFrame] = dict(cells.group_by(*PLACE, maintain_order=True))
    first_scheduler = cells["scheduler"][0]
    found = []
    for place, rows in columns.items():
        workload, load, load_unit, cluster, options, scheduler = place
        first = columns[(*place[:-1], first_scheduler)]
        beside = FIGURES if _of_the_same_jobs(rows, first) else [*{*FIGURES} - {*OF_COMPLETED}]
        found.append(
            Mean(
                workload,
                load,
                load_unit,
                cluster,
                options,
                scheduler,
                figures={name: _estimate(rows[name]) for name in FIGURES},
                against_first={
                    name: _difference(rows[name], first[name])
                    if rows is not first and name in beside
                    else None
                    for name in FIGURES
                },
                not_completed={kind: int(rows[kind].sum()) for kind in NOT_COMPLETED},
            )
        )
    return found


def as_rows(means: Sequence[Mean]) -> list[dict[str, Any]]:
    """The means as flat rows: of every figure its mean, half width, difference to the first, half width."""
    rows = []
    for mean in means:
        row: dict[str, Any] = {name: getattr(mean, name) for name in PLACE}
        row["seeds"] = next((entry.seeds for entry in mean.figures.values() if entry), 0)
        for name in FIGURES:
            for suffix, entry in (("", mean.figures[name]), ("_vs_first", mean.against_first[name])):
                row[f"{name}{suffix}"] = entry and entry.mean
                row[f"{name}{suffix}_half_width"] = entry and entry.half_width
        rows.append(row)
    return rows


def as_json(means: Sequence[Mean]) -> list[dict[str, Any]]:
    """The means as they stand in `sweep.json`."""
    return [asdict(mean) for mean in means]


def _estimate(values: pl.Series) -> Estimate | None:
    return None if values.null_count() else estimate(values.to_list())


def _of_the_same_jobs(rows: pl.DataFrame, first: pl.DataFrame) -> bool:
    """Whether two schedulers complete the same jobs with each seed."""
    pairs = zip(rows.iter_rows(named=True), first.iter_rows(named=True), strict=True)
    return all(map(complete_the_same_jobs, pairs))


def _difference(values: pl.Series, first: pl.Series) -> Estimate | None:
    if values.null_count() or first.null_count():
        return None
    return relative_difference(values.to_list(), first.to_list())
