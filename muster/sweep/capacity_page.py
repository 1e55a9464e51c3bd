"""The page of a capacity curve: the answer, the curve with its target, and the same as a table and as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import altair as alt

from muster.formatting import counted, duration
from muster.palette import LIGHT
from muster.report.drawing import FULL, Chart, ChartSpace, data, fitted, time_unit
from muster.report.frame import FORMATS
from muster.sweep.capacity import Added, CapacityPoint, Target, answer_of, rows_of
from muster.sweep.page import Section, Table, write_sections

HEADER = ("more nodes", "GPUs", "figure", "±", "meets")
_HEIGHT, _LABEL_DY = 320, 18
"""Pixels."""


def write_capacity_page(
    folder: Path, points: Sequence[CapacityPoint], added: Added, target: Target, title: str
) -> Path:
    """Write `report.html` and `charts/` into a folder; the page's path."""
    known = [point for point in points if point.seconds is not None]
    table = Table("", HEADER, rows_of(points))
    section = Section(
        f"{target.figure} by number of nodes",
        [answer_of(points, added, target)],
        [table],
        [capacity_chart(known, added, target)] if known else [],
    )
    return write_sections(
        folder, f"Capacity: {title}", [str(target)], [section], "muster capacity", formats=FORMATS
    )


def capacity_chart(points: Sequence[CapacityPoint], added: Added, target: Target) -> Chart:
    """The figure by number of nodes, the target as a line, and the least number that meets it marked."""
    seconds = [point.seconds or 0.0 for point in points]
    first = next((point.nodes for point in points if point.meets), None)
    top = max([target.limit, *seconds])
    unit, unit_name = time_unit(top)
    at_axis = any(
        point.nodes == first and value < 0.08 * top for point, value in zip(points, seconds, strict=True)
    )
    label_dy = -_LABEL_DY if at_axis else _LABEL_DY
    rows = [
        {
            "nodes": point.nodes,
            "value": value / unit,
            "low": (value - point.deviation_seconds) / unit,
            "high": (value + point.deviation_seconds) / unit,
            "first": point.nodes == first,
            "words": f"{counted(point.nodes, 'more node')}, {counted(point.gpus, 'GPU')}: "
            f"{target.figure} {duration(value)}, {'meets' if point.meets else 'misses'} {target}",
        }
        for point, value in zip(points, seconds, strict=True)
    ]

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        ticks = sorted({point.nodes for point in points})
        base = alt.Chart(data(rows)).encode(
            x=alt.X(
                "nodes:Q",
                axis=alt.Axis(
                    title=f"More nodes of {added.like.gpus} {added.like.gpu_type}",
                    grid=False,
                    format="d",
                    **({"values": ticks} if len(ticks) <= (8 if room.narrow else 20) else {"tickCount": 6}),
                ),
                scale=alt.Scale(zero=False, nice=False, padding=24),
            ),
            y=alt.Y("value:Q", axis=alt.Axis(title=unit_name, tickCount=5)),
        )
        limit = alt.Chart(data([{"value": target.limit / unit, "words": str(target)}]))
        rule = limit.mark_rule(strokeDash=[5, 3], strokeWidth=1.5, color=LIGHT["series-2"]).encode(
            y="value:Q"
        )
        named = limit.mark_text(align="right", baseline="bottom", dy=-4, color=LIGHT["ink"]).encode(
            x=alt.value("width"), y="value:Q", text="words:N"
        )
        spread = base.mark_rule(strokeWidth=1.5, opacity=0.6, color=LIGHT["series-1"]).encode(
            y=alt.Y("low:Q", title=unit_name), y2="high:Q"
        )
        marked = alt.datum.first
        points_drawn = base.mark_circle(opacity=1, aria=True).encode(
            size=alt.condition(marked, alt.value(190), alt.value(70)),
            color=alt.condition(marked, alt.value(LIGHT["series-3"]), alt.value(LIGHT["series-1"])),
            description="words:N",
        )
        line = base.mark_line(color=LIGHT["series-1"])
        least = base.transform_filter(marked).mark_text(dy=label_dy, fontWeight="bold", text=_least(first))
        return fitted(rule + named + spread + line + points_drawn + least, room, _HEIGHT)

    note = "Dashed: the target. Bars: standard deviation over the phases of the scheduler's clocks."
    if first is not None:
        note = f"Marked: the least number of nodes that meets the target. {note}"
    table = [
        {
            "more_nodes": point.nodes,
            "gpus": point.gpus,
            "seconds": point.seconds,
            "deviation_seconds": point.deviation_seconds,
            "target_seconds": target.limit,
            "meets": point.meets,
        }
        for point in points
    ]
    return Chart("capacity", target.figure, note, FULL, draw, rows=table)


def _least(nodes: int | None) -> str:
    return "" if nodes is None else f"{nodes} more" if nodes else "as it is"
