"""The figures of a comparison for programs and for people: one row a run, the same in JSON, CSV and Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from muster.formatting import as_json_text, markdown_cell, markdown_table
from muster.report.metrics import NOT_COMPLETED, QUANTILES, value_at


class ComparisonColumn(NamedTuple):
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
COLUMNS: Sequence[ComparisonColumn] = (
    ComparisonColumn(
        "scheduler", "scheduler", "full name of the scheduler; `recorded` is the history of the log"
    ),
    ComparisonColumn("cluster", "cluster", "name of the cluster"),
    ComparisonColumn("jobs", "jobs", "jobs that are measured"),
    ComparisonColumn("completed", "completed", "measured jobs that completed; times are of these"),
    *(ComparisonColumn(kind, kind, _OUTCOMES[kind]) for kind in NOT_COMPLETED),
    ComparisonColumn("jobs_in_record", "jobs_in_record", "all jobs of the run"),
    ComparisonColumn("makespan_seconds", "makespan_seconds", "from the first submission to the last end"),
    *(
        ComparisonColumn(f"{short}_{name}{unit}", f"{path}.{name}", f"{what}: {statistic}")
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
        ComparisonColumn(
            f"{name}_use", f"utilization.{name}", f"{what} held over {what} there, over time; 0 to 1"
        )
        for name, what in (
            ("gpu", "GPUs"),
            ("cpu", "CPU cores"),
            ("memory", "memory"),
            ("storage", "storage bandwidth"),
        )
    ),
    ComparisonColumn(
        "fragmentation",
        "fragmentation",
        "share of free GPUs that a job of the trace, drawn at random, cannot use; 0 to 1",
    ),
    ComparisonColumn("preemptions", "preemptions", "stops with work left, node failures included"),
    ComparisonColumn(
        "restart_loss", "restart_loss", "GPU time that went into restarts over all GPU time; 0 to 1"
    ),
    ComparisonColumn("moves", "moves", "changes of place or size without a wait in between"),
    *(
        ComparisonColumn(
            f"{stage}_seconds", f"stage_seconds.{stage}", f"time of all jobs that went into {what}"
        )
        for stage, what in (
            ("input_stall", "waiting for input data"),
            ("compute", "computing"),
            ("communication", "communication"),
            ("restart", "restarts"),
        )
    ),
    ComparisonColumn("jain_fairness", "fairness.jain", "Jain's index over the tenants; 1 is equal"),
    ComparisonColumn("rho_mean", "fairness.rho_mean", "finish-time fairness, mean; up to 1 is fair"),
    ComparisonColumn("rho_max", "fairness.rho_max", "finish-time fairness, worst job"),
    ComparisonColumn("utility_total", "utility.total", "sum of the utility of jobs that have one"),
    ComparisonColumn("utility_on_target", "utility.on_target", "share of these done by their target; 0 to 1"),
    ComparisonColumn("deadline_jobs", "deadlines.jobs", "jobs that state a deadline"),
    ComparisonColumn("deadlines_met", "deadlines.met", "share of these that completed by it; 0 to 1"),
    ComparisonColumn("gap_mean", "below_best.mean", "optimality gap of decisions, mean over time; 0 to 1"),
    ComparisonColumn(
        "gap_p99", "below_best.p99", "optimality gap of decisions, quantile 0.99 over time; 0 to 1"
    ),
    ComparisonColumn(
        "jct_bound_seconds",
        "jct_bound.mean_seconds",
        "mean completion time that no scheduler can go below",
    ),
    ComparisonColumn(
        "jct_mean_over_bound", "jct_bound.mean_over_bound", "mean completion time over that bound"
    ),
    *(
        column
        for name, what in (("share", "its machines"), ("slowest_share", "the slowest machines it may use"))
        for column in (
            ComparisonColumn(
                f"slowest_of_{name}",
                f"slowest_moment.of_{name}",
                f"lowest speed of any job over that with its GPU-proportional share of {what}",
            ),
            ComparisonColumn(
                f"jobs_below_{name}",
                f"slowest_moment.jobs_below_{name}",
                "jobs that were once slower than with that share",
            ),
        )
    ),
    ComparisonColumn("decisions", "decisions", "decisions of the scheduler"),
)
"""What a table of a comparison states of each run, in the order of its columns."""


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
    return markdown_table(header, [[markdown_cell(value) for value in figure] for figure in stated])
