"""Which job sat where when: one lane a GPU, one bar a stretch of neighbouring GPUs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import altair as alt
import polars as pl

from muster.palette import LIGHT
from muster.report.drawing import (
    FULL,
    Chart,
    ChartSpace,
    Rows,
    data,
    fitted,
    run_legend,
    since_first_submission,
    text_width,
    time_unit,
)
from muster.report.series import SIZE_NAMES, RunSeries, size_name
from muster.report.theme import SIZES

GREATEST_HEIGHT, NODE_NAME = 900, 110
"""Pixels."""


@dataclass(frozen=True)
class Bar:
    """A rectangle of the drawing: `low` to `high` count GPU lanes from the top of the first node."""

    job_id: str
    gang_gpus: float
    begin: float
    end: float
    low: float
    high: float


def bars(rows: pl.DataFrame, nodes: pl.DataFrame) -> list[Bar]:
    """The bars of a small run, nodes below each other in their order.

    GPUs held whole fill their lanes. Holders of a share of a GPU, and jobs taking turns on it, lie beside
    each other within its lane.
    """
    first_lane = dict(zip(nodes["node"], (nodes["gpus"].cum_sum() - nodes["gpus"]).to_list(), strict=True))
    whole: list[Bar] = []
    shared: dict[float, list[dict[str, Any]]] = defaultdict(list)
    for row in rows.sort("from_seconds", "job_id", "node").iter_rows(named=True):
        base, gpu_ids = first_lane[row["node"]], row["gpu_ids"] or []
        if row["slice_group"] is not None or row["gpus"] < len(gpu_ids):
            for gpu in gpu_ids:
                shared[base + gpu].append(row)
        else:
            whole.extend(_bar(row, base + low, base + high) for low, high in stretches(gpu_ids))
    return whole + [bar for lane, holders in sorted(shared.items()) for bar in _side_by_side(lane, holders)]


def stretches(gpu_ids: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbouring ids joined, ends excluded: 0 1 2 5 gives (0, 3) and (5, 6)."""
    joined: list[tuple[int, int]] = []
    for gpu in sorted(gpu_ids):
        if joined and joined[-1][1] == gpu:
            joined[-1] = (joined[-1][0], gpu + 1)
        else:
            joined.append((gpu, gpu + 1))
    return joined


def _side_by_side(lane: float, holders: Sequence[dict[str, Any]]) -> list[Bar]:
    """Each holder in the first slot of the lane that is free again, all slots equally wide."""
    slot_ends: list[float] = []
    slots = []
    for row in holders:
        free = [slot for slot, end in enumerate(slot_ends) if end <= row["from_seconds"]]
        slot = free[0] if free else len(slot_ends)
        slot_ends[slot : slot + 1] = [row["to_seconds"]]
        slots.append(slot)
    width = 1 / max(1, len(slot_ends))
    return [
        _bar(row, lane + slot * width, lane + (slot + 1) * width)
        for row, slot in zip(holders, slots, strict=True)
    ]


def _bar(row: dict[str, Any], low: float, high: float) -> Bar:
    return Bar(row["job_id"], row["gang_gpus"], row["from_seconds"], row["to_seconds"], low, high)


def gantt_chart(name: str, run: RunSeries, gantt: pl.DataFrame, end: float) -> Chart:
    """The allocations of a run, one lane a GPU; `end` is the last moment, in seconds, of all runs drawn."""
    drawn = bars(gantt, run.nodes)
    divisor, unit = time_unit(end)
    rows: Rows = [
        {
            "job": bar.job_id,
            "size": size_name(bar.gang_gpus),
            "begin": bar.begin / divisor,
            "end": bar.end / divisor,
            "low": bar.low,
            "high": bar.high,
        }
        for bar in drawn
    ]
    lanes = float(run.nodes["gpus"].sum())
    starts = [0.0, *run.nodes["gpus"].cum_sum().to_list()]
    middles = [(low + high) / 2 for low, high in pairwise(starts)]
    node_names = run.nodes["node"].to_list()
    sizes = [size for size in SIZE_NAMES if any(row["size"] == size for row in rows)]

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        height = min(GREATEST_HEIGHT, max(14 * len(node_names), 9 * lanes))
        shades = [SIZES[int((i + 0.5) * len(SIZES) / len(sizes))] for i in range(len(sizes))]
        axis = alt.Axis(
            title=None,
            values=middles,
            labelExpr=f"{json.dumps(node_names)}[indexof({json.dumps(middles)}, datum.value)]",
            grid=False,
            labelLimit=NODE_NAME,
            minExtent=min(1.2 * NODE_NAME, max(map(text_width, node_names), default=0)) + 6,
            labelOverlap="greedy",
            labelColor=LIGHT["ink"],
        )
        y = alt.Y("low:Q", axis=axis, scale=alt.Scale(domain=[lanes, 0], nice=False))
        legend = run_legend(sizes, room, symbolType="square", symbolSize=140, symbolStrokeWidth=0)
        boxes = (
            alt.Chart(data(rows))
            .mark_rect(stroke=LIGHT["surface"], strokeWidth=0.6)
            .encode(
                x=since_first_submission("begin", unit, end / divisor),
                x2="end:Q",
                y=y,
                y2="high:Q",
                color=alt.Color(
                    "size:O", sort=sizes, legend=legend, scale=alt.Scale(domain=sizes, range=shades)
                ),
            )
        )
        rules = (
            alt.Chart(data([{"low": low} for low in starts]))
            .mark_rule(color=LIGHT["quiet"], strokeWidth=0.7)
            .encode(y=y)
        )
        return fitted(boxes + rules, room, height)

    title = f"Nodes over time, {run.name}"
    note = "A lane is a GPU, a bar a job, its shade how many GPUs it asked for."
    columns = ("job_id", "node", "gpus", "gpu_ids", "from_seconds", "to_seconds")
    table = gantt.select(columns).with_columns(pl.col("gpu_ids").cast(pl.List(pl.String())).list.join(" "))
    return Chart(name, title, note, FULL, draw, detail=True, rows=table.to_dicts())
