"""Small charts of a page, as points of SVG shapes: the page's style sheet gives the colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 720.0, 120.0


@dataclass(frozen=True)
class StepLine:
    """A figure over time that holds until its next point."""

    path: str
    """Of an SVG path within `WIDTH` times `HEIGHT`."""
    most: float
    """The figure at the upper end."""


def step_line(points: Sequence[tuple[float, float]], since: float, until: float, most: float) -> StepLine:
    """The line through (time, figure) between two times; `most` is at the upper end, at the least 1."""
    top = max(most, 1.0, *(figure for _, figure in points)) if points else max(most, 1.0)
    pieces: list[str] = []
    for time, figure in points:
        x, y = _x(time, since, until), HEIGHT - figure / top * HEIGHT
        pieces.append(f"M{x:.1f} {y:.1f}" if not pieces else f"H{x:.1f}V{y:.1f}")
    if pieces:
        pieces.append(f"H{WIDTH:.1f}")
    return StepLine("".join(pieces), top)


def held_line(pieces: Sequence[tuple[float, float, float]], since: float, until: float, most: float) -> str:
    """The path through figures that hold from a time to another one, broken where none holds; `most` is at the top."""
    path, last = [], None
    for begin, end, figure in pieces:
        x, y = _x(begin, since, until), HEIGHT - figure / most * HEIGHT
        path.append(f"V{y:.1f}" if last == begin else f"M{x:.1f} {y:.1f}")
        path.append(f"H{_x(end, since, until):.1f}")
        last = end
    return "".join(path)


def _x(time: float, since: float, until: float) -> float:
    return (min(max(time, since), until) - since) / max(until - since, 1e-9) * WIDTH


@dataclass(frozen=True)
class Span:
    """A stretch of time within a chart, in its width."""

    x: float
    width: float


def span(begin: float, end: float, since: float, until: float, width: float = WIDTH) -> Span:
    """Where a stretch of time lies; at least a pixel wide."""
    scale = width / max(until - since, 1e-9)
    left = (max(begin, since) - since) * scale
    return Span(round(left, 1), round(max((min(end, until) - since) * scale - left, 1.0), 1))
