"""How far a simulated scheduler repeats the starts that a log records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from muster.report.metrics import distribution
from muster.report.timeline import FloatArray

_SAME_SECONDS = 1.0


def calibration(recorded: pl.DataFrame, runs: Sequence[pl.DataFrame]) -> dict[str, Any]:
    """The figures of runs of one scheduler beside the record; measured jobs that have a start in all of them count.

    All tables are jobs tables of a record. Figures of the runs are means over the runs, which differ in the phases of
    the scheduler's clocks.
    """
    measured = recorded.filter("measured")
    table = measured.select("job_id", "submit_seconds", "start_seconds").drop_nulls()
    for number, run in enumerate(runs):
        starts = run.select("job_id", pl.col("start_seconds").alias(f"run{number}")).drop_nulls()
        table = table.join(starts, on="job_id", how="inner", maintain_order="left")
    submit, start = table["submit_seconds"].to_numpy(), table["start_seconds"].to_numpy()
    figures = [_figures(submit, start, table[f"run{number}"].to_numpy()) for number in range(len(runs))]
    waits = [
        distribution(pl.Series(table[f"run{number}"].to_numpy() - submit)) for number in range(len(runs))
    ]
    means = [wait["mean"] or 0.0 for wait in waits]
    return {
        "jobs": table.height,
        "jobs_in_log": measured.height,
        "runs": len(runs),
        "recorded_wait_seconds": distribution(pl.Series(start - submit)),
        "simulated_wait_seconds": _over_runs(_mean, waits),
        "lowest_wait_seconds": _over_runs(min, waits),
        "highest_wait_seconds": _over_runs(max, waits),
        "mean_wait_deviation_seconds": float(np.std(means)),
        "recorded_overtakes": _overtakes(submit, start),
        **{name: _known_mean([one[name] for one in figures]) for name in figures[0]},
    }


def first_divergence(recorded: pl.DataFrame, run: pl.DataFrame) -> dict[str, Any] | None:
    """The first measured job that one starts more than a second before the other, and what the log held then.

    First by the earlier one of its two starts; None where there is no such job. Logs have whole seconds.
    """
    simulated = run.select("job_id", pl.col("start_seconds").alias("simulated")).drop_nulls()
    starts = recorded.filter("measured").drop_nulls("start_seconds").join(simulated, on="job_id", how="inner")
    apart = starts.filter((pl.col("start_seconds") - pl.col("simulated")).abs() > _SAME_SECONDS)
    if apart.is_empty():
        return None
    first = apart.sort(pl.min_horizontal("start_seconds", "simulated"), "submit_seconds").row(0, named=True)
    submitted = first["submit_seconds"]
    held = recorded.filter((pl.col("start_seconds") <= submitted) & (pl.col("finish_seconds") > submitted))
    return {
        "job_id": first["job_id"],
        "gpus": first["gpus"],
        "submit_seconds": submitted,
        "recorded_wait_seconds": first["start_seconds"] - submitted,
        "simulated_wait_seconds": first["simulated"] - submitted,
        "gpus_held": float(held["gpus"].sum()),
    }


def most_gpus_held(recorded: pl.DataFrame) -> float:
    """The most GPUs that jobs of the log held at one moment."""
    ran = recorded.drop_nulls(["start_seconds", "finish_seconds"])
    changes = pl.concat(
        [
            ran.select(pl.col("start_seconds").alias("time"), pl.col("gpus").alias("change")),
            ran.select(pl.col("finish_seconds").alias("time"), -pl.col("gpus").alias("change")),
        ]
    )
    by_time = changes.group_by("time").agg(pl.col("change").sum()).sort("time")
    return float(by_time["change"].cum_sum().max() or 0.0)  # type: ignore[arg-type]


def _figures(submit: FloatArray, recorded: FloatArray, simulated: FloatArray) -> dict[str, float | None]:
    errors = np.abs(simulated - recorded)
    return {
        "start_error_p50_seconds": float(np.quantile(errors, 0.5)) if errors.size else 0.0,
        "start_error_p90_seconds": float(np.quantile(errors, 0.9)) if errors.size else 0.0,
        "start_order_correlation": _rank_correlation(recorded, simulated),
        "simulated_overtakes": _overtakes(submit, simulated),
    }


def _rank_correlation(one: FloatArray, other: FloatArray) -> float | None:
    """Spearman's rank correlation: 1 where both start the jobs in the same order; None where one starts all at once."""
    at_once = [starts.size < 2 or np.ptp(starts) == 0 for starts in (one, other)]
    if any(at_once):
        return 1.0 if all(at_once) else None
    ranks = [pl.Series(values).rank("average").to_numpy() for values in (one, other)]
    return float(np.corrcoef(np.array(ranks))[0, 1])


def _overtakes(submit: FloatArray, start: FloatArray) -> float:
    """The share of jobs that start before one that was submitted earlier."""
    order = np.argsort(submit, kind="stable")
    latest = np.maximum.accumulate(np.concatenate([[-np.inf], start[order][:-1]]))
    return float(np.mean(start[order] < latest)) if start.size else 0.0


def _over_runs(
    choose: Callable[[list[float]], float], waits: Sequence[Mapping[str, float | None]]
) -> dict[str, float | None]:
    """One of all runs for each statistic of the wait; None where no run has it."""
    found: dict[str, float | None] = {}
    for name in waits[0]:
        known = [wait for one in waits if (wait := one[name]) is not None]
        found[name] = choose(known) if known else None
    return found


def _known_mean(values: Sequence[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return _mean(known) if known else None


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
