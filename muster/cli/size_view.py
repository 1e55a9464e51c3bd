"""What the answers of `muster size` have in common: sentences, which numbers are shown, charts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from altair import LayerChart
    from rich.console import Console


def print_step(
    console: Console, completion_seconds: float, iterations: int, stage_seconds: Mapping[str, float]
) -> None:
    """How long it takes, and what of it is communication."""
    from muster.formatting import counted, duration, percent

    each = completion_seconds / iterations
    console.print(
        f"{counted(iterations, 'iteration')} in {duration(completion_seconds)}, {duration(each)} each:"
    )
    exposed = percent(stage_seconds["communication"] / each)
    console.print(f"  {exposed} of it is communication that does not hide behind compute")
    if waiting := stage_seconds.get("waiting_for_input"):
        console.print(
            f"  {percent(waiting / each)} of it waits for input, on the most CPUs that were measured"
        )


def print_held(console: Console, usage: Mapping[str, float], limits: Mapping[str, float]) -> None:
    """What the job holds of what it may."""
    from muster.formatting import number

    held = [f"{number(used)} of {number(limits[resource])} {resource}" for resource, used in usage.items()]
    console.print(f"  holds {', '.join(held)}")


def spread(last: int, always: int, most: int) -> list[int]:
    """At most so many of 1 .. last, at about equal ratios, with the ends and `always` among them."""
    if last <= most:
        return list(range(1, last + 1))
    return sorted({round(last ** (i / (most - 2))) for i in range(most - 1)} | {always})


def unit_of(seconds: float) -> tuple[str, float]:
    """In which times of about this length are shown, and its seconds."""
    return ("hours", 3600.0) if seconds >= 3600 else ("minutes", 60.0) if seconds >= 60 else ("seconds", 1.0)


def write_chart(drawing: LayerChart, path: Path) -> None:
    """As .svg or .png."""
    from muster.files import write_aside
    from muster.report.render import png_of, svg_of
    from muster.report.theme import config

    svg = svg_of(drawing.to_dict() | {"config": config()}, "size")
    with write_aside(path) as aside:
        if path.suffix.lower() == ".png":
            aside.write_bytes(png_of(svg))
        else:
            aside.write_text(svg, encoding="utf-8")
