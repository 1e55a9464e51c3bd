"""What all charts share: the room they fill, their drawing twice (wide, phone), axes, legends, panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import altair as alt

from muster.formatting import DAY, HOUR, MINUTE
from muster.report.theme import config, series_colours, series_dashes
from muster.report.timeline import Steps

Rows = list[dict[str, Any]]
LABEL_SIZE = 12
"""Pixels; the font size of labels."""
_WIDTHS = {
    0.3: "'IJijl",
    0.35: " ,./:;\\|·",
    0.4: "()-[]ft",
    0.45: "!r",
    0.5: '"*_`–',
    0.55: "?csz",
    0.6: "FLkvxy",
    0.65: "0123456789$EPSTYabdeghnopqu{}",
    0.7: "ABCKRVXZ",
    0.75: "NU",
    0.8: "&DGHOQ",
    0.85: "#+<=>^w~",
    0.9: "M",
}
"""Characters by their width over the font size, rounded up, in DejaVu Sans: the widest that stands in for Arial."""
_WIDTH_OF = {letter: width for width, letters in _WIDTHS.items() for letter in letters}
CHARACTER = 7.4
"""Pixels; the mean width of a character of a label in that font."""
_WIDER = 0.2
"""The part of the width of a label by which it may be wider in the browser than it was measured."""
LEGEND_SYMBOL = 40
"""Pixels; a legend's symbol and the room about it."""


@dataclass(frozen=True)
class ChartSpace:
    """What a chart may fill: its width in pixels, and whether that is a phone's."""

    width: int
    narrow: bool


HALF, FULL, PHONE = ChartSpace(520, False), ChartSpace(1060, False), ChartSpace(340, True)


@dataclass(frozen=True)
class Chart:
    """A chart that can be drawn for a wide screen and for a phone."""

    name: str
    """Of its file."""
    title: str
    note: str
    """How to read it, in a sentence."""
    wide: ChartSpace
    draw: Callable[[ChartSpace], alt.TopLevelMixin]
    detail: bool = False
    """Of one run, for who wants to look closer."""
    rows: Sequence[Mapping[str, Any]] = ()
    """What it shows as a table: a unit for each column, in its name."""

    def spec(self, room: ChartSpace, *, titled: bool = False) -> dict[str, Any]:
        """The Vega-Lite specification; with its title where the chart stands alone."""
        spec: dict[str, Any] = self.draw(room).to_dict()
        return {**spec, "config": config(), **({"title": self.title} if titled else {})}


def data(rows: Rows) -> alt.InlineData:
    """The rows as they are; a frame would be held to Altair's 5,000 rows."""
    return alt.InlineData(values=rows)


def text_width(text: str) -> float:
    """The most pixels that a label takes, whichever of the usual fonts a browser has."""
    return LABEL_SIZE * sum(_WIDTH_OF.get(letter, 1.0) for letter in text)


def lines(name: str, width: float) -> list[str]:
    """The name in lines of so many pixels, broken after a joint where there is one in the second half of a line."""
    most = max(8, int(width / (1.1 * CHARACTER)))
    broken = []
    while len(name) > most:
        joint = max(name.rfind(letter, 0, most) for letter in " +-_/")
        end = joint + 1 if joint >= most / 2 else most
        broken.append(name[:end])
        name = name[end:]
    return [*broken, name]


def fitted(chart: alt.Chart | alt.LayerChart, room: ChartSpace, height: float) -> alt.TopLevelMixin:
    """A single plot that fills the room with its axes and legend."""
    autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    fit: alt.TopLevelMixin = chart.properties(width=room.width, height=height, autosize=autosize)
    return fit


def colour_of_run(names: Sequence[str], legend: alt.Legend | None = None) -> alt.Color:
    """Every run its colour, the same in every chart."""
    scale = alt.Scale(domain=list(names), range=series_colours(len(names)))
    return alt.Color("run:N", legend=legend, scale=scale)


def dash_of_run(names: Sequence[str], legend: alt.Legend | None = None) -> alt.StrokeDash:
    """The stroke of each run; stroke and colour together distinguish more runs than there are colours."""
    scale = alt.Scale(domain=list(names), range=series_dashes(len(names)))
    return alt.StrokeDash("run:N", legend=legend, scale=scale)


def legend_of_runs(names: Sequence[str], room: ChartSpace) -> alt.Legend | None:
    """None where there is only one run."""
    return run_legend(names, room) if len(names) > 1 else None


def run_legend(names: Sequence[str], room: ChartSpace, **details: Any) -> alt.Legend:
    """A legend whose entries keep apart in a wider font than the one that the drawing is measured with."""
    padding = 10 + _WIDER * max(map(text_width, names))
    return alt.Legend(columns=legend_columns(names, room), columnPadding=padding, **details)


def legend_columns(names: Sequence[str], room: ChartSpace) -> int:
    """How many entries of a legend fit beside each other."""
    return max(1, int(room.width / (max(map(text_width, names)) + LEGEND_SYMBOL)))


def panels(
    panel: alt.Chart | alt.LayerChart, rows: Rows, field: str, order: Sequence[str], columns: int
) -> alt.FacetChart:
    """A panel a value of the field, in the order given, its name above its left corner."""
    header = alt.Header(
        labelAnchor="start",
        labelOrient="top",
        labelPadding=4,
        labelExpr="split(datum.label, '\\n')",
        title=None,
    )
    facet = alt.Facet(f"{field}:N", sort=list(order), header=header)
    return panel.facet(facet, data=data(rows), columns=columns, spacing={"row": 14, "column": 18})


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit in which a length of time reads best: its seconds and its name."""
    for unit, name in ((DAY, "Days"), (HOUR, "Hours"), (MINUTE, "Minutes")):
        if seconds >= 3 * unit:
            return unit, name
    return 1.0, "Seconds"


def since_first_submission(field: str, unit: str, until: float | None = None) -> alt.X:
    """The axis of time, to its last moment, or until a later one that charts of several runs share."""
    axis = alt.Axis(title=f"{unit} since the first submission", tickCount=6, labelFlush=True, grid=False)
    scale = alt.Scale(nice=False, zero=True) if until is None else alt.Scale(nice=False, domain=[0, until])
    return alt.X(f"{field}:Q", axis=axis, scale=scale)


def stepped_rows(run: str, steps: Steps, quantity: str) -> Rows:
    """A row for each step of a run, for a table."""
    return [
        {"scheduler": run, "from_seconds": time, quantity: value if isfinite(value) else None}
        for time, value in zip(steps.times.tolist(), steps.values.tolist(), strict=False)
    ]


def stepped(run: str, steps: Steps, divisor: float) -> Rows:
    """A row a step, and one that draws the last to its end; what is not a number draws nothing.

    A run that took no time, because no job of it could run, has no step.
    """
    values = [*steps.values.tolist(), *steps.values[-1:].tolist()]
    return [
        {"run": run, "time": time / divisor, "value": value if isfinite(value) else None}
        for time, value in zip(steps.times.tolist()[: len(values)], values, strict=True)
    ]
