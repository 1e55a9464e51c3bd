"""How far chance and an order that nobody tells move the figures of the same input (needs the reference folder).

Two things are varied: arrivals, by less than a second, and which place of a level a gang takes, the first or the
fullest. What they move by more than 5 % is not fixed to 5 % by what is known of the authors' program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from muster.reproduce.dally.same_input import TOLERANCE, Twin, twins
from muster.reproduce.experiment import Effort, Experiment, Findings, Result, Row, Verdict, within
from muster.sweep.page import Table
from muster.sweep.pieces import Piece

FITS = ("first", "best")
OUTSIDE = "outside"


def _seeds(effort: Effort) -> range:
    """Of the shifts."""
    return range(1, 3) if effort.quick else range(1, 21)


def _twins(effort: Effort) -> list[Twin]:
    return twins(effort.reference / "parity" / "dally") if effort.reference else []


def _pieces(effort: Effort) -> Sequence[Piece]:
    return [
        replace(twin, fit=fit, shifted=seed)
        for twin in _twins(effort)
        for fit in FITS
        for seed in _seeds(effort)
    ]


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    """Beside each published figure the 5 and 95 % points of both ways."""
    left = iter(results)
    lines, outside = [], []
    for twin in _twins(effort):
        runs = {fit: [next(left) for _ in _seeds(effort)] for fit in FITS}
        for figure, theirs in (("makespan", twin.makespan), ("jct", twin.jct)):
            points = {
                fit: np.percentile([run[figure] for run in of], (5, 50, 95)) / theirs - 1.0
                for fit, of in runs.items()
            }
            low, high = min(at[0] for at in points.values()), max(at[2] for at in points.values())
            told = _verdict(float(low), float(high))
            if told == OUTSIDE:
                outside.append(f"{figure} of {twin.policy} on {twin.trace}")
            ways = [_range(*points[fit].tolist()) for fit in FITS]
            lines.append((twin.policy, twin.trace, figure, f"{theirs:,.0f}", *ways, told))
    if not lines:
        return Findings([])
    row = Row(
        "same input: published figures between our two ways to take places, or within 5 % of them",
        "",
        f"{len(lines)} figures",
        f"{len(lines) - len(outside)} of {len(lines)}",
        Verdict.NOT_REACHED if outside else Verdict.REACHED,
        "; ".join(outside),
    )
    header = ("Policy", "Trace", "Figure", "Theirs (s)", "First place", "Fullest place", "Theirs is")
    note = (
        f"Ours over theirs, 5 % ... median ... 95 % of {len(_seeds(effort))} runs whose arrivals are shifted by less "
        "than a second."
    )
    return Findings([row], tables=[Table("Chance and the order of places", header, lines, note)])


def _verdict(low: float, high: float) -> str:
    if low <= 0.0 <= high:
        return "between"
    nearest = low if low > 0.0 else high
    return "within 5 %" if within(1.0 + nearest, 1.0, TOLERANCE) is Verdict.REACHED else OUTSIDE


def _range(low: float, median: float, high: float) -> str:
    return f"{100 * low:+.0f} ... {100 * median:+.0f} ... {100 * high:+.0f} %"


CHANCE = Experiment(
    "chance",
    "How far chance moves the same input",
    "The authors' inputs with arrivals shifted by less than a second, and with the first or the fullest place of a "
    "level taken. Where theirs lies between, these could make the difference; which of them does is not known.",
    _pieces,
    _read,
)
