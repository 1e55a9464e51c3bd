"""The findings of `muster advise` for programs and people: a row for each, the same in JSON, CSV and Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from muster.formatting import as_json_text, markdown_cell, markdown_table


class AdviceColumn(NamedTuple):
    """One column of `advice.csv`."""

    name: str
    dtype: pl.DataType
    meaning: str


ADVICE_COLUMNS: Sequence[AdviceColumn] = (
    AdviceColumn("name", pl.String(), "the question"),
    AdviceColumn("status", pl.String(), "found, nothing found or not judged"),
    AdviceColumn("title", pl.String(), "the finding in a sentence"),
    AdviceColumn("jobs", pl.Int64(), "jobs that it rests on"),
    AdviceColumn("saving_low", pl.Float64(), "least that a change could save over the time of the log"),
    AdviceColumn("saving_high", pl.Float64(), "most that it could save"),
    AdviceColumn("saving_unit", pl.String(), "what is saved"),
    AdviceColumn("what_to_do", pl.String(), "advice"),
    AdviceColumn("page", pl.String(), "file with its evidence and largest cases"),
)
"""What a table of findings states, in the order of its columns."""


def page_name(number: int, name: str) -> str:
    """Return the file of a finding's page; numbers count from 1."""
    return f"{number}-{name}.md"


def write_advice(
    folder: Path, notes: Sequence[str], findings: Sequence[Mapping[str, Any]], pages: Sequence[str]
) -> dict[str, Any]:
    """Write `advice.json`, `advice.csv`, `advice.md` and the page of each finding; what `advice.json` holds."""
    answer = {"notes": list(notes), "findings": list(findings)}
    (folder / "advice.json").write_text(as_json_text(answer), encoding="utf-8")
    rows = [_row(number, finding) for number, finding in enumerate(findings, 1)]
    for row, page in zip(rows, pages, strict=True):
        (folder / row["page"]).write_text(page, encoding="utf-8")
    table = pl.DataFrame(rows, schema={column.name: column.dtype for column in ADVICE_COLUMNS})
    table.write_csv(folder / "advice.csv")
    cells = [[markdown_cell(cell) for cell in row] for row in table.rows()]
    (folder / "advice.md").write_text(markdown_table(table.columns, cells), encoding="utf-8")
    return answer


def _row(number: int, finding: Mapping[str, Any]) -> dict[str, Any]:
    saving = finding["saving"] or {}
    return {
        **{name: finding[name] for name in ("name", "status", "title", "jobs")},
        **{f"saving_{name}": saving.get(name) for name in ("low", "high", "unit")},
        "what_to_do": " ".join(finding["what_to_do"]),
        "page": page_name(number, finding["name"]),
    }
