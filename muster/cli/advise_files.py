"""The files of `muster advise`: a page of Markdown for each finding, and all of them as a page, CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from muster.advise import Finding
from muster.extras import CHARTS, missing_extra
from muster.formatting import as_json_text, counted, markdown_table
from muster.problems import InputError

_SCHEMA = {
    "name": pl.String(),
    "status": pl.String(),
    "title": pl.String(),
    "jobs": pl.Int64(),
    "saving_low": pl.Float64(),
    "saving_high": pl.Float64(),
    "saving_unit": pl.String(),
    "what_to_do": pl.String(),
    "page": pl.String(),
}


def write_advice(folder: Path, notes: Sequence[str], findings: Sequence[Finding]) -> dict[str, Any]:
    """Write all files but `report.html`; what `advice.json` holds."""
    answer = {"notes": list(notes), "findings": [one.to_dict() for one in findings]}
    (folder / "advice.json").write_text(as_json_text(answer), encoding="utf-8")
    rows = [_row(number, finding) for number, finding in enumerate(findings, 1)]
    for row, finding in zip(rows, findings, strict=True):
        (folder / row["page"]).write_text(finding.markdown(), encoding="utf-8")
    table = pl.DataFrame(rows, schema=_SCHEMA)
    table.write_csv(folder / "advice.csv")
    cells = [["" if cell is None else str(cell) for cell in row] for row in table.rows()]
    (folder / "advice.md").write_text(markdown_table(table.columns, cells), encoding="utf-8")
    return answer


def _row(number: int, finding: Finding) -> dict[str, Any]:
    saving = finding.saving
    return {
        "name": finding.name,
        "status": finding.status,
        "title": finding.title,
        "jobs": finding.jobs,
        "saving_low": None if saving is None else saving.low,
        "saving_high": None if saving is None else saving.high,
        "saving_unit": None if saving is None else saving.unit,
        "what_to_do": " ".join(finding.what_to_do),
        "page": f"{number}-{finding.name}.md",
    }


def write_advice_page(
    folder: Path, title: str, findings: Sequence[Finding], command: str
) -> InputError | None:
    """Write `report.html` with all findings; what is missing where it cannot be drawn."""
    if missing := missing_extra(CHARTS):
        return missing
    from muster.sweep.page import Section, Table, write_sections

    sections = [
        Section(
            f"{finding.name}: {finding.title}",
            [
                f"Status: {finding.status}. Rests on {counted(finding.jobs, 'job')}.",
                *finding.evidence,
                *(() if finding.saving is None else (f"Saving: {finding.saving} in the time of the log.",)),
                *finding.what_to_do,
            ],
            [Table("", finding.columns, finding.rows)] if finding.rows else [],
        )
        for finding in findings
    ]
    write_sections(folder, title, [counted(len(findings), "question")], sections, command, formats=("html",))
    return None
