"""Means of groups of jobs as bars: completion time by job size, waiting time by tenant."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from muster import formatting
from muster.palette import LIGHT
from muster.report.drawing import CHARACTER, FULL, HALF, Chart, ChartSpace, Rows, colour_of_run, data, panels
from muster.report.series import GroupMean


def means_chart(
    name: str, title: str, note: str, runs: Sequence[tuple[str, Sequence[GroupMean]]], order: Sequence[str]
) -> Chart:
    """Bars with their values: a panel a group where there are several runs, else a bar a group."""
    several = len(runs) > 1
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
            "label": formatting.duration(mean.mean_seconds),
        }
        for run, means in runs
        for mean in means
    ]
    greatest = max(row["value"] for row in rows)
    names = [run for run, _ in runs]
    bar_names = names if several else list(labels.values())

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        columns = 1 if room.narrow or not several else min(3 if len(labels) > 4 else 2, len(labels))
        label_room = min(CHARACTER * max(map(len, bar_names)), 0.4 * room.width) + 12
        width = (room.width - label_room - 12 - 18 * (columns - 1)) / columns
        value_room = CHARACTER * max(len(row["label"]) for row in rows) + 10
        scale = alt.Scale(domain=[0, max(greatest, 1e-9)], range=[0, width - value_room])
        base = alt.Chart().encode(
            y=alt.Y(
                "bar:N",
                sort=bar_names,
                axis=alt.Axis(title=None, labelLimit=label_room - 12, labelColor=LIGHT["ink"]),
                scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1),
            ),
            x=alt.X("value:Q", axis=None, scale=scale),
        )
        drawn = base.mark_bar(cornerRadiusEnd=2).encode(color=colour_of_run(names))
        text = base.mark_text(align="left", dx=5).encode(text="label:N")
        panel = (drawn + text).properties(width=width, height=alt.Step(20))
        if several:
            return panels(panel, rows, "group", list(labels.values()), columns)
        alone: alt.TopLevelMixin = panel.properties(data=data(rows))
        return alone

    full = several and len(labels) > 1
    table = [
        {"group": mean.group, "scheduler": run, "jobs": mean.jobs, "mean_seconds": mean.mean_seconds}
        for run, means in runs
        for mean in means
    ]
    return Chart(name, title, note, FULL if full else HALF, draw, rows=table)
