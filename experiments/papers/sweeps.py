"""An experiment that is a sweep: its cells, its means, and how many times better one scheduler is than another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from experiments.papers.experiment import Result
from muster.report.drawing import Chart, time_unit
from muster.sweep.charts import Spot, load_chart, point_chart
from muster.sweep.grid import Point, points_of
from muster.sweep.pieces import Piece
from muster.sweep.results import PLACE, Mean, cells_frame, means_of
from muster.sweep.statistics import Estimate, estimate
from muster.sweep.sweep_file import SweepFile


@dataclass(frozen=True)
class Ratio:
    """How many times the figure of a better scheduler the base's is, in one place of the sweep."""

    workload: str
    cluster: str
    load: float | None
    base: str
    better: str
    value: Estimate

    def __str__(self) -> str:
        """`1.93 ± 0.12`; the interval is that of the mean over seeds."""
        width = "" if self.value.half_width is None else f" ± {self.value.half_width:.2f}"
        return f"{self.value.mean:.2f}{width}"


def sweep_of(**fields: Any) -> SweepFile:
    """A sweep as its file would say it."""
    return SweepFile.model_validate(fields)


def pieces_of(sweep: SweepFile) -> Sequence[Piece]:
    """The cells to run."""
    return [point.cell for point in points_of(sweep)]


def table_of(sweep: SweepFile, results: Sequence[Result]) -> pl.DataFrame:
    """A row a cell."""
    points: Sequence[Point] = points_of(sweep)
    return cells_frame(points, results)


def ratios(cells: pl.DataFrame, figure: str, pairs: Mapping[str, str]) -> list[Ratio]:
    """For each better scheduler its base's figure over its own: a ratio a seed, then their mean."""
    found = []
    where = [name for name in PLACE if name != "scheduler"]
    for place, rows in cells.group_by(*where, maintain_order=True):
        of = dict(zip(where, place, strict=True))
        figures = {
            scheduler: group[figure].to_list()
            for (scheduler,), group in rows.group_by("scheduler", maintain_order=True)
        }
        for better, base in pairs.items():
            if better in figures and base in figures:
                values = [one / other for one, other in zip(figures[base], figures[better], strict=True)]
                found.append(
                    Ratio(str(of["workload"]), str(of["cluster"]), of["load"], base, better, estimate(values))
                )
    return found


def jct_chart(
    name: str,
    title: str,
    cells: pl.DataFrame,
    clusters: Mapping[str, str] | None = None,
    figure: str = "jct_mean_seconds",
) -> Chart:
    """A time against the load, a panel an order of serving (and cluster, where named), a line an allocation."""
    means = means_of(cells)
    known = [(mean, mean.figures[figure]) for mean in means]
    seconds, unit = time_unit(max(entry.mean for _, entry in known if entry))
    spots = [
        Spot(
            _panel(mean, clusters or {}),
            mean.scheduler.partition("+")[2],
            mean.load,
            entry.mean / seconds,
            None if entry.half_width is None else entry.half_width / seconds,
        )
        for mean, entry in known
        if entry
    ]
    seeds = cells["seed"].n_unique()
    note = f"Means over {seeds} seeds; bars: 95 % interval." if seeds > 1 else "One seed."
    if len({spot.load for spot in spots}) > 1:
        return load_chart(name, title, note, spots, f"Load, {means[0].load_unit}", unit)
    return point_chart(name, title, note, spots, unit)


def _panel(mean: Mean, clusters: Mapping[str, str]) -> str:
    order = mean.scheduler.partition("+")[0].upper()
    return f"{order} · {clusters[mean.cluster]}" if clusters else order
