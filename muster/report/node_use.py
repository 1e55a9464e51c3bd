"""How full nodes were over time: the chart of nodes of a run that is too large for a bar a job."""

from __future__ import annotations

import json
from itertools import pairwise

import altair as alt
import numpy as np

from muster.palette import LIGHT
from muster.report.drawing import (
    FULL,
    Chart,
    ChartSpace,
    Rows,
    data,
    fitted,
    since_first_submission,
    time_unit,
)
from muster.report.embedded import RunTables
from muster.report.gantt import GREATEST_HEIGHT, NODE_NAME
from muster.report.theme import SIZES
from muster.report.timeline import FloatArray

BINS, GREATEST_ROWS = 96, 64
"""Stretches of time, and rows: with more nodes than these, neighbours share a row."""


def node_use(run: RunTables) -> tuple[list[str], FloatArray, FloatArray]:
    """The name of each row, the seconds between which each stretch lies, and the share of GPUs held, row by stretch."""
    names, gpus = run.nodes["node"].to_list(), run.nodes["gpus"].to_numpy().astype(np.float64)
    each = -(-len(names) // GREATEST_ROWS)
    lasts = [min(at + each, len(names)) - 1 for at in range(0, len(names), each)]
    labels = [
        names[last] if last == first else f"{names[first]} to {names[last]}"
        for first, last in zip(range(0, len(names), each), lasts, strict=True)
    ]
    row_of = {name: at // each for at, name in enumerate(names)}
    held = run.allocations.drop_nulls("node")
    row = np.array([row_of[node] for node in held["node"]], np.int64)
    since = held["from_seconds"].to_numpy() - run.start
    until = held["to_seconds"].fill_null(run.end).to_numpy() - run.start
    edges = np.linspace(0.0, run.end - run.start, BINS + 1)
    have = np.bincount(np.arange(len(names)) // each, weights=gpus)
    shares = np.zeros((len(labels), BINS))
    for at, (begin, end) in enumerate(pairwise(edges)):
        seconds = np.clip(np.minimum(until, end) - np.maximum(since, begin), 0.0, None)
        held_seconds = np.bincount(row, weights=seconds * held["gpus"].to_numpy(), minlength=len(labels))
        shares[:, at] = held_seconds / np.maximum(have * (end - begin), 1e-9)
    # Jobs that take turns on the same GPUs hold them once.
    return labels, edges, np.minimum(shares, 1.0)


def node_use_chart(name: str, run_name: str, run: RunTables) -> Chart:
    """The share of each node's GPUs that jobs held, as a shade."""
    labels, edges, shares = node_use(run)
    divisor, unit = time_unit(float(edges[-1]))
    table: Rows = [
        {
            "nodes": label,
            "from_seconds": round(float(edges[at]), 3),
            "to_seconds": round(float(edges[at + 1]), 3),
            "share_of_gpus": round(float(shares[row, at]), 4),
        }
        for row, label in enumerate(labels)
        for at in range(BINS)
    ]
    rows: Rows = [
        {
            "begin": cell["from_seconds"] / divisor,
            "end": cell["to_seconds"] / divisor,
            "low": at // BINS,
            "high": at // BINS + 1,
            "share": cell["share_of_gpus"],
        }
        for at, cell in enumerate(table)
        if cell["share_of_gpus"] > 0
    ]

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        middles = [at + 0.5 for at in range(len(labels))]
        axis = alt.Axis(
            title=None,
            values=middles,
            labelExpr=f"{json.dumps(labels)}[indexof({json.dumps(middles)}, datum.value)]",
            grid=False,
            labelLimit=2 * NODE_NAME,
            labelOverlap="greedy",
            labelColor=LIGHT["ink"],
        )
        boxes = (
            alt.Chart(data(rows))
            .mark_rect()
            .encode(
                x=since_first_submission("begin", unit, float(edges[-1]) / divisor),
                x2="end:Q",
                y=alt.Y("low:Q", axis=axis, scale=alt.Scale(domain=[len(labels), 0], nice=False)),
                y2="high:Q",
                color=alt.Color(
                    "share:Q",
                    scale=alt.Scale(domain=[0, 1], range=[LIGHT["surface"], SIZES[-1]]),
                    legend=alt.Legend(title="GPUs held", format=".0%", orient="top"),
                ),
            )
        )
        return fitted(boxes, room, min(GREATEST_HEIGHT, 14 * len(labels)))

    note = "A row is a node, or several, its shade the share of its GPUs that jobs hold."
    return Chart(name, f"Nodes over time, {run_name}", note, FULL, draw, detail=True, rows=table)
