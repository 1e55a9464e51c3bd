"""A self-contained page of tables and charts, and every chart as SVG and PNG beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from muster.files import write_aside, write_folder_aside
from muster.report.drawing import PHONE, Chart
from muster.report.render import inlined, png_of, svg_of
from muster.report.theme import DARK, LIGHT


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; the first column names the row."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with what stands under it."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = field(default=())


def write_page(
    folder: Path, title: str, headline: Sequence[str], sections: Sequence[Section], command: str
) -> Path:
    """Write `report.html` and `charts/` into a folder; the page's path."""
    with write_folder_aside(folder / "charts", overwrite=True) as pictures:
        for chart in (chart for section in sections for chart in section.charts):
            svg = svg_of(chart.spec(chart.wide, titled=True), chart.name)
            (pictures / f"{chart.name}.svg").write_text(svg, encoding="utf-8")
            (pictures / f"{chart.name}.png").write_bytes(png_of(svg))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    drawn = [(section, [_drawn(chart) for chart in section.charts]) for section in sections]
    text = environment.get_template("page.html.j2").render(
        title=title, headline=headline, sections=drawn, command=command, light=LIGHT, dark=DARK
    )
    page = folder / "report.html"
    with write_aside(page) as aside:
        aside.write_text(text, encoding="utf-8")
    return page


def _drawn(chart: Chart) -> dict[str, Any]:
    """The chart within the page; the SVG is our own and escapes the texts it shows."""
    return {
        "title": chart.title,
        "note": chart.note,
        "full": chart.wide.width > 600,
        "wide": Markup(inlined(svg_of(chart.spec(chart.wide), f"{chart.name}-wide"))),
        "phone": Markup(inlined(svg_of(chart.spec(PHONE), f"{chart.name}-phone"))),
    }
