"""What `muster size --sync ring` shows: words, a table, a chart, JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli.console import as_wide_as_terminal
from muster.cli.size_view import print_held, print_step, spread, unit_of, write_chart

if TYPE_CHECKING:
    from muster.sizing import SizedRing

CHART_POINTS = 300


def document(
    sized: SizedRing, model: str, cluster: str, limits: Mapping[str, float], iterations: int, origin: str
) -> dict[str, Any]:
    """The answer for a ring as JSON takes it; `origin` says where its seconds come from."""
    best = sized.workers - 1
    rows = zip(sized.places, sized.iteration_seconds, sized.completion_seconds, strict=True)
    return {
        "model": model,
        "origin": origin,
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


def show(answer: Mapping[str, Any], sized: SizedRing, table: bool) -> None:
    """Print the answer for a ring for a person."""
    from rich.console import Console

    from muster.formatting import counted, duration, number
    from muster.sizing import NEARLY

    console = as_wide_as_terminal(Console(highlight=False, soft_wrap=True))
    cluster, best = answer["cluster"], sized.workers - 1
    workers = f"{counted(sized.workers, 'worker')} in a ring" if best else "1 worker, alone"
    console.print(f"[bold]{answer['model']}: {workers}[/bold]")
    print_step(console, sized.completion_seconds[best], answer["iterations"], sized.stage_seconds)
    console.print(f"  runs on {_describe_place(sized.places[best])} of {cluster}")
    print_held(console, sized.usage, answer["limit"])
    if sized.short_of_machines:
        console.print(
            f"  {cluster} has room for {counted(len(sized.places), 'such worker')}, the limit for more"
        )
    if sized.thrifty != sized.workers:
        took = duration(sized.completion_seconds[sized.thrifty - 1])
        console.print(
            f"within {NEARLY:.0%} of it, and holding least: {counted(sized.thrifty, 'worker')}, {took}"
        )
    if table:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        shown = Table("workers", "place", box=SIMPLE_HEAD)
        for heading in ("iteration", "completion"):
            shown.add_column(heading, justify="right")
        for workers_shown in spread(len(sized.places), sized.workers, 20):
            at = workers_shown - 1
            cells = (
                str(workers_shown),
                sized.places[at],
                f"{number(sized.iteration_seconds[at])} s",
                duration(sized.completion_seconds[at]),
            )
            shown.add_row(*cells, style="bold" if at == best else "")
        console.print(shown)
    console.print(f"[dim]{answer['origin']}[/dim]")


def _describe_place(place: str) -> str:
    """Describes a place such as `4,4/8`."""
    from muster.formatting import counted

    racks = [rack.split(",") for rack in place.split("/")]
    machines = counted(sum(map(len, racks)), "machine")
    return f"{machines} ({place})" if len(racks) == 1 else f"{machines} in {len(racks)} racks ({place})"


def draw(sized: SizedRing, model: str, path: Path) -> None:
    """Completion time over workers, the best marked."""
    import altair as alt

    from muster.formatting import counted, duration
    from muster.palette import LIGHT

    best = sized.workers - 1
    unit, in_unit = unit_of(sized.completion_seconds[best])
    values = [
        {"workers": workers, "completion": sized.completion_seconds[workers - 1] / in_unit}
        for workers in spread(len(sized.places), sized.workers, CHART_POINTS)
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("workers:Q", title="Workers", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("completion:Q", title=f"Completion, {unit}", scale=alt.Scale(zero=True)),
    )
    line = base.mark_line(point=True, color=LIGHT["series-1"])
    marked = base.mark_point(size=140, color=LIGHT["series-2"], strokeWidth=3).transform_filter(
        f"datum.workers == {sized.workers}"
    )
    title = f"{model}: {duration(sized.completion_seconds[best])} with {counted(sized.workers, 'worker')} (marked)"
    write_chart((line + marked).properties(width=420, height=280, title=title), path)
