"""Makespan against mean JCT: a panel a setting, a point a policy, the policies that no other beats in both joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from experiments.papers.experiment import Result
from muster.report.drawing import FULL, Chart, ChartSpace, Rows, colour_of_run, legend_of_runs, panels
from muster.sweep.statistics import estimate

DAY = 86400.0
PANEL_HEIGHT = 240
"""Pixels."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")


def pareto_chart(found: Mapping[str, Mapping[str, Sequence[Result]]]) -> Chart:
    """`found` are the runs of each policy in each setting."""
    rows: Rows = []
    for setting, runs in found.items():
        means = {
            policy: tuple(estimate([run[figure] for run in of]).mean / DAY for figure in ("makespan", "jct"))
            for policy, of in runs.items()
        }
        rows += [
            {"panel": setting, "run": policy, "makespan": at[0], "jct": at[1], "front": unbeaten(at, means)}
            for policy, at in means.items()
        ]
    runs_drawn = list(dict.fromkeys(row["run"] for row in rows))
    order = list(found)

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        columns = 1 if room.narrow else 2
        legend = legend_of_runs(runs_drawn, room)
        days = alt.Scale(type="log", nice=False, padding=12)
        x = alt.X("makespan:Q", scale=days, axis=alt.Axis(title="Makespan, days", tickCount=5))
        y = alt.Y("jct:Q", scale=days, axis=alt.Axis(title="Mean JCT, days", tickCount=5))
        shapes = alt.Shape(
            "run:N",
            legend=legend,
            scale=alt.Scale(
                domain=runs_drawn, range=[SHAPES[at % len(SHAPES)] for at in range(len(runs_drawn))]
            ),
        )
        points = (
            alt.Chart()
            .mark_point(size=70, strokeWidth=2, filled=False)
            .encode(x=x, y=y, color=colour_of_run(runs_drawn, legend), shape=shapes)
        )
        front = (
            alt.Chart()
            .transform_filter("datum.front")
            .mark_line(interpolate="step-after", strokeWidth=1, strokeDash=[3, 3], opacity=0.7)
            .encode(x=x, y=y, order="makespan:Q", color=alt.value("grey"))
        )
        sized = (front + points).properties(
            width=(room.width - 18 * (columns - 1)) / columns - 70, height=PANEL_HEIGHT
        )
        drawn: alt.TopLevelMixin = panels(sized, rows, "panel", order, columns).resolve_scale(
            x="independent", y="independent"
        )
        return drawn

    note = (
        "Means over seeds, both axes logarithmic; left and below is better. Dashed: policies that none beats."
    )
    return Chart("pareto", "Makespan and mean completion time", note, FULL, draw)


def unbeaten(at: tuple[float, ...], others: Mapping[str, tuple[float, ...]]) -> bool:
    """Whether no other is as good in both figures and better in one."""
    return not any(
        other != at and all(one <= own for one, own in zip(other, at, strict=True))
        for other in others.values()
    )
