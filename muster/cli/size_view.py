"""What `muster size` shows of its answer: words, a table, a map, JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.schedulers.allocation.worker_server import FloatArray

CHART_CELLS = 30
NEARLY = 0.05
"""How much longer than the best the thrifty pair may take."""


@dataclass(frozen=True, eq=False)
class Sized:
    """The best pair of one job, and the completion time with every pair within its limit."""

    workers: int
    servers: int
    thrifty: tuple[int, int]
    """Workers and servers that take the smallest share of the limit and are nearly as fast."""
    surface_seconds: FloatArray
    """(workers, servers) from 1 on; infinite beyond the limit."""
    stage_seconds: Mapping[str, float]
    """Of one iteration with the best pair."""
    usage: Mapping[str, float]

    def completion_seconds(self, workers: int, servers: int) -> float:
        """With this pair."""
        return float(self.surface_seconds[workers - 1, servers - 1])

    @property
    def best_seconds(self) -> float:
        """Completion with the best pair."""
        return self.completion_seconds(self.workers, self.servers)


def document(sized: Sized, model: str, limits: Mapping[str, float], iterations: int) -> dict[str, Any]:
    """The answer as JSON takes it; null in the place of pairs beyond the limit."""
    surface = [
        [seconds if math.isfinite(seconds) else None for seconds in row]
        for row in sized.surface_seconds.tolist()
    ]
    return {
        "model": model,
        "workers": sized.workers,
        "servers": sized.servers,
        "iterations": iterations,
        "completion_seconds": sized.best_seconds,
        "iteration_seconds": sized.best_seconds / iterations,
        "stage_seconds": sized.stage_seconds,
        "thrifty": {
            "workers": sized.thrifty[0],
            "servers": sized.thrifty[1],
            "completion_seconds": sized.completion_seconds(*sized.thrifty),
        },
        "usage": sized.usage,
        "limit": dict(limits),
        "completion_seconds_by_workers_and_servers": surface,
    }


def show(sized: Sized, model: str, limits: Mapping[str, float], iterations: int, table: bool) -> None:
    """Print the answer for a person."""
    from rich.console import Console

    from muster.words import duration, number, percent

    console = Console(highlight=False, soft_wrap=True)
    workers, servers = _counted(sized.workers, "worker"), _counted(sized.servers, "parameter server")
    console.print(f"[bold]{model}: {workers} and {servers}[/bold]")
    done = duration(sized.best_seconds)
    console.print(
        f"{number(iterations)} iterations in {done}, {duration(sized.best_seconds / iterations)} each:"
    )
    exposed = percent(sized.stage_seconds["communication"] / (sized.best_seconds / iterations))
    console.print(f"  {exposed} of it is communication that does not hide behind compute")
    held = [
        f"{number(used)} of {number(limits[resource])} {resource}" for resource, used in sized.usage.items()
    ]
    console.print(f"  holds {', '.join(held)}")
    if sized.thrifty != (sized.workers, sized.servers):
        workers, servers = _counted(sized.thrifty[0], "worker"), _counted(sized.thrifty[1], "server")
        took = duration(sized.completion_seconds(*sized.thrifty))
        console.print(f"within {NEARLY:.0%} of it, and holding least: {workers} and {servers}, {took}")
    if table:
        console.print(_surface_table(sized, console.width))


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _surface_table(sized: Sized, width: int) -> Any:
    """Completion times, as many columns as the terminal holds; the best in bold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from muster.words import duration

    rows, columns = sized.surface_seconds.shape
    shown_servers = _spread(columns, sized.servers, max(3, (width - 10) // 11))
    table = Table("workers", box=SIMPLE_HEAD, title="completion time by servers", title_justify="left")
    for servers in shown_servers:
        table.add_column(str(servers), justify="right", no_wrap=True)
    for workers in _spread(rows, sized.workers, 20):
        cells = []
        for servers in shown_servers:
            seconds = sized.completion_seconds(workers, servers)
            best = (workers, servers) == (sized.workers, sized.servers)
            cell = duration(seconds) if math.isfinite(seconds) else ""
            cells.append(f"[bold reverse]{cell}[/]" if best else cell)
        table.add_row(str(workers), *cells)
    return table


def _spread(last: int, always: int, most: int) -> list[int]:
    """At most so many of 1 .. last, at about equal ratios, with the ends and `always` among them."""
    if last <= most:
        return list(range(1, last + 1))
    return sorted({round(last ** (i / (most - 2))) for i in range(most - 1)} | {always})


def draw(sized: Sized, model: str, path: Path) -> None:
    """A map of completion times over workers and servers, the best marked."""
    import altair as alt

    from muster.files import write_aside
    from muster.report.render import png_of, svg_of
    from muster.report.theme import LIGHT, SIZES, config
    from muster.words import duration

    rows, columns = sized.surface_seconds.shape
    hours = max(sized.best_seconds / 3600, 1e-12)
    unit, in_unit = (
        ("hours", 3600.0) if hours >= 1 else ("minutes", 60.0) if hours >= 1 / 60 else ("seconds", 1.0)
    )
    cells = [
        {
            "workers": workers,
            "servers": servers,
            "completion": sized.completion_seconds(workers, servers) / in_unit,
            "best": (workers, servers) == (sized.workers, sized.servers),
        }
        for workers in _spread(rows, sized.workers, CHART_CELLS)
        for servers in _spread(columns, sized.servers, CHART_CELLS)
        if math.isfinite(sized.completion_seconds(workers, servers))
    ]
    base = alt.Chart(alt.InlineData(values=cells)).encode(
        x=alt.X("servers:O", title="Parameter servers", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("workers:O", title="Workers", sort="descending", axis=alt.Axis(labelOverlap=True)),
    )
    colour = alt.Color(
        "completion:Q",
        title=f"Completion, {unit}",
        scale=alt.Scale(type="log", range=SIZES[::-1]),
        legend=alt.Legend(gradientLength=200, tickCount=5),
    )
    best = base.mark_rect(fillOpacity=0, stroke=LIGHT["series-2"], strokeWidth=3).transform_filter(
        "datum.best"
    )
    title = (
        f"{model}: {duration(sized.best_seconds)} with {_counted(sized.workers, 'worker')}"
        f" and {_counted(sized.servers, 'server')} (framed)"
    )
    drawing = (base.mark_rect().encode(color=colour) + best).properties(width=420, height=320, title=title)
    svg = svg_of(drawing.to_dict() | {"config": config()}, "size")
    with write_aside(path) as aside:
        if path.suffix.lower() == ".png":
            aside.write_bytes(png_of(svg))
        else:
            aside.write_text(svg, encoding="utf-8")
