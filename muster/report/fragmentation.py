"""How much of what is free is free in the wrong pieces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl

from muster.cluster.ledger_arrays import Ints
from muster.problems import InputError, Problem
from muster.report.free_time import seconds_free
from muster.report.timeline import FloatArray, window
from muster.runtime.records import CompactTable, Record

THOUSANDTHS = 1000
"""Of a GPU, as shares are counted."""


def fragmentation(record: Record, held: CompactTable) -> float | None:
    """The share of free GPUs that a job of this trace, drawn at random, cannot use where they are.

    After the measure of Weng et al. (Beware of Fragmentation, ATC 2023), in GPUs only, weighted by time: on a
    node with f GPUs free, all f are lost to a job whose piece there, the lesser of its gang and the whole
    node, is larger than f. None where no GPU was ever free. `held` has the rows of `compact_held`.
    """
    start, end = window(record)
    nodes = record.nodes().with_row_index("code")
    code = held.numbers_among("node", nodes["node"]).cast(nodes["code"].dtype)
    if code.null_count():
        found = held.expanded()["node"].filter(code.is_null())[0]
        allowed = "allowed: the nodes of the clusters in run.json"
        raise InputError(Problem("allocations.parquet", allowed, column="node", found=found))
    rows = held.numbers.select(code.alias("code"), "from_seconds", "to_seconds", "gpus")
    absent = _absent(record, nodes, start, end)
    rows = pl.concat([rows, absent]) if absent.height else rows
    stretches = (
        rows["code"].to_numpy().astype(np.int64),
        rows["from_seconds"].to_numpy(),
        rows["to_seconds"].to_numpy(),
        _thousandths(rows["gpus"]),
    )
    seconds = seconds_free(stretches, _thousandths(nodes["gpus"]), start, end)
    amounts = np.arange(seconds.shape[1]) / THOUSANDTHS
    total = float(np.sum(seconds @ amounts))
    lost = float(np.sum(seconds[0] * amounts * _share_of_jobs_larger_than(amounts, record)))
    return lost / total if total > 0 else None


def _thousandths(gpus: pl.Series) -> Ints:
    """Of GPUs, the unit of shares: whole numbers add up without rounding."""
    whole: Ints = np.rint(gpus.to_numpy() * THOUSANDTHS).astype(np.int64)
    return whole


def _absent(record: Record, nodes: pl.DataFrame, start: float, end: float) -> pl.DataFrame:
    """What nodes did not have at times, of the most that they ever had, as if it was held."""
    missing = pl.col("most") - pl.col("gpus")
    spans = record.node_spans().join(
        nodes.select("node", "code", pl.col("gpus").alias("most")), on="node", maintain_order="left"
    )
    moments = [since for since, _ in record.clusters()] + [np.inf]
    rows = []
    for since, until in pairwise(moments):
        there = spans.filter(pl.col("from_seconds") == since)
        gone = nodes.join(there, on="node", how="anti").select("code", "gpus")
        smaller = there.filter(missing > 0).select("code", missing.alias("gpus"))
        times = [
            pl.lit(float(np.clip(one, start, end))).alias(name)
            for one, name in ((since, "from_seconds"), (until, "to_seconds"))
        ]
        rows.append(pl.concat([gone, smaller]).select("code", *times, "gpus"))
    return pl.concat(rows)


def _share_of_jobs_larger_than(free: FloatArray, record: Record) -> FloatArray:
    """Of the jobs not refused, the share that asks for more GPUs than each amount."""
    gangs = np.sort(record.jobs.filter(pl.col("outcome") != "refused")["gpus"].to_numpy())
    share: FloatArray = 1.0 - np.searchsorted(gangs, free, side="right") / max(1, gangs.size)
    return share
