"""Which charts a report shows."""

from __future__ import annotations

from collections.abc import Sequence

from muster.formatting import natural_order
from muster.report.curves import below_best_chart, distribution_chart, gpu_use_chart, queue_chart
from muster.report.drawing import Chart
from muster.report.gantt import gantt_chart
from muster.report.means import means_chart
from muster.report.series import SIZE_NAMES, RunSeries


def charts_of(runs: Sequence[RunSeries]) -> list[Chart]:
    """Every chart that has something to show, in the order of the page."""
    charts = []
    if any(run.jct.size for run in runs):
        note = "The share of jobs done within a time; further left is better."
        curves = [(run.name, run.jct) for run in runs]
        charts.append(distribution_chart("jct", "Job completion time", note, curves))
    if any(run.wait.size for run in runs):
        note = "The share of jobs that waited no longer than a time; further left is better."
        curves = [(run.name, run.wait) for run in runs]
        charts.append(distribution_chart("wait", "Waiting time", note, curves))
    if any(run.gpu_use.values.size for run in runs):
        charts += [gpu_use_chart(runs), queue_chart(runs)]
    if any(run.below_best for run in runs):
        charts.append(below_best_chart(runs))
    if any(run.jct_by_size for run in runs):
        title = "Mean completion time by job size"
        note = "Means over the measured jobs that completed."
        charts.append(
            means_chart("jct-by-size", title, note, [(run.name, run.jct_by_size) for run in runs], SIZE_NAMES)
        )
    if any(run.wait_by_tenant for run in runs):
        order = sorted({mean.group for run in runs for mean in run.wait_by_tenant}, key=natural_order)
        tenants = max(run.tenants for run in runs)
        note = f"The {len(order)} tenants with the most jobs, of {tenants}." if len(order) < tenants else ""
        title = "Mean waiting time by tenant"
        charts.append(
            means_chart(
                "wait-by-tenant", title, note, [(run.name, run.wait_by_tenant) for run in runs], order
            )
        )
    held = {
        number: (run, run.gantt)
        for number, run in enumerate(runs, start=1)
        if run.gantt is not None and run.gantt["gpu_ids"].list.len().max()
    }
    end = max((float(gantt["to_seconds"].to_numpy().max()) for _, gantt in held.values()), default=0.0)
    for number, (run, gantt) in held.items():
        charts.append(gantt_chart(f"nodes-{number}" if len(runs) > 1 else "nodes", run, gantt, end))
    return charts
