"""How far a simulated scheduler repeats the starts that a log records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from muster.report.metrics import distribution
from muster.report.timeline import FloatArray


def calibration(recorded: pl.DataFrame, runs: Sequence[pl.DataFrame]) -> dict[str, Any]:
    """The figures of runs of one scheduler beside the record; jobs that have a start in all of them count.

    All tables are jobs tables of a record. Figures of the runs are means over the runs, which differ in the phases of
    the scheduler's clocks.
    """
    table = recorded.select("job_id", "submit_seconds", "start_seconds").drop_nulls()
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
        "jobs_in_log": recorded.height,
        "runs": len(runs),
        "recorded_wait_seconds": distribution(pl.Series(start - submit)),
        "simulated_wait_seconds": {name: _mean([wait[name] for wait in waits]) for name in waits[0]},
        "mean_wait_deviation_seconds": float(np.std(means)),
        "recorded_overtakes": _overtakes(submit, start),
        **{name: _mean([one[name] for one in figures]) for name in figures[0]},
    }


def _figures(submit: FloatArray, recorded: FloatArray, simulated: FloatArray) -> dict[str, float]:
    errors = np.abs(simulated - recorded)
    return {
        "start_error_p50_seconds": float(np.quantile(errors, 0.5)) if errors.size else 0.0,
        "start_error_p90_seconds": float(np.quantile(errors, 0.9)) if errors.size else 0.0,
        "start_order_correlation": _rank_correlation(recorded, simulated),
        "simulated_overtakes": _overtakes(submit, simulated),
    }


def _rank_correlation(one: FloatArray, other: FloatArray) -> float:
    """Spearman's rank correlation: 1 where both start the jobs in the same order."""
    if one.size < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 1.0
    ranks = [pl.Series(values).rank("average").to_numpy() for values in (one, other)]
    return float(np.corrcoef(np.array(ranks))[0, 1])


def _overtakes(submit: FloatArray, start: FloatArray) -> float:
    """The share of jobs that start before one that was submitted earlier."""
    order = np.argsort(submit, kind="stable")
    latest = np.maximum.accumulate(np.concatenate([[-np.inf], start[order][:-1]]))
    return float(np.mean(start[order] < latest)) if start.size else 0.0


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
