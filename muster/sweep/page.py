"""A page of sections, each with its words, tables and charts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from muster.report.drawing import Chart
from muster.report.frame import BY_DEFAULT, drawn, embedded_files, write_page

_WORD = re.compile(r"[^\W\d_]{4}")
TEMPLATE = Path(__file__).with_name("page.html.j2")


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; the first column names the row."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @property
    def is_text(self) -> list[bool]:
        """By column, whether it holds words; figures stand at the right."""
        return [any(_WORD.search(row[at]) for row in self.rows) for at in range(len(self.header))]


@dataclass(frozen=True)
class Section:
    """A heading with what stands under it."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = field(default=())


def write_sections(
    folder: Path,
    title: str,
    headline: Sequence[str],
    sections: Sequence[Section],
    command: str,
    formats: Sequence[str] = BY_DEFAULT,
) -> Path:
    """Write `report.html` and `charts/` into a folder; the page's path. Charts with rows can be saved from the page."""
    charts = [chart for section in sections for chart in section.charts]
    shown = {
        "title": title,
        "headline": headline,
        "sections": [
            (section, [drawn(chart) | {"files": embedded_files(chart)} for chart in section.charts])
            for section in sections
        ],
        "command": command,
    }
    return write_page(folder, TEMPLATE, charts, shown, formats)
