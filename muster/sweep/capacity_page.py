"""The page of a capacity curve: the answer, the curve with its target, and the same as a table and as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from muster.formatting import UNKNOWN, common_unit, counted, duration, in_unit
from muster.palette import LIGHT
from muster.report.drawing import FULL, Chart, ChartSpace, data, fitted, time_unit
from muster.report.frame import FORMATS
from muster.sweep.capacity import MISSING, Added, CapacityPoint, Target, answer_of
from muster.sweep.page import Section, Table, write_sections

_HEIGHT, _LABEL_DY = 320, 18
"""Pixels."""


def write_capacity_page(
    folder: Path,
    points: Sequence[CapacityPoint],
    added: Added,
    target: Target,
    title: str,
    command: str,
    notes: Sequence[str],
) -> Path:
    """Write `report.html` and `charts/` into a folder; the page's path.

    `command` makes it again; `notes` are what must be known beside the figures.
    """
    known = [point for point in points if point.seconds is not None]
    section = Section(
        f"{target.figure} by number of nodes",
        [answer_of(points, added, target)],
        [_table(points, target)],
        [capacity_chart(known, added, target)] if known else [],
    )
    sections = [section, *([Section("What these figures rest on", notes)] if notes else [])]
    return write_sections(folder, f"Capacity: {title}", [str(target)], sections, command, formats=FORMATS)


def _table(points: Sequence[CapacityPoint], target: Target) -> Table:
    unit = common_unit(point.seconds for point in points)
    lacking = any(point.missing for point in points)
    rows = [
        (
            str(point.nodes),
            f"{point.gpus:,}",
            in_unit(point.seconds, unit),
            in_unit(point.deviation_seconds, unit) if point.deviation_seconds else UNKNOWN,
            "yes" if point.meets else "no",
            *([point.missing or UNKNOWN] if lacking else []),
        )
        for point in points
    ]
    header = (
        "More nodes",
        "GPUs",
        f"{target.figure}, {unit.name}",
        f"Standard deviation, {unit.name}",
        f"Meets {target}",
        *(["Jobs not in the figure"] if lacking else []),
    )
    return Table("", header, rows)


def capacity_chart(points: Sequence[CapacityPoint], added: Added, target: Target) -> Chart:
    """The figure by number of nodes, the target as a line, and the least number that meets it marked."""
    seconds = [point.seconds or 0.0 for point in points]
    first = next((point.nodes for point in points if point.meets), None)
    top = max([target.limit, *seconds])
    unit, unit_name = time_unit(top)
    at_axis = any(
        point.nodes == first and value < 0.08 * top for point, value in zip(points, seconds, strict=True)
    )
    below = not seconds or seconds[-1] <= target.limit
    label_dy = -_LABEL_DY if at_axis else _LABEL_DY
    rows = [
        {
            "nodes": point.nodes,
            "value": value / unit,
            "low": (value - point.deviation_seconds) / unit,
            "high": (value + point.deviation_seconds) / unit,
            "first": point.nodes == first,
            "words": f"{counted(point.nodes, 'more node')}, {counted(point.gpus, 'GPU')}: "
            f"{target.figure} {duration(value)}, {'meets' if point.meets else 'misses'} {target}"
            f"{f'; not in the figure: {point.missing}' if point.missing else ''}",
        }
        for point, value in zip(points, seconds, strict=True)
    ]

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        ticks = sorted({point.nodes for point in points})
        base = alt.Chart(data(rows)).encode(
            x=alt.X(
                "nodes:Q",
                axis=alt.Axis(
                    title=f"More nodes of {added.like.kind}",
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
        # On the side of the line where the curve does not end; a rim keeps it legible where they cross.
        side: Any = {"baseline": "bottom", "dy": -4} if below else {"baseline": "top", "dy": 5}
        surface = {"color": LIGHT["surface"], "stroke": LIGHT["surface"], "strokeWidth": 5}
        rim, words = (
            limit.mark_text(align="right", **side, **ink).encode(
                x=alt.value("width"), y="value:Q", text="words:N"
            )
            for ink in (surface, {"color": LIGHT["ink"]})
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
        return fitted(rule + spread + line + points_drawn + rim + words + least, room, _HEIGHT)

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
            **{kind: getattr(point, kind) for kind in MISSING},
            "meets": point.meets,
        }
        for point in points
    ]
    return Chart("capacity", target.figure, note, FULL, draw, rows=table)


def _least(nodes: int | None) -> str:
    return "" if nodes is None else f"{nodes} more" if nodes else "as it is"
