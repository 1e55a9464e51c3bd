"""Quantities over time, as steps: GPUs in use, jobs waiting. All in arrays, exact between two changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from muster.runtime.records import CompactTable, Record

FloatArray = npt.NDArray[np.float64]
_ROUNDING = 1e-6
"""Shares below it are the ledger's whole millionths, not a difference."""
_LEAST = 1e-9


@dataclass(frozen=True)
class Steps:
    """A quantity over time (seconds): `values[i]` from `times[i]` until `times[i + 1]`."""

    times: FloatArray
    """Strictly increasing, one longer than `values`."""
    values: FloatArray

    @staticmethod
    def of_changes(times: FloatArray, changes: FloatArray, start: float, end: float) -> Steps:
        """The sum of all changes so far, between start and end; a change outside counts at the border."""
        clipped = np.clip(times, start, end)
        order = np.argsort(clipped, kind="stable")
        ordered, level = clipped[order], np.cumsum(changes[order])
        last_of_instant = np.flatnonzero(np.diff(ordered, append=np.inf) > 0)
        instants, levels = ordered[last_of_instant], level[last_of_instant]
        if instants.size == 0 or instants[0] > start:
            instants, levels = np.insert(instants, 0, start), np.insert(levels, 0, 0.0)
        inside = instants < end
        return Steps(np.append(instants[inside], end), levels[inside])

    def integral_until(self, moments: FloatArray) -> FloatArray:
        """The area under the steps from their start to each moment, in units times seconds."""
        area = np.concatenate(([0.0], np.cumsum(self.values * np.diff(self.times))))
        return np.interp(moments, self.times, area)

    def mean(self) -> float:
        """The time-weighted mean over the whole length; 0 where that is none."""
        length = float(self.times[-1] - self.times[0])
        return float(np.sum(self.values * np.diff(self.times))) / length if length > 0 else 0.0

    def over(self, others: Steps) -> Steps:
        """This quantity over another one of the same stretch of time; 0 where the other is 0."""
        if others.values.size == 1:
            return Steps(self.times, self.values / max(float(others.values[0]), _LEAST))
        times = np.union1d(self.times, others.times)
        value, other = (
            steps.values[np.searchsorted(steps.times, times[:-1], side="right") - 1]
            for steps in (self, others)
        )
        return Steps(times, np.where(other > 0, value / np.maximum(other, _LEAST), 0.0))

    def condensed(self, points: int) -> Steps:
        """At most so many steps: these where they are few, else time-weighted means of equal stretches."""
        if self.values.size <= points:
            return self
        edges = np.linspace(self.times[0], self.times[-1], points + 1)
        return Steps(edges, np.diff(self.integral_until(edges)) / np.diff(edges))


def window(record: Record) -> tuple[float, float]:
    """First submission and last finish of all jobs (seconds); where none finished, the last thing known.

    A record that says until when it goes ends there.
    """
    jobs = record.jobs.filter(pl.col("outcome") != "refused")
    start = _least(jobs["submit_seconds"], default=0.0)
    if (until := record.run.get("until_seconds")) is not None:
        return start, max(start, float(until))
    ends = [_greatest(jobs["finish_seconds"])]
    if ends == [-np.inf]:
        ends = [_greatest(record.allocations[column]) for column in ("from_seconds", "to_seconds")] + [
            _greatest(record.decisions["time_seconds"])
        ]
    return start, max(start, *ends)


def held(record: Record) -> pl.DataFrame:
    """The allocations within the window; one still held at the end reaches to it.

    Jobs that take turns on the same GPUs (`slice_group`) hold them once: of their overlapping stretches on a
    GPU only the first keeps the GPU.
    """
    return compact_held(record).expanded()


def compact_held(record: Record) -> CompactTable:
    """Return the rows of `held` as a compact table."""
    table = record.compact_allocations
    numbers = _within(table.numbers, *window(record))
    if numbers["slice_group"].null_count() == numbers.height:
        return CompactTable(numbers, table.names)
    return CompactTable(_held_once(CompactTable(numbers, table.names).expanded()))


def _within(rows: pl.DataFrame, start: float, end: float) -> pl.DataFrame:
    return rows.with_columns(
        pl.col("from_seconds").clip(start, end), pl.col("to_seconds").fill_null(end).clip(start, end)
    )


def _held_once(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of `held`, where some jobs take turns."""
    alone = rows.filter(pl.col("slice_group").is_null())
    turns = rows.filter(pl.col("slice_group").is_not_null())
    others = turns.with_columns(pl.lit(0.0).alias("gpus"))
    gpus = _first_holders(turns.explode("gpu_ids"), ["node", "slice_group", "gpu_ids"]).with_columns(
        pl.lit(1.0).alias("gpus"),
        *(pl.lit(0.0).alias(column) for column in ("cpus", "memory_gb", "storage_gb_per_s")),
        pl.concat_list("gpu_ids").alias("gpu_ids"),
    )
    return pl.concat([alone, others, gpus])


def gpus_in_use(rows: pl.DataFrame, start: float, end: float) -> Steps:
    """GPUs allocated over time, of the rows of `held`."""
    return Steps.of_changes(*_changes(rows, rows["gpus"].to_numpy()), start, end)


def capacity(record: Record, quantity: str) -> Steps:
    """What all nodes had of a quantity, over time."""
    start, end = window(record)
    spans = record.node_spans()
    return Steps.of_changes(*_changes(spans, spans[quantity].to_numpy()), start, end)


def jobs_in_system(record: Record) -> Steps:
    """Jobs submitted and not finished, over time; refused ones never count."""
    start, end = window(record)
    jobs = record.jobs.filter(pl.col("outcome") != "refused")
    times = np.concatenate(
        (jobs["submit_seconds"].to_numpy(), jobs["finish_seconds"].fill_null(end).to_numpy())
    )
    return Steps.of_changes(times, np.repeat((1.0, -1.0), jobs.height), start, end)


def jobs_waiting(record: Record) -> Steps:
    """Jobs in the system that hold nothing, over time.

    From jobs and allocations, not from decisions: an arrival that only joins the queue is no decision.
    """
    start, end = window(record)
    rows = record.allocations.select(
        "job_id", "from_seconds", pl.col("to_seconds").fill_null(end).clip(start, end).alias("to_seconds")
    )
    running = _first_holders(rows, ["job_id"])
    jobs = record.jobs.filter(pl.col("outcome") != "refused")
    one = np.ones(running.height)
    run_times, run_changes = _changes(running, one)
    times = np.concatenate(
        (jobs["submit_seconds"].to_numpy(), jobs["finish_seconds"].fill_null(end).to_numpy(), run_times)
    )
    changes = np.concatenate((np.repeat((1.0, -1.0), jobs.height), -run_changes))
    return Steps.of_changes(times, changes, start, end)


@dataclass(frozen=True)
class CertifiedSteps:
    """What plans reached and the most that was possible, each decision's until the next."""

    value: Steps
    bound: Steps

    def condensed(self, points: int) -> CertifiedSteps:
        """At most so many steps."""
        return CertifiedSteps(self.value.condensed(points), self.bound.condensed(points))

    def below(self) -> Steps:
        """How far plans stayed below the best possible, as a share of it; NaN while there was nothing to reach."""
        value, bound = self.value.values, self.bound.values
        below = np.full(len(bound), np.nan)
        np.divide(bound - value, bound, out=below, where=bound > 0)
        return Steps(self.bound.times, np.where(np.abs(below) < _ROUNDING, 0.0, below))


def certified(record: Record) -> CertifiedSteps | None:
    """The record's plans beside their bounds; None where no decision has one."""
    start, end = window(record)
    rows = record.decisions.drop_nulls(["value", "bound"]).filter(pl.col("time_seconds") < end)
    rows = rows.unique("time_seconds", keep="last", maintain_order=True)
    if rows.is_empty():
        return None
    times = np.append(rows["time_seconds"].to_numpy().clip(start), end)
    return CertifiedSteps(Steps(times, rows["value"].to_numpy()), Steps(times, rows["bound"].to_numpy()))


def _changes(rows: pl.DataFrame, amounts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Plus the amount where a row begins, minus it where it ends."""
    times = np.concatenate((rows["from_seconds"].to_numpy(), rows["to_seconds"].to_numpy()))
    return times, np.concatenate((amounts, -amounts))


def _first_holders(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The rows cut so that those of one key no longer overlap in time and still cover the same time."""
    ordered = rows.sort(*keys, "from_seconds", "to_seconds")
    covered = pl.col("to_seconds").cum_max().shift(1).over(keys)
    cut = pl.max_horizontal("from_seconds", covered.fill_null(-np.inf)).alias("from_seconds")
    return ordered.with_columns(cut).filter(pl.col("from_seconds") < pl.col("to_seconds"))


def _least(column: pl.Series, default: float) -> float:
    value = column.min()
    return default if value is None else float(value)  # type: ignore[arg-type]


def _greatest(column: pl.Series) -> float:
    value = column.max()
    return -np.inf if value is None else float(value)  # type: ignore[arg-type]
