"""The figures of a comparison for programs and for people: one row a run, the same in JSON, CSV and Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from muster.formatting import as_json_text, markdown_table
from muster.report.metrics import NOT_COMPLETED, QUANTILES, value_at


class Column(NamedTuple):
    """One column of `comparison.csv`."""

    name: str
    """With its unit, where it has one."""
    path: str
    """Where the figure stands in `summary.json`."""
    meaning: str


_STATISTICS = {
    "mean": "mean",
    **{name: f"quantile {share:g}" for name, share in QUANTILES.items()},
    "max": "largest",
}
_OUTCOMES = {
    "unfinished": "jobs that had not ended when the run ended",
    "timed_out": "jobs that ended at their time limit",
    "failed": "jobs that failed",
    "cancelled": "jobs that were cancelled",
    "refused": "jobs that the cluster can never hold; not in `jobs`",
}
COLUMNS: Sequence[Column] = (
    Column("scheduler", "scheduler", "full name of the scheduler; `recorded` is the history of the log"),
    Column("cluster", "cluster", "name of the cluster"),
    Column("jobs", "jobs", "jobs that are measured"),
    Column("completed", "completed", "measured jobs that completed; times are of these"),
    *(Column(kind, kind, _OUTCOMES[kind]) for kind in NOT_COMPLETED),
    Column("jobs_in_record", "jobs_in_record", "all jobs of the run"),
    Column("makespan_seconds", "makespan_seconds", "from the first submission to the last end"),
    *(
        Column(f"{short}_{name}{unit}", f"{path}.{name}", f"{what}: {statistic}")
        for short, path, unit, what in (
            ("jct", "jct_seconds", "_seconds", "completion time, from submission to end"),
            ("wait", "wait_seconds", "_seconds", "time without an allocation, time between starts included"),
            (
                "slowdown",
                "slowdown",
                "",
                "completion time over the time that the job takes if it never waits",
            ),
        )
        for name, statistic in _STATISTICS.items()
    ),
    *(
        Column(f"{name}_use", f"utilization.{name}", f"{what} held over {what} there, over time; 0 to 1")
        for name, what in (
            ("gpu", "GPUs"),
            ("cpu", "CPU cores"),
            ("memory", "memory"),
            ("storage", "storage bandwidth"),
        )
    ),
    Column(
        "fragmentation",
        "fragmentation",
        "share of free GPUs that a job of the trace, drawn at random, cannot use; 0 to 1",
    ),
    Column("preemptions", "preemptions", "stops with work left, node failures included"),
    Column("restart_loss", "restart_loss", "GPU time that went into restarts over all GPU time; 0 to 1"),
    Column("moves", "moves", "changes of place or size without a wait in between"),
    *(
        Column(f"{stage}_seconds", f"stage_seconds.{stage}", f"time of all jobs that went into {what}")
        for stage, what in (
            ("input_stall", "waiting for input data"),
            ("compute", "computing"),
            ("communication", "communication"),
            ("restart", "restarts"),
        )
    ),
    Column("jain_fairness", "fairness.jain", "Jain's index over the tenants; 1 is equal"),
    Column("rho_mean", "fairness.rho_mean", "finish-time fairness, mean; up to 1 is fair"),
    Column("rho_max", "fairness.rho_max", "finish-time fairness, worst job"),
    Column("utility_total", "utility.total", "sum of the utility of jobs that have one"),
    Column("utility_on_target", "utility.on_target", "share of these done by their target; 0 to 1"),
    Column("deadline_jobs", "deadlines.jobs", "jobs that state a deadline"),
    Column("deadlines_met", "deadlines.met", "share of these that completed by it; 0 to 1"),
    Column("gap_mean", "below_best.mean", "optimality gap of decisions, mean over time; 0 to 1"),
    Column("gap_p99", "below_best.p99", "optimality gap of decisions, quantile 0.99 over time; 0 to 1"),
    Column(
        "jct_bound_seconds",
        "jct_bound.mean_seconds",
        "mean completion time that no scheduler can go below",
    ),
    Column("jct_mean_over_bound", "jct_bound.mean_over_bound", "mean completion time over that bound"),
    *(
        column
        for name, what in (("share", "its machines"), ("slowest_share", "the slowest machines it may use"))
        for column in (
            Column(
                f"slowest_of_{name}",
                f"slowest_moment.of_{name}",
                f"lowest speed of any job over that with its GPU-proportional share of {what}",
            ),
            Column(
                f"jobs_below_{name}",
                f"slowest_moment.jobs_below_{name}",
                "jobs that were once slower than with that share",
            ),
        )
    ),
    Column("decisions", "decisions", "decisions of the scheduler"),
)
"""What a table of a comparison states of each run, in the order of its columns."""
_DECIMALS = 4
"""In Markdown."""


def row_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of one run, by the names of `COLUMNS`."""
    return {column.name: value_at(summary, column.path) for column in COLUMNS}


def write_comparison(
    folder: Path,
    runs: Sequence[str],
    summaries: Mapping[str, Mapping[str, Any]],
    more: Mapping[str, Any],
) -> None:
    """Write `comparison.json`, `comparison.csv` and `comparison.md`.

    `runs` are the folders of the simulated runs; `summaries` has these and the recorded history, if any; `more` is
    what else `comparison.json` has.
    """
    rows = [{"run": name, **row_of(summary)} for name, summary in summaries.items()]
    content = as_json_text({"runs": list(runs), "figures": rows, **more})
    (folder / "comparison.json").write_text(content, encoding="utf-8")
    pl.DataFrame(rows, infer_schema_length=None).write_csv(folder / "comparison.csv")
    (folder / "comparison.md").write_text(_markdown(rows), encoding="utf-8")


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table with a column a run; a figure that no run has is left out."""
    header, *figures = ([name, *(row[name] for row in rows)] for name in rows[0])
    stated = [figure for figure in figures if any(value is not None for value in figure[1:])]
    return markdown_table(header, [[_cell(value) for value in figure] for figure in stated])


def _cell(value: str | float | None) -> str:
    if isinstance(value, float):
        text = f"{value:.{_DECIMALS}f}"
        return text.rstrip("0").rstrip(".")
    return "" if value is None else str(value)
