"""From a chart to SVG and PNG without a browser, the same bytes every time."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import vl_convert

from muster.palette import LIGHT

PNG_SCALE = 2
# A tenth of a pixel is finer than anybody sees, and a third shorter.
_TOO_FINE = re.compile(r"-?\d+\.\d{2,}")
_DESCRIBED = re.compile(r'<path((?:(?!aria-label)[^>])* aria-label="([^"]*)" role="graphics-symbol"[^>]*?)/>')
_NAMED = re.compile(r'id="([^"]+)"')


def svg_of(spec: dict[str, Any], prefix: str) -> str:
    """The chart as SVG; its ids are numbered under the prefix, so that several can share a page.

    The renderer numbers clip paths through its whole life, which would make two runs differ and, where two
    charts of a page meet the same number, clip one by the other.
    """
    svg: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    names = {old: f"{prefix}-{index}" for index, old in enumerate(dict.fromkeys(_NAMED.findall(svg)))}
    svg = _NAMED.sub(lambda match: f'id="{names[match[1]]}"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{names[match[1]]})", svg)
    return re.sub(r' (?:d|transform)="[^"]*"', lambda match: _TOO_FINE.sub(_rounded, match[0]), svg)


def png_of(svg: str) -> bytes:
    """The SVG as PNG, at twice its size."""
    png: bytes = vl_convert.svg_to_png(svg, scale=PNG_SCALE)
    return png


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of a chart as CSV with a heading."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def inlined(svg: str) -> str:
    """The SVG to stand within HTML: it fills the width it is given and takes its colours from the page.

    A mark with a description shows it when the pointer rests on it.
    """
    svg = _DESCRIBED.sub(r"<path\1><title>\2</title></path>", svg)
    for role, colour in LIGHT.items():
        svg = svg.replace(f'"{colour}"', f'"var(--{role})"')
    svg = svg.replace('fill="white"', 'fill="none"', 1)
    # HTML knows SVG without its namespaces; without them the page names no address at all.
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg, count=2)
    return re.sub(r'^<svg([^>]*?) width="[\d.]+" height="[\d.]+"', r"<svg\1", svg, count=1)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")
