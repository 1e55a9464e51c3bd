"""What `muster size` shows of its answer: words, a table, a map, JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from altair import LayerChart
    from rich.console import Console

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


@dataclass(frozen=True, eq=False)
class SizedRing:
    """The best number of workers of one ring; the sequences go by workers from 1 on."""

    workers: int
    places: Sequence[str]
    """Workers of each machine, racks parted by a slash."""
    iteration_seconds: Sequence[float]
    completion_seconds: Sequence[float]
    stage_seconds: Mapping[str, float]
    """Of one iteration with the best number."""
    usage: Mapping[str, float]
    short_of_machines: bool
    """Whether the limit allows more workers than the cluster has room for."""

    @property
    def thrifty(self) -> int:
        """The fewest workers that are nearly as fast."""
        enough = self.completion_seconds[self.workers - 1] * (1 + NEARLY)
        return next(at for at, seconds in enumerate(self.completion_seconds, 1) if seconds <= enough)


def ring_document(
    sized: SizedRing, model: str, cluster: str, limits: Mapping[str, float], iterations: int
) -> dict[str, Any]:
    """The answer for a ring as JSON takes it."""
    best = sized.workers - 1
    rows = zip(sized.places, sized.iteration_seconds, sized.completion_seconds, strict=True)
    return {
        "model": model,
        "cluster": cluster,
        "workers": sized.workers,
        "place": sized.places[best],
        "iterations": iterations,
        "completion_seconds": sized.completion_seconds[best],
        "iteration_seconds": sized.iteration_seconds[best],
        "stage_seconds": sized.stage_seconds,
        "thrifty": {
            "workers": sized.thrifty,
            "completion_seconds": sized.completion_seconds[sized.thrifty - 1],
        },
        "usage": sized.usage,
        "limit": dict(limits),
        "by_workers": [
            {"workers": workers, "place": place, "iteration_seconds": each, "completion_seconds": whole}
            for workers, (place, each, whole) in enumerate(rows, 1)
        ],
    }


def show_ring(
    sized: SizedRing, model: str, cluster: str, limits: Mapping[str, float], iterations: int, table: bool
) -> None:
    """Print the answer for a ring for a person."""
    from rich.console import Console

    from muster.words import duration, number

    console = Console(highlight=False, soft_wrap=True)
    best = sized.workers - 1
    workers = f"{_counted(sized.workers, 'worker')} in a ring" if best else "1 worker, alone"
    console.print(f"[bold]{model}: {workers}[/bold]")
    _print_step(console, sized.completion_seconds[best], iterations, sized.stage_seconds)
    console.print(f"  sits on {_seats_told(sized.places[best])} of {cluster}")
    _print_held(console, sized.usage, limits)
    if sized.short_of_machines:
        console.print(
            f"  {cluster} has room for {_counted(len(sized.places), 'such worker')}, the limit for more"
        )
    if sized.thrifty != sized.workers:
        took = duration(sized.completion_seconds[sized.thrifty - 1])
        console.print(
            f"within {NEARLY:.0%} of it, and holding least: {_counted(sized.thrifty, 'worker')}, {took}"
        )
    if table:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        shown = Table("workers", "place", box=SIMPLE_HEAD)
        for heading in ("iteration", "completion"):
            shown.add_column(heading, justify="right")
        for workers_shown in _spread(len(sized.places), sized.workers, 20):
            at = workers_shown - 1
            cells = (
                str(workers_shown),
                sized.places[at],
                f"{number(sized.iteration_seconds[at])} s",
                duration(sized.completion_seconds[at]),
            )
            shown.add_row(*cells, style="bold" if at == best else "")
        console.print(shown)


def _seats_told(place: str) -> str:
    """`4,4/8` in words."""
    racks = [rack.split(",") for rack in place.split("/")]
    machines = _counted(sum(map(len, racks)), "machine")
    return f"{machines} ({place})" if len(racks) == 1 else f"{machines} in {len(racks)} racks ({place})"


def draw_ring(sized: SizedRing, model: str, path: Path) -> None:
    """Completion time over workers, the best marked."""
    import altair as alt

    from muster.report.theme import LIGHT
    from muster.words import duration

    best = sized.workers - 1
    unit, in_unit = _unit(sized.completion_seconds[best])
    values = [
        {"workers": workers, "completion": sized.completion_seconds[workers - 1] / in_unit}
        for workers in _spread(len(sized.places), sized.workers, 10 * CHART_CELLS)
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("workers:Q", title="Workers", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("completion:Q", title=f"Completion, {unit}", scale=alt.Scale(zero=True)),
    )
    line = base.mark_line(point=True, color=LIGHT["series-1"])
    marked = base.mark_point(size=140, color=LIGHT["series-2"], strokeWidth=3).transform_filter(
        f"datum.workers == {sized.workers}"
    )
    title = f"{model}: {duration(sized.completion_seconds[best])} with {_counted(sized.workers, 'worker')} (marked)"
    _write_chart((line + marked).properties(width=420, height=280, title=title), path)


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

    from muster.words import duration

    console = Console(highlight=False, soft_wrap=True)
    workers, servers = _counted(sized.workers, "worker"), _counted(sized.servers, "parameter server")
    console.print(f"[bold]{model}: {workers} and {servers}[/bold]")
    _print_step(console, sized.best_seconds, iterations, sized.stage_seconds)
    _print_held(console, sized.usage, limits)
    if sized.thrifty != (sized.workers, sized.servers):
        workers, servers = _counted(sized.thrifty[0], "worker"), _counted(sized.thrifty[1], "server")
        took = duration(sized.completion_seconds(*sized.thrifty))
        console.print(f"within {NEARLY:.0%} of it, and holding least: {workers} and {servers}, {took}")
    if table:
        console.print(_surface_table(sized, console.width))


def _print_step(
    console: Console, completion_seconds: float, iterations: int, stage_seconds: Mapping[str, float]
) -> None:
    from muster.words import duration, number, percent

    each = completion_seconds / iterations
    console.print(
        f"{number(iterations)} iterations in {duration(completion_seconds)}, {duration(each)} each:"
    )
    exposed = percent(stage_seconds["communication"] / each)
    console.print(f"  {exposed} of it is communication that does not hide behind compute")


def _print_held(console: Console, usage: Mapping[str, float], limits: Mapping[str, float]) -> None:
    from muster.words import number

    held = [f"{number(used)} of {number(limits[resource])} {resource}" for resource, used in usage.items()]
    console.print(f"  holds {', '.join(held)}")


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

    from muster.report.theme import LIGHT, SIZES
    from muster.words import duration

    rows, columns = sized.surface_seconds.shape
    unit, in_unit = _unit(sized.best_seconds)
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
    _write_chart(
        (base.mark_rect().encode(color=colour) + best).properties(width=420, height=320, title=title), path
    )


def _unit(seconds: float) -> tuple[str, float]:
    """In which times of about this length are shown, and its seconds."""
    return ("hours", 3600.0) if seconds >= 3600 else ("minutes", 60.0) if seconds >= 60 else ("seconds", 1.0)


def _write_chart(drawing: LayerChart, path: Path) -> None:
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
