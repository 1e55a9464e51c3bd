"""The jobs of all runs as one text within the page: columns of whole numbers, compressed; `page/data.js` reads it.

Times are whole ticks since the first submission. What mostly follows from what is there already (a job that is never
stopped ends with its only allocation) is written as the difference from it, which compresses to nothing.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from muster.report.timeline import window
from muster.runtime.records import Record
from muster.runtime.waits import reason_text

Whole = npt.NDArray[np.int64]
GREATEST_BLOCK = 3_300_000
"""Bytes of the compressed block; above it, places and reasons of jobs are left out."""
_TICKS = (1.0, 0.1, 0.01, 0.001)
_ENOUGH_TICKS = 100_000
_NEVER = -1
_SHARED = ("job_id", "model", "tenant", "user", "gpus", "submit_seconds")
_OF_A_REASON = ("reason", "parameters", "gpus")
"""Columns that decide its sentence."""
_OWN = ("start_seconds", "finish_seconds", "wait_seconds", "preemptions", "outcome", "measured")


@dataclass(frozen=True)
class RunTables:
    """What the block holds of one run."""

    jobs: pl.DataFrame
    allocations: pl.DataFrame
    reasons: pl.DataFrame
    nodes: pl.DataFrame
    start: float
    end: float
    holding: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of some jobs, why they had what they had in their longest stretch."""


def run_tables(record: Record) -> RunTables:
    """The columns of a record that the block needs."""
    start, end = window(record)
    return RunTables(
        record.jobs.select(*_SHARED, *_OWN),
        record.allocations.select("job_id", "node", "gpu_ids", "gpus", "from_seconds", "to_seconds"),
        record.reasons,
        record.nodes(),
        start,
        end,
    )


def embedded(names: Sequence[str], runs: Sequence[RunTables]) -> str:
    """The block as base64; without places and reasons where it would be too large with them."""
    block = _Block(runs).compressed(names, detailed=True)
    if len(block) > GREATEST_BLOCK:
        block = _Block(runs).compressed(names, detailed=False)
    return base64.b64encode(block).decode("ascii")


class _Block:
    """Columns one after the other, and the header that says which is where."""

    def __init__(self, runs: Sequence[RunTables]) -> None:
        self.runs = runs
        self.start = min(run.start for run in runs)
        length = max(run.end for run in runs) - self.start
        self.tick = next((tick for tick in _TICKS if length / tick >= _ENOUGH_TICKS), _TICKS[-1])
        self.jobs = pl.concat([run.jobs.select(_SHARED) for run in runs]).unique(
            "job_id", keep="first", maintain_order=True
        )
        self.submit = self.moments(self.jobs["submit_seconds"])
        self.parts: list[bytes] = []
        self.first_span: Whole = np.zeros(self.jobs.height, np.int64)

    def compressed(self, names: Sequence[str], *, detailed: bool) -> bytes:
        """All of it, the same bytes each time."""
        ids = self.jobs["job_id"].to_list()
        header = {
            "tick_seconds": self.tick,
            "end": max(int(self.moments(pl.Series([run.end]))[0]) for run in self.runs),
            "jobs": len(ids),
            "ids": None if ids == [str(at) for at in range(len(ids))] else ids,
            "submit": self.column(self.submit, delta=True),
            **{what: self.named(self.jobs[what].fill_null("")) for what in ("model", "tenant", "user")},
            "gpus": self.named(self.jobs["gpus"]),
            "detailed": detailed,
            "runs": [
                {"name": name, **self.run(run, first=at == 0, detailed=detailed)}
                for at, (name, run) in enumerate(zip(names, self.runs, strict=True))
            ],
        }
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        content = len(text).to_bytes(4, "little") + text + b"".join(self.parts)
        return gzip.compress(content, compresslevel=9, mtime=0)

    def run(self, run: RunTables, *, first: bool, detailed: bool) -> dict[str, Any]:
        """One run; the spans of later runs are differences from the first one's."""
        own = self.jobs.select("job_id").join(
            run.jobs.select("job_id", *_OWN), on="job_id", how="left", maintain_order="left"
        )
        start, finish = self.moments(own["start_seconds"]), self.moments(own["finish_seconds"])
        gap = np.where(start == _NEVER, _NEVER, start - self.submit)
        begin = np.where(start == _NEVER, self.submit, start)
        span = np.where(finish == _NEVER, _NEVER, finish - begin)
        described = {
            "end": int(self.moments(pl.Series([run.end]))[0]),
            "nodes": run.nodes["node"].to_list(),
            "node_gpus": run.nodes["gpus"].to_list(),
            "holding": self.holding(run),
            "gap": self.column(gap),
            "span": self.column(span - self.first_span),
            "more_wait": self.column(self.lengths(own["wait_seconds"]) - np.maximum(gap, 0)),
            "preemptions": self.column(own["preemptions"].fill_null(0).to_numpy()),
            "outcome": self.named(own["outcome"].fill_null("absent")),
            "measured": self.column(own["measured"].fill_null(value=False).cast(pl.Int64).to_numpy()),
        }
        if first:
            self.first_span = span
        if not detailed:
            return described
        end = np.where(finish == _NEVER, int(self.moments(pl.Series([run.end]))[0]), finish)
        return {**described, "held": self.held(run, begin, end), "reasons": self.reasons(run)}

    def holding(self, run: RunTables) -> dict[str, Sequence[str]]:
        """The sentences of jobs by their places on the page."""
        places = zip(self.jobs["job_id"].to_list(), range(self.jobs.height), strict=True)
        return {str(place): run.holding[job] for job, place in places if job in run.holding}

    def held(self, run: RunTables, begin: Whole, end: Whole) -> dict[str, Any]:
        """The allocations by job and time: begin from the row before, end from the row before or the job's."""
        rows = self.by_job(run.allocations)
        job = rows["job"].to_numpy()
        since = self.moments(rows["from_seconds"])
        until = np.where(rows["to_seconds"].is_null(), end[job], self.moments(rows["to_seconds"]))
        first = np.diff(job, prepend=-1) != 0
        before = np.where(first, begin[job], np.roll(since, 1))
        same = ~first & (since == before)
        ids = rows["gpu_ids"].cast(pl.List(pl.String())).list.join(",").fill_null("")
        gpus = rows["gpus"].cast(pl.String())
        nodes = pl.concat([run.nodes["node"], pl.Series([""])])
        return {
            "count": self.column(np.bincount(job, minlength=self.jobs.height)),
            "since": self.column(since - before),
            "until": self.column(until - np.where(same, np.roll(until, 1), end[job])),
            "node": self.column(rows["node"].fill_null("").cast(pl.Enum(nodes)).to_physical().to_numpy()),
            "gpus": self.named(gpus + ":" + ids),
        }

    def reasons(self, run: RunTables) -> dict[str, Any]:
        """Why jobs waited, by job and time, each reason as its sentence."""
        rows = self.by_job(run.reasons.with_columns(pl.col("to_seconds").fill_null(run.end)))
        job = rows["job"].to_numpy()
        since, until = self.moments(rows["from_seconds"]), self.moments(rows["to_seconds"])
        first = np.diff(job, prepend=-1) != 0
        rows = rows.with_columns(self.jobs["gpus"].gather(job).alias("gpus"))
        kinds = rows.select(_OF_A_REASON).unique(maintain_order=True)
        texts = [reason_text(*kind) for kind in kinds.iter_rows()]
        sentence = rows.join(
            kinds.with_columns(pl.Series("text", texts, dtype=pl.String)),
            on=_OF_A_REASON,
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        return {
            "count": self.column(np.bincount(job, minlength=self.jobs.height)),
            "since": self.column(since - np.where(first, self.submit[job], np.roll(until, 1))),
            "length": self.column(until - since),
            "text": self.named(sentence["text"]),
        }

    def by_job(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of known jobs in the order of the page, then of time."""
        places = self.jobs.select("job_id").with_row_index("job").cast({"job": pl.Int64})
        return rows.join(places, on="job_id", how="inner").sort(
            "job", "from_seconds", *(name for name in ("node",) if name in rows.columns), maintain_order=True
        )

    def moments(self, seconds: pl.Series) -> Whole:
        """Ticks since the start; `_NEVER` where there is no time."""
        values = seconds.cast(pl.Float64).fill_null(np.nan).to_numpy()
        known = np.isfinite(values)
        ticks = np.rint((np.where(known, values, self.start) - self.start) / self.tick).astype(np.int64)
        return np.where(known, ticks, _NEVER)

    def lengths(self, seconds: pl.Series) -> Whole:
        """Ticks of lengths of time; 0 where there is none."""
        values = seconds.cast(pl.Float64).fill_null(0.0).fill_nan(0.0).to_numpy()
        ticks: Whole = np.rint(values / self.tick).astype(np.int64)
        return ticks

    def column(self, values: npt.NDArray[Any], *, delta: bool = False) -> dict[str, int]:
        """Write a column, bytes of equal weight together; how to read it."""
        whole = values.astype(np.int64)
        steps = np.diff(whole, prepend=0) if delta else whole
        signed = bool(np.any(steps < 0))
        coded = np.where(steps < 0, -2 * steps - 1, 2 * steps) if signed else steps
        width = next(size for size in (1, 2, 3, 4, 6) if int(coded.max(initial=0)) < 1 << (8 * size))
        planes = coded.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
        self.parts.append(np.ascontiguousarray(planes.T).tobytes())
        return {"count": whole.size, "width": width, "signed": int(signed), "delta": int(delta)}

    def named(self, values: pl.Series) -> dict[str, Any]:
        """Write a column of few different values as their numbers in order."""
        names = values.unique().sort()
        numbers = pl.DataFrame({"value": values}).join(
            pl.DataFrame({"value": names}).with_row_index("number"), on="value", maintain_order="left"
        )
        return {"names": names.to_list(), "column": self.column(numbers["number"].to_numpy())}
