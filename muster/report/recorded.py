"""The history that a trace records, as a record and figures of its own: what the site's own scheduler did."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.report.metrics import summarise
from muster.runtime.records import ALLOCATIONS, DECISIONS, JOBS, REASONS, CompactTable, Record
from muster.workload.trace import Trace, in_range

REFUSED = "refused"
RECORDED = "recorded"
"""The name of the row in a comparison."""


def has_starts(trace: Trace) -> bool:
    """Whether the trace says when any of its jobs started."""
    return trace.jobs["start_seconds"].is_not_null().any()


def summary_of(record: Record) -> dict[str, Any]:
    """The figures of `summary.json` for the recorded starts and ends; those that need places are None.

    Jobs whose start is not recorded count as unfinished.
    """
    on_any = pl.lit(record.nodes()["node"][0]).alias("node")  # Sums over the cluster need some node.
    record = replace(record, compact_allocations=CompactTable(record.allocations.with_columns(on_any)))
    return {**summarise(record), "fragmentation": None}


def refused_by_all(records: Iterable[Path]) -> set[str]:
    """The jobs that every one of some runs has left out, by the folders of their records."""
    tables = (pl.read_parquet(folder / "jobs.parquet", columns=["job_id", "outcome"]) for folder in records)
    return set.intersection(*({*one.filter(outcome=REFUSED)["job_id"]} for one in tables))


def recorded(
    trace: Trace,
    cluster: Cluster,
    measure: tuple[int, int] | None = None,
    left_out: Collection[str] = (),
) -> Record:
    """The recorded history: a job without a recorded end ends after its duration. Nodes are not known.

    With `measure`, jobs with ids from the first to the last number count in the statistics; without it, all do. Those
    `left_out` count as refused, as they do in the runs beside it.
    """
    jobs = trace.jobs.sort("submit_seconds", maintain_order=True)
    refused = jobs["job_id"].is_in(list(left_out))
    moments = ("start_seconds", "end_seconds")
    jobs = jobs.with_columns(pl.when(~refused).then(pl.col(name)).alias(name) for name in moments)
    gpus = jobs["gpus"] * (jobs["gpu_milli"] / 1000)
    duration = jobs["duration_seconds"]
    end = jobs["end_seconds"].fill_null(jobs["start_seconds"] + duration)
    # Without a start the end is that of a job that was cancelled while it waited, as some logs have it.
    end = end.set(jobs["start_seconds"].is_null(), None)
    ended = end.is_not_null()
    run = end - jobs["start_seconds"]
    known = {
        **{
            name: jobs[name]
            for name in ("job_id", "model", "tenant", "user", "submit_seconds", "start_seconds")
        },
        "gpus": gpus,
        "finish_seconds": end,
        "jct_seconds": end - jobs["submit_seconds"],
        "wait_seconds": jobs["start_seconds"] - jobs["submit_seconds"],
        "run_seconds": run.fill_null(0.0),
        "ideal_seconds": duration.fill_null(run),
        "attained_gpu_seconds": (run * gpus).fill_null(0.0),
        "preemptions": jobs["requeues"],
        "deadline_seconds": jobs["deadline_seconds"],
        "outcome": ended.replace_strict({True: "completed", False: "unfinished"}, return_dtype=pl.String).set(
            refused, REFUSED
        ),
        "measured": in_range(jobs["job_id"], measure) & ~refused,
    }
    held = {
        "job_id": jobs["job_id"].filter(ended),
        "gpus": gpus.filter(ended),
        "from_seconds": jobs["start_seconds"].filter(ended),
        "to_seconds": end.filter(ended),
    }
    return Record(
        jobs=_table(known, JOBS, len(jobs)),
        compact_allocations=CompactTable(_table(held, ALLOCATIONS, int(ended.sum()))),
        decisions=pl.DataFrame(schema=dict(DECISIONS)),
        compact_reasons=CompactTable(pl.DataFrame(schema=dict(REASONS))),
        run={
            "trace": {"source": trace.source, "notes": list(trace.notes)},
            "cluster": cluster.to_dict(),
            "scheduler": {"name": RECORDED},
            "rules": {"name": RECORDED},
            "knowledge": "",
            "unknown_resources": ["cpu", "memory", "storage"],
        },
    )


def _table(columns: dict[str, pl.Series], schema: Any, rows: int) -> pl.DataFrame:
    """A table of a record with these columns; counts that are not known are 0, all else is null."""
    made = []
    for name, kind in schema.items():
        if name in columns:
            made.append(columns[name].cast(kind).alias(name))
        elif kind == pl.Int64 and name != "slice_group":
            made.append(pl.Series(name, np.zeros(rows, np.int64)))
        else:
            made.append(pl.repeat(None, rows, dtype=kind, eager=True).alias(name))
    return pl.DataFrame(made)
