"""`report.html`: one page that needs nothing else, and every chart as SVG and PNG beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from markupsafe import Markup

from muster import formatting
from muster.problems import InputError, Problem
from muster.report.charts import charts_of
from muster.report.drawing import Chart
from muster.report.embedded import RunTables, embedded, run_tables
from muster.report.figures import (
    CERTIFIED_FIGURES,
    DEADLINE_FIGURES,
    FIGURES,
    TENANT_FIGURE,
    UTILITY_FIGURES,
    Show,
    column,
    groups,
    known,
    run_names,
    time_column,
)
from muster.report.finding import best_run, finding
from muster.report.frame import BY_DEFAULT, drawn, page_text, write_page
from muster.report.holding import KnowledgeOf, holding_sentences, jobs_with_sentences
from muster.report.means import means_chart
from muster.report.metrics import QUANTILES, summarise
from muster.report.node_use import node_use_chart
from muster.report.notes import against_log, assumptions, command, notes, provenance
from muster.report.record import read_record, record_folders
from muster.report.recorded import RECORDED, summary_of
from muster.report.series import GroupMean, RunSeries, chart_series
from muster.runtime.records import Record

TEMPLATE = Path(__file__).with_name("report.html.j2")
_SCRIPTS = Path(__file__).with_name("scripts")
_SCRIPT_ORDER = ("data.js", "figures.js", "surface.js", "charts.js", "lanes.js", "page.js")
TENANTS_LISTED = 50
_TENANT_TIMES = (("mean_jct", "jct", "mean"), ("mean_wait", "wait", "mean"), ("p99_wait", "wait", "p99"))
ROWS_OPEN = 24
"""A table of up to so many rows stands open."""


@dataclass(frozen=True)
class RunOnPage:
    """What the page needs of one run."""

    name: str
    summary: Mapping[str, Any]
    series: RunSeries
    run: Mapping[str, Any]
    tables: RunTables


def write_report(
    folder: Path, formats: Sequence[str] = BY_DEFAULT, knowledge_of: KnowledgeOf | None = None
) -> Path:
    """Write `report.html` and `charts/` into the folder of a run or of a comparison; the path of the page.

    `formats` of `muster.report.frame.FORMATS`: without html the path is that of the charts. Without `knowledge_of` the
    stories of jobs do not say what more would have brought.
    """
    runs, common = _named(_read(folder))
    if knowledge_of is not None and "html" in formats:
        first, second = _opened_pair(runs)
        jobs = jobs_with_sentences(first.tables, second.tables)
        runs = [
            _with_sentences(run, read_record(run_folder), jobs, knowledge_of)
            for run, run_folder in zip(runs, record_folders(folder), strict=True)
        ]
    history = _history(folder)
    overview = _overview([*runs, *history])
    charts = charts_of([run.series for run in (*runs, *history)])
    shown = _shown(runs, history, common, charts, overview) if "html" in formats else {}
    large = _large_runs(runs) if set(formats) != {"html"} else []
    return write_page(folder, TEMPLATE, [*overview, *charts, *large], shown, formats)


def _large_runs(runs: Sequence[RunOnPage]) -> list[Chart]:
    """The nodes of runs that have too many allocations for a bar each, which the page draws by itself."""
    return [
        node_use_chart(f"nodes-{number}" if len(runs) > 1 else "nodes", run.name, run.tables)
        for number, run in enumerate(runs, start=1)
        if run.series.gantt is None and run.tables.allocations["node"].null_count() == 0
    ]


def page_of(record: Record, knowledge_of: KnowledgeOf | None = None) -> str:
    """The page of one run, as `write_report` writes it."""
    runs, common = _named([_on_page(record, record.scheduler)])
    if knowledge_of is not None:
        jobs = jobs_with_sentences(runs[0].tables, runs[0].tables)
        runs = [_with_sentences(runs[0], record, jobs, knowledge_of)]
    return page_text(TEMPLATE, _shown(runs, [], common, charts_of([run.series for run in runs]), ()))


def _opened_pair(runs: Sequence[RunOnPage]) -> tuple[RunOnPage, RunOnPage]:
    """The runs between which the page shows first which jobs gained and lost."""
    return runs[0], runs[_opened_second([run.summary for run in runs])]


def _opened_second(summaries: Sequence[Mapping[str, Any]]) -> int:
    return best_run(summaries) or len(summaries) - 1


def _with_sentences(
    run: RunOnPage, record: Record, jobs: Sequence[str], knowledge_of: KnowledgeOf
) -> RunOnPage:
    ran = set(run.tables.jobs["job_id"].to_list())
    found = holding_sentences(record, [job for job in jobs if job in ran], knowledge_of)
    return replace(run, tables=replace(run.tables, holding=found))


def _overview(runs: Sequence[RunOnPage]) -> list[Chart]:
    """Mean waiting and completion time of each run of a comparison; nothing where a run completed no job."""
    if len(runs) < 2 or not all(run.summary["completed"] for run in runs):
        return []
    note = "Mean over the measured jobs that completed; shorter is better."
    charts = []
    for name, what in (("wait", "waiting time"), ("jct", "completion time")):
        means = [
            (run.name, [GroupMean("all", run.summary["completed"], run.summary[f"{name}_seconds"]["mean"])])
            for run in runs
        ]
        charts.append(means_chart(f"mean-{name}", f"Mean {what}", note, means, ["all"]))
    return charts


def _read(folder: Path) -> list[RunOnPage]:
    """All runs under the names of their folders."""
    runs: list[RunOnPage] = []
    problems: list[Problem] = []
    for run_folder in record_folders(folder):
        try:
            record = read_record(run_folder)
        except InputError as bad:
            problems.extend(bad.problems)
            continue
        # One record at a time is held whole; of the others only what the page shows.
        runs.append(_on_page(record, run_folder.name))
    if problems:
        raise InputError(*problems)
    return runs


def _history(folder: Path) -> list[RunOnPage]:
    """What the log of a comparison records, where it records starts; its nodes are not known."""
    if not (folder / RECORDED).is_dir():
        return []
    record = read_record(folder / RECORDED)
    series = replace(chart_series(record, RECORDED), gantt=None)
    return [RunOnPage(RECORDED, summary_of(record), series, record.run, run_tables(record))]


def _on_page(record: Record, name: str) -> RunOnPage:
    return RunOnPage(name, summarise(record), chart_series(record, name), record.run, run_tables(record))


def _named(runs: Sequence[RunOnPage]) -> tuple[list[RunOnPage], str]:
    """The runs under distinct names, and the parts of the names that all share."""
    names, common = run_names([run.summary for run in runs])
    if len(set(names)) < len(runs):
        names, common = formatting.short_names([run.name for run in runs])
    renamed = [
        replace(run, name=name, series=replace(run.series, name=name))
        for run, name in zip(runs, names, strict=True)
    ]
    return renamed, common


def _shown(
    runs: Sequence[RunOnPage],
    history: Sequence[RunOnPage],
    common: str,
    charts: Sequence[Chart],
    overview: Sequence[Chart],
) -> dict[str, Any]:
    """What the template shows: tables and charts of all, sentences of the simulated runs."""
    all_runs = [*runs, *history]
    names = [run.name for run in runs]
    summaries = [run.summary for run in runs]
    records = [run.run for run in runs]
    figures = [*FIGURES, *([TENANT_FIGURE] if len(summaries[0]["tenants"]) > 1 else [])]
    for some in (UTILITY_FIGURES, DEADLINE_FIGURES, CERTIFIED_FIGURES):
        figures += known(some, summaries)
    tenants, tenant_units = _tenants(all_runs)
    reasons, reason_unit = _reasons(all_runs)
    return {
        "title": f"{PurePath(summaries[0]['trace']).name} on {_clusters(summaries)}",
        "headline": _headline(runs),
        "finding": formatting.unbroken(finding(names, summaries)),
        "names": [run.name for run in all_runs],
        "common": common,
        "groups": groups(figures),
        "columns": [column(figure, [run.summary for run in all_runs]) for figure in figures],
        "assumptions": [
            *assumptions(names, records, runs[0].tables.jobs),
            *(against_log(runs[0].name, runs[0].tables.jobs, log.tables.jobs) for log in history),
        ],
        "notes": notes(names, summaries, records),
        "overview": [drawn(chart) for chart in overview],
        "charts": [drawn(chart) for chart in charts if not chart.detail],
        "details": [drawn(chart) for chart in charts if chart.detail],
        "distributions": _distributions(all_runs),
        "tenants": tenants,
        "tenant_units": tenant_units,
        "tenants_listed": TENANTS_LISTED,
        "tenant_count": len(summaries[0]["tenants"]),
        "reasons": reasons,
        "reason_unit": reason_unit,
        "rows_open": ROWS_OPEN,
        "best": _opened_second(summaries),
        "block": Markup(embedded([run.name for run in all_runs], [run.tables for run in all_runs])),
        "script": Markup("\n".join((_SCRIPTS / name).read_text(encoding="utf-8") for name in _SCRIPT_ORDER)),
        "command": command(records),
        "provenance": [(name, provenance(record)) for name, record in zip(names, records, strict=True)],
    }


def _clusters(summaries: Sequence[Mapping[str, Any]]) -> str:
    names = dict.fromkeys(str(summary["cluster"]) for summary in summaries)
    return next(iter(names)) if len(names) == 1 else formatting.counted(len(names), "cluster")


def _headline(runs: Sequence[RunOnPage]) -> list[str]:
    counts: list[tuple[float, str]] = [
        (runs[0].summary["jobs_in_record"], "job"),
        (len({run.summary["scheduler"] for run in runs}), "scheduler"),
    ]
    words = [formatting.counted(count, name) for count, name in counts]
    nodes = {run.summary["cluster"]: run.series.nodes for run in runs}
    sizes = {
        cluster: [formatting.counted(own.height, "node"), formatting.counted(float(own["gpus"].sum()), "GPU")]
        for cluster, own in nodes.items()
    }
    if len(sizes) == 1:
        return words + next(iter(sizes.values()))
    return words + [f"{cluster}: {', '.join(size)}" for cluster, size in sizes.items()]


def _distributions(runs: Sequence[RunOnPage]) -> list[dict[str, Any]]:
    """Every quantile of completion time, wait and slowdown; the first row of each states how many follow."""
    kinds = (("Completion time", "jct_seconds"), ("Wait", "wait_seconds"), ("Slowdown", "slowdown"))
    rows = []
    for title, path in kinds:
        values = [[run.summary[path][key] for key in ("mean", *QUANTILES, "max")] for run in runs]
        timed = time_column([value for row in values for value in row])
        show, unit = timed if path.endswith("_seconds") else (formatting.number, "")
        rows += [
            {
                "what": f"{title}, {unit}" if unit else title,
                "rows": 0 if index else len(runs),
                "name": run.name,
                "cells": [show(value) for value in values[index]],
            }
            for index, run in enumerate(runs)
        ]
    return rows


def _tenants(runs: Sequence[RunOnPage]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A row a tenant and run, of the tenants with the most jobs, by name; the first states how many follow.

    And the units of the columns with times.
    """
    by_jobs = sorted(runs[0].summary["tenants"], key=lambda tenant: (-tenant["jobs"], tenant["tenant"]))
    listed = sorted((tenant["tenant"] for tenant in by_jobs[:TENANTS_LISTED]), key=formatting.natural_order)
    times = {
        name: time_column(
            [
                tenant[f"{path}_seconds"][figure]
                for run in runs
                for tenant in run.summary["tenants"]
                if tenant["tenant"] in listed
            ]
        )
        for name, path, figure in _TENANT_TIMES
    }
    rows = []
    for name in listed:
        of_runs = [
            (run.name, tenant)
            for run in runs
            for tenant in run.summary["tenants"]
            if tenant["tenant"] == name
        ]
        rows += [
            {"tenant": name or "no tenant", "rows": 0 if index else len(of_runs), "name": run_name, **cells}
            for index, (run_name, cells) in enumerate(
                (n, _tenant_cells(tenant, times)) for n, tenant in of_runs
            )
        ]
    return rows, {name: unit for name, (_, unit) in times.items()}


def _tenant_cells(tenant: Mapping[str, Any], times: Mapping[str, tuple[Show, str]]) -> dict[str, str]:
    return {
        "jobs": formatting.number(tenant["jobs"]),
        "completed": formatting.number(tenant["completed"]),
        "gpu_hours": formatting.three_figures(tenant["gpu_seconds"] / formatting.HOUR),
        **{name: times[name][0](tenant[f"{path}_seconds"][figure]) for name, path, figure in _TENANT_TIMES},
        "mean_speed": formatting.percent(tenant["mean_speed"]),
        "rho_mean": formatting.number(tenant["rho_mean"]),
        "rho_max": formatting.number(tenant["rho_max"]),
        "preemptions": formatting.number(tenant["preemptions"]),
    }


def _reasons(runs: Sequence[RunOnPage]) -> tuple[list[dict[str, Any]], str]:
    """Why jobs waited: a row a reason, its time and jobs in each run; and the unit of all times."""
    codes = dict.fromkeys(code for run in runs for code in run.summary["reasons"])
    none = {"seconds": 0.0, "jobs": 0}
    show, unit = time_column(
        [reason["seconds"] for run in runs for reason in run.summary["reasons"].values()]
    )
    rows = []
    for code in codes:
        totals = [run.summary["reasons"].get(code, none) for run in runs]
        cells = [
            {"time": show(total["seconds"]), "jobs": formatting.counted(total["jobs"], "job")}
            for total in totals
        ]
        rows.append({"reason": code.replace("_", " ").replace("gpus", "GPUs"), "cells": cells})
    return rows, unit
