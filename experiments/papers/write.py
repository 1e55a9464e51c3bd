"""The findings of a paper in a folder: as JSON, CSV and Markdown, and as a page with charts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from rich import box
from rich.table import Table as TerminalTable
from rich.text import Text

import muster
from experiments.papers.experiment import Experiment, Findings, Paper, Row, Verdict
from muster.files import write_aside
from muster.sweep.page import Section, Table, write_sections

HEADER = ("Case", "Reported", "Published program", "Muster", "Verdict", "Remark")
STYLES = {Verdict.REACHED: "green", Verdict.NOT_REACHED: "red"}

Found = Sequence[tuple[Experiment, Findings]]


def write_findings(folder: Path, paper: Paper, found: Found, command: str) -> None:
    """Write `reproduction.json`, `.csv`, `.md` and the page."""
    content = {
        "paper": paper.name,
        "source": paper.source,
        "muster_version": muster.__version__,
        "command": command,
        "experiments": [
            {
                "name": experiment.name,
                "title": experiment.title,
                "claim": experiment.claim,
                "rows": [asdict(row) for row in findings.rows],
                "tables": [asdict(table) for table in findings.tables],
            }
            for experiment, findings in found
        ],
    }
    _write(folder / "reproduction.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    _write(folder / "reproduction.csv", _csv(found))
    _write(folder / "reproduction.md", _markdown(paper, found, command))
    sections = [
        Section("All claims", paper.notes, [Table("", ("Experiment", *HEADER), _all_rows(found))]),
        *(
            Section(
                experiment.title,
                [experiment.claim],
                [Table("", HEADER, [_cells(row) for row in findings.rows]), *findings.tables],
                findings.charts,
            )
            for experiment, findings in found
        ),
    ]
    verdicts = [row.verdict for _, row in _rows(found)]
    counts = [f"{verdicts.count(verdict)} {verdict.value}" for verdict in Verdict if verdict in verdicts]
    write_sections(folder, paper.title, [paper.source, *counts], sections, command)


def terminal_table(found: Found) -> TerminalTable:
    """All rows, under the titles of their experiments."""
    table = TerminalTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in HEADER[:-1]:
        table.add_column(name, overflow="fold")
    for experiment, findings in found:
        table.add_row(Text(experiment.title, style="bold"))
        for row in findings.rows:
            verdict = Text(row.verdict.value, style=STYLES.get(row.verdict, ""))
            table.add_row(row.what, row.reported, row.published, row.muster, verdict)
        table.add_section()
    return table


def _rows(found: Found) -> list[tuple[Experiment, Row]]:
    return [(experiment, row) for experiment, findings in found for row in findings.rows]


def _all_rows(found: Found) -> list[list[str]]:
    """Every row, the experiment's title before its first."""
    return [
        ["" if at else experiment.title, *_cells(row)]
        for experiment, findings in found
        for at, row in enumerate(findings.rows)
    ]


def _cells(row: Row) -> list[str]:
    return [row.what, row.reported, row.published, row.muster, row.verdict.value, row.remark]


def _csv(found: Found) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("experiment", *(field.name for field in fields(Row))))
    writer.writerows((experiment.name, *_cells(row)) for experiment, row in _rows(found))
    return text.getvalue()


def _markdown(paper: Paper, found: Found, command: str) -> str:
    lines = [f"# {paper.title}", "", f"Source: {paper.source}.", "", f"    {command}", ""]
    lines += [f"- {note}" for note in paper.notes]
    for experiment, findings in found:
        lines += ["", f"## {experiment.title}", "", experiment.claim, ""]
        lines += _markdown_table(HEADER, [_cells(row) for row in findings.rows])
        for table in findings.tables:
            lines += ["", *([f"{table.title}:", ""] if table.title else [])]
            lines += _markdown_table(table.header, table.rows)
            lines += ["", table.note] if table.note else []
    return "\n".join(lines) + "\n"


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [[cell.replace("|", "\\|") for cell in row] for row in (header, ["---"] * len(header), *rows)]
    return [f"| {' | '.join(row)} |" for row in shown]


def _write(path: Path, text: str) -> None:
    with write_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")
