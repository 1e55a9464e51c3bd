"""How much of what is free is free in the wrong pieces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl

from muster.report.timeline import FloatArray, held, window
from muster.runtime.records import Record

DECIMALS = 6
"""Of a GPU: shares come in thousandths, what is finer is the rounding of sums."""


def fragmentation(record: Record) -> float | None:
    """The share of free GPUs that a job of this trace, drawn at random, cannot use where they are.

    After the measure of Weng et al. (Beware of Fragmentation, ATC 2023), in GPUs only, weighted by time: on a
    node with f GPUs free, all f are lost to a job whose piece there, the lesser of its gang and the whole
    node, is larger than f. None where no GPU was ever free.
    """
    start, end = window(record)
    nodes = record.nodes().with_row_index("code")
    code_of_node = pl.col("node").cast(pl.Enum(nodes["node"])).to_physical().cast(nodes["code"].dtype)
    rows = held(record).select(code_of_node.alias("code"), "from_seconds", "to_seconds", "gpus")
    absent = _absent(record, nodes, start, end)
    rows = pl.concat([rows, absent]) if absent.height else rows
    # A stable sort of small whole numbers is a radix sort, many times faster than one by two columns.
    narrow = np.min_scalar_type(nodes.height)
    codes, gpus = rows["code"].to_numpy().astype(narrow), rows["gpus"].to_numpy()
    code = np.concatenate((nodes["code"].to_numpy().astype(narrow), codes, codes))
    time = np.concatenate((np.full(nodes.height, start), rows["from_seconds"], rows["to_seconds"]))
    change = np.concatenate((np.zeros(nodes.height), gpus, -gpus))
    order = np.argsort(time, kind="stable")
    order = order[np.argsort(code[order], kind="stable")]
    code, time, change = code[order], time[order], change[order]
    # Every node ends with nothing held, so one running sum serves all nodes.
    used = np.round(np.cumsum(change), DECIMALS)
    until = np.append(time[1:], end)
    until[np.flatnonzero(code[1:] != code[:-1])] = end
    capacity = nodes["gpus"].to_numpy()[code]
    free = np.clip(capacity - used, 0.0, capacity)
    free_seconds = free * (until - time)
    lost = np.where(free < capacity, _share_of_jobs_larger_than(free, record), 0.0)
    total = float(np.sum(free_seconds))
    return float(np.sum(free_seconds * lost)) / total if total > 0 else None


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
    gangs = record.jobs.filter(pl.col("outcome") != "refused")["gpus"].to_numpy()
    sizes, counts = np.unique(gangs, return_counts=True)
    fitting = np.append(0, np.cumsum(counts))
    whole = free.astype(np.int64)
    if not np.array_equal(whole, free):
        return 1.0 - fitting[np.searchsorted(sizes, free, side="right")] / max(1, gangs.size)
    # Whole numbers of GPUs are few: each is looked up once.
    numbers = np.arange(whole.max(initial=0) + 1)
    share: FloatArray = 1.0 - fitting[np.searchsorted(sizes, numbers, side="right")] / max(1, gangs.size)
    return share[whole]
