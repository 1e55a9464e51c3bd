"""Means of groups of jobs as bars: completion time by job size, waiting time by tenant."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from muster import formatting
from muster.palette import LIGHT
from muster.report.drawing import (
    FULL,
    HALF,
    Chart,
    ChartSpace,
    Rows,
    colour_of_run,
    data,
    lines,
    panels,
    text_width,
)
from muster.report.series import GroupMean

_BAR, _LINE = 15, 15
"""Pixels; the height of a bar, and of a line of its name above it."""


def means_chart(
    name: str, title: str, note: str, runs: Sequence[tuple[str, Sequence[GroupMean]]], order: Sequence[str]
) -> Chart:
    """Bars with their values: a panel a group where there are several runs, else a bar a group."""
    several = len(runs) > 1
    unit = formatting.common_unit(mean.mean_seconds for _, means in runs for mean in means)
    jobs = {mean.group: mean.jobs for _, means in reversed(runs) for mean in means}
    labels = {
        group: f"{group} · {formatting.counted(jobs[group], 'job')}" for group in order if group in jobs
    }
    rows: Rows = [
        {
            "group": labels[mean.group],
            "bar": run if several else labels[mean.group],
            "run": run,
            "value": mean.mean_seconds,
            "label": f"{formatting.in_unit(mean.mean_seconds, unit)} {unit.name}",
        }
        for run, means in runs
        for mean in means
    ]
    greatest = max(row["value"] for row in rows)
    names = [run for run, _ in runs]
    bar_names = names if several else list(labels.values())

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        columns = 1 if room.narrow or not several else min(3 if len(labels) > 4 else 2, len(labels))
        label_room = max(map(text_width, bar_names)) + 12
        # Names that would leave too little to the bars stand above them.
        above = label_room > 0.4 * room.width
        width = (room.width - (0 if above else label_room) - 12 - 18 * (columns - 1)) / columns
        value_room = max(text_width(row["label"]) for row in rows) + 10
        scale = alt.Scale(domain=[0, max(greatest, 1e-9)], range=[0, width - value_room])
        base = alt.Chart().encode(
            y=alt.Y(
                "bar:N",
                sort=bar_names,
                axis=None
                if above
                else alt.Axis(
                    title=None, labelLimit=label_room, minExtent=label_room, labelColor=LIGHT["ink"]
                ),
                scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1),
            ),
            x=alt.X("value:Q", axis=None, scale=scale),
        )
        named = {bar: lines(bar, width) for bar in bar_names}
        most = max(map(len, named.values())) if above else 0
        down = _LINE * most / 2
        drawn = base.mark_bar(cornerRadiusEnd=2, height=_BAR, yOffset=down).encode(color=colour_of_run(names))
        text = base.mark_text(align="left", dx=5, dy=down).encode(text="label:N")
        layers = drawn + text
        if above:
            top = base.mark_text(align="left", baseline="top", dy=-down - _BAR / 2, lineHeight=_LINE)
            layers += top.encode(text="name:N", x=alt.value(0), color=alt.value(LIGHT["ink"]))
        panel = layers.properties(width=width, height=alt.Step(20 + _LINE * most))
        headed = {label: "\n".join(lines(label, width)) for label in labels.values()}
        # As many lines for each name, so that each ends right above its bar.
        padded = {bar: [*[""] * (most - len(name)), *name] for bar, name in named.items()}
        shown = [row | {"group": headed[row["group"]], "name": padded[row["bar"]]} for row in rows]
        if several:
            return panels(panel, shown, "group", list(headed.values()), columns)
        alone: alt.TopLevelMixin = panel.properties(data=data(shown))
        return alone

    full = several and len(labels) > 1
    table = [
        {"group": mean.group, "scheduler": run, "jobs": mean.jobs, "mean_seconds": mean.mean_seconds}
        for run, means in runs
        for mean in means
    ]
    return Chart(name, title, note, FULL if full else HALF, draw, rows=table)
