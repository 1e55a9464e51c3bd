"""A job's speed over time beside the one that its model predicts, with its start-ups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.formatting import duration
from muster.service.pages.charts import Span, held_line, span

_TOP = 1.15
"""Times the greatest speed: the upper end of the chart."""


@dataclass(frozen=True)
class SpeedChart:
    """Paths and stretches within the width and height of a small chart."""

    measured: str
    predicted: str
    start_ups: list[tuple[Span, str]]
    """Each with what it took."""
    most: float
    """The greatest speed, in steps per second."""
    since: float
    until: float


def speed_chart(series: Mapping[str, Any], until: float) -> SpeedChart | None:
    """The chart of an answer of `series_of` up to a time; None where no speed is known."""
    starts = [start | {"until": start["until"] or until} for start in series["starts"]]
    measured = [(one["since"], one["until"], one["steps_per_second"]) for one in series["measured"]]
    predicted = [
        (start["works_from"] or start["since"], start["until"], start["predicted_steps_per_second"])
        for start in starts
        if start["predicted_steps_per_second"] is not None
    ]
    most = max((speed for _, _, speed in (*measured, *predicted)), default=0.0)
    if most <= 0:
        return None
    since = starts[0]["since"] if starts else measured[0][0]
    return SpeedChart(
        held_line(measured, since, until, _TOP * most),
        held_line(predicted, since, until, _TOP * most),
        [
            (
                span(start["since"], start["works_from"], since, until),
                f"started in {duration(start['works_from'] - start['since'])}",
            )
            for start in starts
            if start["works_from"] is not None and start["works_from"] > start["since"]
        ],
        most,
        since,
        until,
    )
