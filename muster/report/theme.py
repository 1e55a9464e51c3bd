"""How every chart looks: one theme, colours that any colour vision can distinguish, light and dark.

Charts are drawn in the light colours; each stands for a role, so that a page can put a CSS variable of the
role in its place and follow the reader's light or dark setting.
"""

from __future__ import annotations

from typing import Any

from muster.palette import LIGHT

# Metrically equal on most systems, so that text takes the room it was measured to take.
FONT = "Arial, Liberation Sans, Helvetica, sans-serif"

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
