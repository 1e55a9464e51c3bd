"""`muster network`: how fast a model runs on each kind of placement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.console import as_wide_as_terminal
from muster.cli.flag_groups import takes_flag_groups
from muster.cli.flags import ClusterName, Json, Overwrite
from muster.cli.outputs import check_chart
from muster.problems import ErrorCollector, InputError, Problem, did_you_mean, with_hint

if TYPE_CHECKING:
    from rich.table import Table

    from muster.cluster import Cluster
    from muster.speed.network.models import NetworkModel
    from muster.speed.network.survey import GpusByRack, Surveyed

MOST_GPUS = 16
PACKED = "fewest machines"
_HEADINGS = ("placement", "iteration", "efficiency", "all-reduce")
_NARROW_HEADINGS = ("place-\nment", "iter-\nation", "effi-\nciency", "all-\nreduce")
_ANY_WIDTH = 10_000
"""Columns of a terminal in which every table fits."""


@dataclass(frozen=True)
class OutputFlags:
    """The forms in which the command shows what it found, besides its table."""

    chart: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to draw a chart into: .svg or .png (default: no chart)."),
    ] = None
    overwrite: Overwrite = False
    as_json: Json = False


@takes_flag_groups()
def network(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="Shipped model, model file (.toml), or a model of --layers."),
    ],
    cluster: ClusterName = "dally-2x8x8",
    placement: Annotated[
        str | None,
        typer.Option(
            metavar="GPUS",
            help="GPUs on each node, racks separated by a slash, as 4,4/8 (default: every kind "
            "of placement).",
        ),
    ] = None,
    congestion: Annotated[
        float,
        typer.Option(
            metavar="F", help="Fraction of the bandwidth above the nodes that is used by other traffic."
        ),
    ] = 0.0,
    layers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file of layer profiles (default: shipped models)."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help=f"Largest number of GPUs to show (default: {MOST_GPUS}).")
    ] = None,
    flavour: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="How link speeds are counted: physical, or astra as in Dally's simulator."
        ),
    ] = "physical",
    *,
    answer: OutputFlags,
) -> None:
    """Show how fast a model runs on each kind of placement.

    Example: muster network bert-large --cluster dally-2x8x8 --congestion 0.5
    """
    from muster.cluster.shipped import parse_cluster
    from muster.speed.network.speed import NetworkSpeed
    from muster.speed.network.survey import look_at, survey

    errors = ErrorCollector()
    errors.of(check_chart, answer.chart, overwrite=answer.overwrite)
    errors.of(_check, flavour, placement, gpus)
    errors.settle()

    what_there_is = parse_cluster(cluster)
    known = _model(model, layers, what_there_is)
    speed = NetworkSpeed([known.network], what_there_is, flavour=flavour, congestion=congestion)
    if placement is not None:
        rows = [
            look_at(speed, *_placed(placement, what_there_is), known.compute_seconds, known.input_seconds)
        ]
    else:
        most = _most_gpus(gpus, what_there_is)
        rows = survey(speed, what_there_is, most, known.compute_seconds, known.input_seconds)

    if answer.chart is not None:
        _draw(rows, f"{model} on {what_there_is.name}", answer.chart)
    if answer.as_json:
        settings = {
            "model": model,
            "cluster": what_there_is.name,
            "flavour": flavour,
            "congestion": congestion,
        }
        print(
            json.dumps(
                {**settings, "origin": known.origin, "placements": [asdict(row) for row in rows]}, indent=2
            )
        )
    else:
        _print_table(rows, f"{model} on {what_there_is.name}", known.origin)


def _check(flavour: str, placement: str | None, gpus: int | None) -> None:
    """Refuse flags that cannot be, alone or together."""
    from muster.speed.network.dimensions import FLAVOURS

    problems = []
    if flavour not in FLAVOURS:
        problems.append(Problem("--flavour", f"allowed: {' or '.join(FLAVOURS)}", found=flavour))
    if placement is not None and gpus is not None:
        problems.append(Problem("--gpus", "goes without --placement, which says them already", found=gpus))
    if problems:
        raise InputError(*problems)


def _most_gpus(wanted: int | None, cluster: Cluster) -> int:
    from muster.formatting import gpus

    if wanted is None:
        return min(MOST_GPUS, cluster.total_gpus)
    if not 1 <= wanted <= cluster.total_gpus:
        allowed = f"allowed: a whole number from 1 to the {gpus(cluster.total_gpus)} of {cluster.name}"
        raise InputError(Problem("--gpus", allowed, found=wanted))
    return wanted


@dataclass(frozen=True)
class _Known:
    """A model, by name."""

    network: NetworkModel | None
    compute_seconds: float | None
    """Of an iteration; None: those of the network's profile."""
    input_seconds: float
    """That an iteration takes at least; 0: not known."""
    origin: str
    """A sentence on where the numbers come from."""


def _model(name: str, layers: Path | None, cluster: Cluster) -> _Known:
    """The model, of a layer file, a model file or the registry."""
    from muster.speed.network.layers import read_layers
    from muster.speed.network.model_file import model_on, network_of, origin_of
    from muster.workload.models import find, read_model, shipped_models

    if layers is not None:
        layered = read_layers(layers)
        if name not in layered:
            raise InputError(Problem("MODEL", f"{layers} has {', '.join(layered)}", found=name))
        return _Known(layered[name], None, 0.0, f"layer profile {layers}")
    model = read_model(Path(name)) if name.endswith(".toml") else find(name)
    if model is None:
        known = shipped_models()
        hint = did_you_mean(name, [word for entry in known.values() for word in (entry.name, *entry.aliases)])
        what = f"no such model; allowed: {', '.join(known)}, or a file NAME.toml"
        raise InputError(Problem("MODEL", with_hint(what, hint), found=name))
    model = model_on(model, cluster)
    file = network_of(model)
    network = None if file is None else file.model
    return _Known(network, model.compute_seconds, model.least_input_seconds, origin_of(model))


def _placed(text: str, cluster: Cluster) -> tuple[str, GpusByRack, Any]:
    """The placement that a user wrote, on the cluster's machines."""
    from muster.formatting import counted, gpus
    from muster.speed.network.placement import place

    groups = [rack.split(",") for rack in text.split("/")]
    if not all(part.strip().isdecimal() and int(part) > 0 for group in groups for part in group):
        allowed = "allowed: GPUs of each machine, racks parted by a slash, such as 4,4 or 4,4/8"
        raise InputError(Problem("--placement", allowed, found=text))
    gpus_by_rack = [[int(part) for part in group] for group in groups]
    placements = place(gpus_by_rack, cluster)
    if placements is None:
        allowed = (
            f"{cluster.name} has no room for it: {counted(len(cluster.racks), 'rack')}, machines of at most "
        )
        allowed += f"{gpus(cluster.most_gpus_per_node)}, {max(map(len, cluster.nodes_by_rack))} in a rack"
        raise InputError(Problem("--placement", allowed, found=text))
    return "as given", gpus_by_rack, placements


def _print_table(rows: Sequence[Surveyed], title: str, origin: str) -> None:
    """In as many columns as the terminal has; kinds and placements take several lines where it is narrow."""
    from rich.console import Console

    console = as_wide_as_terminal(Console())
    table = _table(rows, title, narrow=False)
    if console.measure(table, options=console.options.update_width(_ANY_WIDTH)).maximum > console.width:
        table = _table(rows, title, narrow=True)
    console.print(table)
    console.print(f"[dim]{origin}[/dim]", highlight=False)


def _table(rows: Sequence[Surveyed], title: str, *, narrow: bool) -> Table:
    """A line for each placement; `narrow`: with little space between columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("GPUs", no_wrap=True)
    table.add_column("kind", overflow="fold")
    place, *figures = _NARROW_HEADINGS if narrow else _HEADINGS
    table.add_column(place, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    if narrow:
        table.padding, table.pad_edge = (0, 1, 0, 0), False
    for row in rows:
        table.add_row(
            str(row.gpus),
            row.kind,
            _short(row.placement),
            _duration(row.iteration_seconds),
            f"{100.0 * row.efficiency:.1f} %",
            _duration(row.all_reduce_seconds),
            end_section=row is rows[-1] or row.gpus != rows[rows.index(row) + 1].gpus,
        )
    return table


def _short(placement: str) -> str:
    """`8x1` for eight times one GPU."""
    machines = placement.split("/")[0].split(",")
    racks = placement.split("/")
    if len(set(racks)) > 1 or len(set(machines)) > 1 or len(machines) == 1:
        return placement
    return "/".join(f"{len(machines)}x{machines[0]}" for _ in racks)


def _duration(seconds: float) -> str:
    if seconds == 0.0:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.2g} us"


def _draw(rows: Sequence[Surveyed], title: str, path: Path) -> None:
    """Iteration seconds, efficiency and all-reduce seconds over GPUs, a line a kind of placement."""
    import altair as alt

    from muster.files import write_aside
    from muster.report.render import png_of, svg_of
    from muster.report.theme import config, series_colours
    from muster.speed.network.survey import KINDS, PACKED_KINDS

    line_of = {kind: PACKED if kind in PACKED_KINDS else kind for kind in (*KINDS, *(r.kind for r in rows))}
    kinds = list(dict.fromkeys(line_of[kind] for kind in line_of if any(row.kind == kind for row in rows)))
    unit, size = next(
        (unit, size)
        for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("us", 0.0))
        if max(row.iteration_seconds for row in rows) >= size
    )
    values = [
        {
            "gpus": row.gpus,
            "kind": line_of[row.kind],
            "iteration": row.iteration_seconds / size,
            "efficiency": row.efficiency,
            "all_reduce": row.all_reduce_seconds / size,
        }
        for row in rows
    ]
    axis_of_gpus = alt.Axis(values=sorted({row.gpus for row in rows}), labelFlush=False)
    lines = alt.Chart(alt.InlineData(values=values)).mark_line(point={"size": 45, "filled": True})
    across = alt.X("gpus:Q", title="GPUs", scale=alt.Scale(type="log", base=2), axis=axis_of_gpus)
    colour = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=series_colours(len(kinds))))
    panels = [
        lines.encode(
            x=across, y=alt.Y(f"{field}:Q", title=None, axis=axis, scale=scale), color=colour
        ).properties(title=heading, width=250, height=240)
        for field, heading, axis, scale in (
            ("iteration", f"Iteration, {unit}", alt.Axis(tickCount=5), alt.Scale(zero=True, nice=5)),
            ("efficiency", "Compute share of the iteration", alt.Axis(format="%"), alt.Scale(domain=[0, 1])),
            (
                "all_reduce",
                f"All-reduce of all gradients, {unit}",
                alt.Axis(tickCount=5),
                alt.Scale(zero=True, nice=5),
            ),
        )
    ]
    spec = alt.hconcat(*panels, title=title, bounds="flush", spacing=50).to_dict() | {"config": config()}
    svg = svg_of(spec, "network")
    with write_aside(path) as aside:
        if path.suffix.lower() == ".png":
            aside.write_bytes(png_of(svg))
        else:
            aside.write_text(svg, encoding="utf-8")
