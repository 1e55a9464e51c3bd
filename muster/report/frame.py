"""A page that needs nothing else: a template within the frame that all pages share, its charts also beside it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from muster.files import write_aside, write_folder_aside
from muster.folder_layouts import CHARTS
from muster.palette import DARK, LIGHT
from muster.report.drawing import PHONE, Chart
from muster.report.render import csv_of, inlined, png_of, svg_of

_FRAME = Path(__file__).parent


FORMATS = ("html", "svg", "png", "csv")
BY_DEFAULT = ("html", "svg", "png")


def write_page(
    folder: Path,
    template: Path,
    charts: Sequence[Chart],
    shown: Mapping[str, Any],
    formats: Sequence[str] = BY_DEFAULT,
) -> Path:
    """Write `report.html` and `charts/`, in these of `FORMATS`, into a folder; where the first of it is.

    The template extends `frame.html.j2`; `shown` is what both need.
    """
    if set(formats) != {"html"}:
        with write_folder_aside(folder / "charts", CHARTS) as pictures:
            for chart in charts:
                _write_chart(chart, pictures, formats)
    if "html" not in formats:
        return folder / "charts"
    page = folder / "report.html"
    with write_aside(page) as aside:
        aside.write_text(page_text(template, shown), encoding="utf-8")
    return page


def _write_chart(chart: Chart, folder: Path, formats: Sequence[str]) -> None:
    svg = svg_of(chart.spec(chart.wide, titled=True), chart.name) if {"svg", "png"} & set(formats) else ""
    if "svg" in formats:
        (folder / f"{chart.name}.svg").write_text(svg, encoding="utf-8")
    if "png" in formats:
        (folder / f"{chart.name}.png").write_bytes(png_of(svg))
    if "csv" in formats:
        (folder / f"{chart.name}.csv").write_text(csv_of(chart.rows), encoding="utf-8", newline="")


def embedded_files(chart: Chart) -> list[tuple[str, str, str]]:
    """Kind, name and address of the chart as files that a page holds itself; none where the chart has no rows."""
    if not chart.rows:
        return []
    svg = svg_of(chart.spec(chart.wide, titled=True), chart.name)
    contents = {
        "png": ("image/png", png_of(svg)),
        "svg": ("image/svg+xml", svg.encode()),
        "csv": ("text/csv", csv_of(chart.rows).encode()),
    }
    return [
        (kind.upper(), f"{chart.name}.{kind}", f"data:{mime};base64,{base64.b64encode(content).decode()}")
        for kind, (mime, content) in contents.items()
    ]


def page_text(template: Path, shown: Mapping[str, Any]) -> str:
    """The page of a template within the frame."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, _FRAME]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["code"] = _with_code
    text = environment.get_template(template.name).render(light=LIGHT, dark=DARK, **shown)
    return text.replace("POLICY", _policy(text), 1)


def _with_code(text: str) -> Markup:
    """The text with what stands between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _policy(text: str) -> str:
    """A Content-Security-Policy under which nothing but the style and the script of this page is used."""
    allowed = []
    for name, element in (("style", "style"), ("script", 'script type="module"')):
        hashes = [
            f" 'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
            for content in re.findall(f"<{element}>(.*?)</{name}>", text, re.DOTALL)
        ]
        allowed.append(f"{name}-src" + ("".join(hashes) or " 'none'"))
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def drawn(chart: Chart) -> dict[str, Any]:
    """The chart within the page; the SVG is our own and escapes the texts it shows."""
    return {
        "name": chart.name,
        "title": chart.title,
        "note": chart.note,
        "full": chart.wide.width > 600,
        "wide": Markup(inlined(svg_of(chart.spec(chart.wide), f"{chart.name}-wide"))),
        "phone": Markup(inlined(svg_of(chart.spec(PHONE), f"{chart.name}-phone"))),
    }
