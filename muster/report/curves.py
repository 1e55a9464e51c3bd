"""Curves: how long jobs took and waited, how full the cluster was, how long the queue."""

from __future__ import annotations

import json
from collections.abc import Sequence

import altair as alt

from muster import formatting
from muster.report.drawing import (
    FULL,
    HALF,
    Chart,
    ChartSpace,
    Rows,
    colour_of_run,
    dash_of_run,
    data,
    fitted,
    legend_of_runs,
    panels,
    since_first_submission,
    stepped,
    stepped_rows,
    time_unit,
)
from muster.report.series import RunSeries
from muster.report.timeline import FloatArray, Steps

LOG_TICKS = {
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    5 * 3600: "5 h",
    86_400: "1 day",
    10 * 86_400: "10 days",
    100 * 86_400: "100 days",
    1000 * 86_400: "1000 days",
}
"""Seconds and their names on a logarithmic axis."""
PERCENT = "round(100 * datum.value) + ' %'"
FINE_PERCENT = "format(100 * datum.value, '.3~r') + ' %'"
CURVE_HEIGHT = 280
"""Pixels."""
FEW_RUNS = 4
"""Up to so many a chart over time fits in half a wide page."""


def distribution_chart(
    name: str, quantity: str, note: str, curves: Sequence[tuple[str, FloatArray]]
) -> Chart:
    """The share of jobs within a time, on a logarithmic axis that begins at the tick below the least time.

    A time of 0 has no place on such an axis: it and what else is below the first tick are drawn at it.
    """
    names = [run for run, _ in curves]
    every = [float(seconds) for _, values in curves for seconds in values]
    least = min((seconds for seconds in every if seconds >= 1), default=1.0)
    low = max(tick for tick in LOG_TICKS if tick <= least)
    top = max(10.0 * low, *every)
    rows: Rows = []
    for run, values in curves:
        if values.size == 0:
            continue
        rows.append({"run": run, "seconds": low, "share": 0.0})
        rows.extend(
            {"run": run, "seconds": max(low, seconds), "share": (rank + 1) / values.size}
            for rank, seconds in enumerate(values.tolist())
        )
        rows.append({"run": run, "seconds": top, "share": 1.0})
    ticks = {tick: name for tick, name in LOG_TICKS.items() if low <= tick <= top}
    if min(every) < low:
        ticks[low] = f"≤ {ticks[low]}"

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        axis = alt.Axis(
            title=f"{quantity} (log scale)",
            values=list(ticks),
            labelExpr=f"{json.dumps(list(ticks.values()))}[indexof({json.dumps(list(ticks))}, datum.value)]",
            labelOverlap="greedy",
            labelFlush=True,
        )
        scale = alt.Scale(type="log", domain=[low, top], nice=False)
        share = alt.Axis(title="Share of jobs", labelExpr=PERCENT, values=[0, 0.25, 0.5, 0.75, 1])
        lines = (
            alt.Chart(data(rows))
            .mark_line(interpolate="step-after")
            .encode(
                x=alt.X("seconds:Q", axis=axis, scale=scale),
                y=alt.Y("share:Q", axis=share, scale=alt.Scale(domain=[0, 1])),
                color=colour_of_run(names, legend_of_runs(names, room)),
                strokeDash=dash_of_run(names, legend_of_runs(names, room)),
            )
        )
        return fitted(lines, room, CURVE_HEIGHT)

    table = [
        {"scheduler": row["run"], "seconds": row["seconds"], "share_of_jobs": row["share"]} for row in rows
    ]
    return Chart(name, quantity, note, HALF, draw, rows=table)


def gpu_use_chart(runs: Sequence[RunSeries]) -> Chart:
    """One panel a run: lines of many runs would hide each other."""
    divisor, unit = time_unit(max(float(run.gpu_use.times[-1]) for run in runs))
    labels = {run.name: f"{run.name} · {formatting.percent(run.gpu_use.mean())}" for run in runs}
    rows = [row for run in runs for row in stepped(labels[run.name], run.gpu_use, divisor)]
    height = 200 if len(runs) == 1 else 80 if len(runs) <= FEW_RUNS else 48

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        domain = list(labels.values())
        percent = alt.Axis(title=None, values=[0, 0.5, 1], labelExpr=PERCENT, minExtent=42, maxExtent=42)
        panel = (
            alt.Chart()
            .mark_area(interpolate="step-after", opacity=0.85)
            .encode(
                x=since_first_submission("time", unit),
                y=alt.Y(
                    "value:Q",
                    axis=percent,
                    scale=alt.Scale(domain=[0, 1]),
                ),
                color=colour_of_run(domain),
            )
            .properties(width=room.width - 74, height=height)
        )
        return panels(panel, rows, "run", domain, columns=1)

    note = "GPUs that jobs hold, busy or not; beside each name the mean."
    table = [row for run in runs for row in stepped_rows(run.name, run.gpu_use, "share_of_gpus")]
    return Chart("gpu-use", "GPUs in use", note, HALF if len(runs) <= FEW_RUNS else FULL, draw, rows=table)


def queue_chart(runs: Sequence[RunSeries]) -> Chart:
    """Jobs waiting over time, one line a run."""
    note = "Jobs submitted that hold nothing yet or were put back into the queue."
    axis = alt.Axis(title="Jobs waiting", tickCount=5, tickMinStep=1)
    return _lines_over_time(
        "queue", "Length of the queue", note, axis, [(run.name, run.waiting) for run in runs], "jobs_waiting"
    )


def below_best_chart(runs: Sequence[RunSeries]) -> Chart:
    """The optimality gap of each decision, one line a run."""
    note = (
        "What each decision left out of the bound for the jobs it could serve: the most that one machine with all CPUs "
        "and memory could reach, or the scheduler's own bound."
    )
    axis = alt.Axis(title="Optimality gap", tickCount=5, labelExpr=FINE_PERCENT)
    series = [(run.name, run.below_best) for run in runs]
    return _lines_over_time("below-best", "Optimality gap", note, axis, series, "optimality_gap")


def _lines_over_time(
    name: str,
    title: str,
    note: str,
    axis: alt.Axis,
    runs: Sequence[tuple[str, Steps | None]],
    quantity: str,
) -> Chart:
    """Quantities over time, one line a run; broken where a quantity is not a number."""
    names = [run for run, _ in runs]
    divisor, unit = time_unit(max(float(steps.times[-1]) for _, steps in runs if steps))
    rows = [row for run, steps in runs if steps for row in stepped(run, steps, divisor)]
    # A line of zeros alone would be drawn in the middle.
    scale = alt.Scale() if any(row["value"] for row in rows) else alt.Scale(domain=[0, 1])

    def draw(room: ChartSpace) -> alt.TopLevelMixin:
        lines = (
            alt.Chart(data(rows))
            .mark_line(interpolate="step-after", strokeWidth=1.5)
            .encode(
                x=since_first_submission("time", unit),
                y=alt.Y("value:Q", axis=axis, scale=scale),
                color=colour_of_run(names, legend_of_runs(names, room)),
                strokeDash=dash_of_run(names, legend_of_runs(names, room)),
            )
        )
        return fitted(lines, room, CURVE_HEIGHT)

    table = [row for run, steps in runs if steps for row in stepped_rows(run, steps, quantity)]
    return Chart(name, title, note, HALF if len(runs) <= FEW_RUNS else FULL, draw, rows=table)
