"""What `muster size` shows of workers and parameter servers: words, a table, a map, JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli.console import as_wide_as_terminal
from muster.cli.size_view import print_held, print_step, spread, unit_of, write_chart

if TYPE_CHECKING:
    from muster.sizing import Sized

CHART_CELLS = 30


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

    from muster.formatting import counted, duration
    from muster.sizing import NEARLY

    console = as_wide_as_terminal(Console(highlight=False, soft_wrap=True))
    workers, servers = counted(sized.workers, "worker"), counted(sized.servers, "parameter server")
    console.print(f"[bold]{model}: {workers} and {servers}[/bold]")
    print_step(console, sized.best_seconds, iterations, sized.stage_seconds)
    print_held(console, sized.usage, limits)
    if sized.thrifty != (sized.workers, sized.servers):
        workers, servers = counted(sized.thrifty[0], "worker"), counted(sized.thrifty[1], "server")
        took = duration(sized.completion_seconds(*sized.thrifty))
        console.print(f"within {NEARLY:.0%} of it, and holding least: {workers} and {servers}, {took}")
    if table:
        console.print(_surface_table(sized, console.width))


def _surface_table(sized: Sized, width: int) -> Any:
    """Completion times, as many columns as the terminal holds; the best in bold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from muster.formatting import duration

    rows, columns = sized.surface_seconds.shape
    shown_servers = spread(columns, sized.servers, max(3, (width - 10) // 11))
    table = Table("workers", box=SIMPLE_HEAD, title="completion time by servers", title_justify="left")
    for servers in shown_servers:
        table.add_column(str(servers), justify="right", no_wrap=True)
    for workers in spread(rows, sized.workers, 20):
        cells = []
        for servers in shown_servers:
            seconds = sized.completion_seconds(workers, servers)
            best = (workers, servers) == (sized.workers, sized.servers)
            cell = duration(seconds) if math.isfinite(seconds) else ""
            cells.append(f"[bold reverse]{cell}[/]" if best else cell)
        table.add_row(str(workers), *cells)
    return table


def draw(sized: Sized, model: str, path: Path) -> None:
    """A map of completion times over workers and servers, the best marked."""
    import altair as alt

    from muster.formatting import counted, duration
    from muster.palette import LIGHT
    from muster.report.theme import SIZES

    rows, columns = sized.surface_seconds.shape
    unit, in_unit = unit_of(sized.best_seconds)
    cells = [
        {
            "workers": workers,
            "servers": servers,
            "completion": sized.completion_seconds(workers, servers) / in_unit,
            "best": (workers, servers) == (sized.workers, sized.servers),
        }
        for workers in spread(rows, sized.workers, CHART_CELLS)
        for servers in spread(columns, sized.servers, CHART_CELLS)
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
        f"{model}: {duration(sized.best_seconds)} with {counted(sized.workers, 'worker')}"
        f" and {counted(sized.servers, 'server')} (framed)"
    )
    write_chart(
        (base.mark_rect().encode(color=colour) + best).properties(width=420, height=320, title=title), path
    )
