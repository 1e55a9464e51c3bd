"""Charts of means with their intervals: against the load as lines, without a load as points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from muster.palette import LIGHT
from muster.report.drawing import (
    FULL,
    HALF,
    Chart,
    ChartSpace,
    Rows,
    colour_of_run,
    dash_of_run,
    data,
    legend_of_runs,
    panels,
    text_width,
)

PANEL_HEIGHT = 220
"""Pixels."""
TITLE_LINE = 44
"""Pixels that the axis with its title takes from a panel's width."""


@dataclass(frozen=True)
class Spot:
    """A mean to be drawn."""

    panel: str
    run: str
    load: float | None
    mean: float
    half_width: float | None


def load_chart(name: str, title: str, note: str, spots: Sequence[Spot], x_title: str, y_title: str) -> Chart:
    """A panel a setting, a line a scheduler, a bar of its interval at every load."""
    runs = list(dict.fromkeys(spot.run for spot in spots))
    order = list(dict.fromkeys(spot.panel for spot in spots))
    rows = _rows(spots)

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        columns = 1 if room.narrow else min(2, len(order))
        legend = legend_of_runs(runs, room)
        base = alt.Chart().encode(
            x=alt.X(
                "load:Q",
                axis=alt.Axis(title=x_title, grid=False, tickCount=6, format="~g"),
                scale=alt.Scale(zero=False, padding=10),
            ),
            color=colour_of_run(runs, legend),
        )
        value = alt.Y(
            "mean:Q", axis=alt.Axis(title=y_title, tickCount=5), scale=alt.Scale(zero=_from_zero(spots))
        )
        line = base.mark_line(point=alt.OverlayMarkDef(size=28)).encode(
            y=value, strokeDash=dash_of_run(runs, legend)
        )
        interval = base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y=alt.Y("low:Q"), y2="high:Q")
        return _in_panels(line + interval, rows, order, columns, room, PANEL_HEIGHT)

    return Chart(name, title, note, FULL if len(order) > 1 else HALF, draw)


def point_chart(name: str, title: str, note: str, spots: Sequence[Spot], x_title: str) -> Chart:
    """A panel a setting, a row a scheduler, its mean as a point on the bar of its interval."""
    runs = list(dict.fromkeys(spot.run for spot in spots))
    order = list(dict.fromkeys(spot.panel for spot in spots))
    rows = _rows(spots)

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        columns = 1 if room.narrow else min(2, len(order))
        needed, most = max(map(text_width, runs)), 0.45 * room.width
        label_room = min(needed, most)
        limit = needed if needed <= most else most / 1.2
        base = alt.Chart().encode(
            y=alt.Y(
                "run:N",
                sort=runs,
                axis=alt.Axis(title=None, labelLimit=limit, minExtent=label_room, labelColor=LIGHT["ink"]),
            ),
            color=colour_of_run(runs),
        )
        value = alt.X(
            "mean:Q", axis=alt.Axis(title=x_title, tickCount=5), scale=alt.Scale(zero=_from_zero(spots))
        )
        point = base.mark_point(filled=True, size=60, opacity=1).encode(x=value)
        interval = base.mark_rule(strokeWidth=2, opacity=0.6).encode(x=alt.X("low:Q"), x2="high:Q")
        return _in_panels(interval + point, rows, order, columns, room, 24 * len(runs) + 10, label_room)

    return Chart(name, title, note, FULL if len(order) > 1 else HALF, draw)


def _rows(spots: Sequence[Spot]) -> Rows:
    return [
        {
            "panel": spot.panel,
            "run": spot.run,
            "load": spot.load,
            "mean": spot.mean,
            "low": spot.mean - (spot.half_width or 0.0),
            "high": spot.mean + (spot.half_width or 0.0),
        }
        for spot in spots
    ]


def _from_zero(spots: Sequence[Spot]) -> bool:
    """Amounts stand on 0; differences, which may be of either sign, take the room they need."""
    return all(spot.mean >= 0 for spot in spots)


def _in_panels(
    drawn: alt.LayerChart,
    rows: Rows,
    order: Sequence[str],
    columns: int,
    room: ChartSpace,
    height: float,
    labels: float = 0.0,
) -> alt.TopLevelMixin:
    width = (room.width - 18 * (columns - 1)) / columns - TITLE_LINE - labels - 12
    sized = drawn.properties(width=width, height=height)
    if len(order) > 1:
        return panels(sized, rows, "panel", order, columns)
    alone: alt.TopLevelMixin = sized.properties(data=data(rows))
    return alone
