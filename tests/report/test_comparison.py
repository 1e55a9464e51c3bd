"""The figures of a comparison: each is that of its run's summary, the same in JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.report import figures as shown
from muster.report.comparison import COLUMNS
from muster.report.metrics import value_at
from tests.cli.conftest import muster_process

LOG = """job_id,submit_seconds,gpus,duration_seconds,start_seconds,end_seconds,tenant
0,0,1,10,0,10,a
1,1,1,5,13,18,b
2,2,1,3,10,13,b
"""
RUNS = ("recorded", "fifo-on-1x1gpu", "las-on-1x1gpu", "fifo-on-1x2gpu", "las-on-1x2gpu")
NO_FIGURES = ("trace", "tenants", "reasons", "rules", "knowledge", "notes", "measured", "jct_bound.reason")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two schedulers on two clusters, and a log with starts."""
    folder = tmp_path_factory.mktemp("compared")
    (folder / "log.csv").write_text(LOG)
    flags = ("--cluster", "1x1gpu", "--cluster", "1x2gpu", "--scheduler", "fifo", "--scheduler", "las")
    done = muster_process("compare", "log.csv", *flags, "--certify", "--out", "out", folder=folder)
    assert done.status == 0, done.err
    return folder / "out"


def summary_of(folder: Path, run: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / run / "summary.json").read_text())
    return content


def leaves(content: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in content.items():
        path = f"{prefix}{name}"
        if path in NO_FIGURES:
            continue
        if isinstance(value, dict):
            yield from leaves(value, f"{path}.")
        else:
            yield path


def test_every_figure_of_a_summary_has_one_column(folder: Path) -> None:
    """With its unit: a path of seconds has a name of seconds."""
    assert sorted(leaves(summary_of(folder, RUNS[1]))) == sorted(column.path for column in COLUMNS)
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    assert all(column.name.endswith("_seconds") == ("_seconds" in column.path) for column in COLUMNS)
    on_page = [shown.TENANT_FIGURE, *shown.FIGURES, *shown.UTILITY_FIGURES, *shown.DEADLINE_FIGURES]
    paths = {figure.path for figure in (*on_page, *shown.CERTIFIED_FIGURES)}
    assert paths <= {column.path for column in COLUMNS}


def test_json_has_each_figure_of_each_run(folder: Path) -> None:
    content = json.loads((folder / "comparison.json").read_text())
    assert content["runs"] == list(RUNS[1:])
    assert [row["run"] for row in content["figures"]] == list(RUNS)
    for row in content["figures"]:
        summary = summary_of(folder, row["run"])
        expected = {column.name: value_at(summary, column.path) for column in COLUMNS}
        assert row == {"run": row["run"], **expected}
    assert content["figures"][0]["wait_mean_seconds"] == pytest.approx(20 / 3)


def test_csv_has_the_figures_of_the_json(folder: Path) -> None:
    with (folder / "comparison.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = json.loads((folder / "comparison.json").read_text())["figures"]
    assert len(rows) == len(expected)
    for row, figures in zip(rows, expected, strict=True):
        read = {name: None if cell == "" else kind_of(figures[name])(cell) for name, cell in row.items()}
        assert read == figures


def kind_of(value: Any) -> Callable[[str], Any]:
    return float if isinstance(value, float) else type(value)


def test_markdown_has_the_figures_that_some_run_has(folder: Path) -> None:
    rows = json.loads((folder / "comparison.json").read_text())["figures"]
    header, _, *lines = (
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in (folder / "comparison.md").read_text().splitlines()
    )
    assert header == ["run", *RUNS]
    found = {name: cells for name, *cells in lines}
    assert list(found) == [
        name for name in rows[0] if name != "run" and any(row[name] is not None for row in rows)
    ]
    assert "gap_mean" in found
    assert "utility_total" not in found
    for name, cells in found.items():
        for cell, row in zip(cells, rows, strict=True):
            if isinstance(row[name], float):
                assert float(cell) == pytest.approx(row[name], abs=0.00005)
            else:
                assert cell == ("" if row[name] is None else str(row[name]))
