"""How every chart looks: one theme, colours that any colour vision can distinguish, light and dark.

Charts are drawn in the light colours; each stands for a role, so that a page can put a CSS variable of the
role in its place and follow the reader's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Metrically equal on most systems, so that text takes the room it was measured to take.
FONT = "Arial, Liberation Sans, Helvetica, sans-serif"

LIGHT: Mapping[str, str] = {
    "ink": "#1c2430",
    "quiet": "#566171",
    "line": "#e2e6eb",
    "surface": "#ffffff",
    "series-1": "#1b6ac9",
    "series-2": "#d9660b",
    "series-3": "#157a4f",
    "series-4": "#c2418f",
    "series-5": "#7a5c1e",
    "series-6": "#329cc9",
    "size-1": "#a8d0ec",
    "size-2": "#8fc2e5",
    "size-3": "#74b1dc",
    "size-4": "#589fd1",
    "size-5": "#3d8bc3",
    "size-6": "#2a76b0",
    "size-7": "#1b6099",
    "size-8": "#10497d",
    "size-9": "#0a2d57",
}
DARK: Mapping[str, str] = {
    "ink": "#e8ecf1",
    "quiet": "#a3adba",
    "line": "#2c333c",
    "surface": "#14171b",
    "series-1": "#4f9bf2",
    "series-2": "#f28a3a",
    "series-3": "#22b98a",
    "series-4": "#ef86c4",
    "series-5": "#c9a865",
    "series-6": "#7fdcf5",
    "size-1": "#1d4064",
    "size-2": "#27537f",
    "size-3": "#33679b",
    "size-4": "#427cb5",
    "size-5": "#5592cb",
    "size-6": "#6fa9dc",
    "size-7": "#8fc0e9",
    "size-8": "#b3d6f2",
    "size-9": "#d6eafb",
}
SERIES = [colour for role, colour in LIGHT.items() if role.startswith("series")]
SIZES = [colour for role, colour in LIGHT.items() if role.startswith("size")]
SOLID, DASHED = [1, 0], [5, 3]


def series_colours(count: int) -> list[str]:
    """A colour a scheduler, in order; from the seventh on they come again and the lines are dashed."""
    return [SERIES[index % len(SERIES)] for index in range(count)]


def series_dashes(count: int) -> list[list[int]]:
    """The stroke of each scheduler's line."""
    return [DASHED if index // len(SERIES) % 2 else SOLID for index in range(count)]


def config() -> dict[str, Any]:
    """The Vega-Lite configuration shared by all charts."""
    ink, quiet, line = LIGHT["ink"], LIGHT["quiet"], LIGHT["line"]
    text = {"labelColor": quiet, "titleColor": quiet, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "font": FONT,
        # The page describes each chart as a whole; a label on every mark would triple its size.
        "aria": False,
        "background": LIGHT["surface"],
        "padding": 6,
        "view": {"stroke": None},
        "axis": {
            **text,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "gridColor": line,
            "domain": False,
            "ticks": False,
            "labelPadding": 6,
        },
        "legend": {
            **text,
            "labelColor": ink,
            "labelLimit": 300,
            "symbolType": "stroke",
            "symbolSize": 260,
            "symbolStrokeWidth": 2.5,
            "orient": "top",
            "offset": 10,
            "title": None,
        },
        "header": {"labelColor": ink, "labelFontSize": 12, "labelFontWeight": "bold", "title": None},
        "title": {"color": ink, "fontSize": 15, "anchor": "start", "offset": 12, "frame": "group"},
        "line": {"strokeWidth": 2},
        "text": {"color": ink, "fontSize": 12},
    }
