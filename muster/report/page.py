"""`report.html`: one page that needs nothing else, and every chart as SVG and PNG beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from muster.problems import BadInput, Problem
from muster.report import words
from muster.report.charts import charts_of
from muster.report.drawing import PHONE, Chart
from muster.report.figures import FIGURES, TENANT_FIGURE, column
from muster.report.metrics import summarise
from muster.report.notes import command, notes, settings_of
from muster.report.record import Record, read_record, record_folders
from muster.report.render import inlined, png_of, svg_of
from muster.report.series import RunSeries, chart_series
from muster.report.theme import DARK, LIGHT

TENANTS_LISTED = 50
ROWS_OPEN = 24
"""Tables up to so many rows stand open."""
TEMPLATE = "report.html.j2"


def write_report(folder: Path) -> Path:
    """Write `report.html` and `charts/` into the folder of a run or of a comparison; the page's path."""
    summaries: list[dict[str, Any]] = []
    runs: list[Mapping[str, Any]] = []
    series: list[RunSeries] = []
    problems: list[Problem] = []
    folders = record_folders(folder)
    for run_folder in folders:
        try:
            record = read_record(run_folder)
        except BadInput as bad:
            problems.extend(bad.problems)
            continue
        # One run at a time is held whole; of the others only what the page shows.
        summaries.append(summarise(record))
        series.append(chart_series(record, _name(record, run_folder)))
        runs.append(record.run)
    if problems:
        raise BadInput(*problems)
    names, common = words.short_names(_distinct([run.name for run in series], folders))
    for one, name in zip(series, names, strict=True):
        one.name = name
'''
