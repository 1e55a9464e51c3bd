"""How a profile is shown: its table, its chart, its document, and how it was measured."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import Any

from muster import formatting
from muster.cli.console import as_wide_as_terminal
from muster.cli.profile_compute_view import (
    compute_document,
    compute_table,
    counted_samples,
    doubts_of_compute,
    workers_document,
    workers_table,
)
from muster.cli.progress import LinesNowAndThen
from muster.formatting import duration, percent, three_figures
from muster.profiling.compute import fit_of
from muster.profiling.grid import Grid, predicted_of_share, predicted_steps_per_s
from muster.profiling.optimistic import KNEE_THRESHOLD, Profile
from muster.profiling.rates import Rate
from muster.speed.knee import Demand, ServerLimits, measured_knee
from muster.workload.models import Model

ProgressCallback = Callable[[str], None]


@contextmanager
def progress_line() -> Iterator[ProgressCallback]:
    """A line on stderr that says what is being measured; where it is no terminal, a line now and then."""
    if not sys.stderr.isatty():
        lines = LinesNowAndThen()
        yield lambda what: lines.write(what.__str__)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting the job", total=None)
        yield lambda what: bars.update(task, description=what)


def how(profile: Profile) -> str:
    """Describes how it was measured."""
    by = "a share of CPU time" if profile.by_quota else "whole CPUs"
    batches = {} if profile.compute is None else profile.compute.rates
    unsure = sum(not rate.sure for rate in (*profile.rates.values(), *batches.values()))
    doubt = f", {unsure} of all less sure than asked for" if unsure else ""
    compute = f", {formatting.counted(len(batches), 'number')} of samples" if batches else ""
    if profile.workers is not None and profile.workers.rates:
        compute += f", up to {max(profile.workers.rates)[0]} workers on one machine"
    return f"{duration(profile.seconds)}, {len(profile.rates)} CPU points given as {by}{compute}{doubt}"


def remarks(profile: Profile, command: Sequence[str]) -> list[str]:
    """What stands on top of the model file."""
    lines = [f"Measured by: muster profile -- {' '.join(command)}".replace("\n", " ")]
    lines += [f"{formatting.cores(cores)}: {_with_error(rate)}" for cores, rate in profile.rates.items()]
    if profile.reading is not None:
        lines.append(
            f"{formatting.cores(max(profile.rates))}, nothing cached: {_with_error(profile.reading.uncached)}"
        )
        if not profile.reading.storage_is_limit:
            lines.append("The job never waited for storage: storage_gb_per_s is a lower bound.")
    if profile.compute is not None:
        lines += [
            f"{counted_samples(samples)}, one batch again and again: {_with_error(rate)}"
            for samples, rate in profile.compute.rates.items()
        ]
    if profile.workers is not None:
        lines += [
            f"{count} workers, {counted_samples(samples)} each: {_with_error(rate)}"
            for (count, samples), rate in profile.workers.rates.items()
        ]
    lines += [*_doubts(profile), *doubts_of_compute(profile)]
    lines.append(
        "Rows of speed are these CPU points; its columns are computed (Synergy, optimistic profiling)."
    )
    return lines


def _doubts(profile: Profile) -> list[str]:
    """What makes a profile less true than its intervals say."""
    most, reading = max(profile.rates), profile.reading
    doubts = []
    if not profile.steady:
        doubts.append(
            f"{formatting.cores(most)} gave {percent(abs(profile.drift))} {'more' if profile.drift > 0 else 'less'} at "
            "the end than at the start, and the intervals do not meet: the machine or the job changed meanwhile."
        )
    if reading is not None:
        share = reading.miss_cpu_seconds * profile.rates[most].steps_per_s / most
        if share > KNEE_THRESHOLD:
            doubts.append(
                f"Reading a batch takes {1000 * reading.miss_cpu_seconds:.3g} ms of CPU: the data set seems to decode. "
                "Keep the stored bytes in the data set and decode in transform=; then the cache holds more samples."
            )
    return doubts


def knee(model: Model) -> Demand:
    """The smallest demand among the points that loses no more than the search's threshold."""
    cpus, memory = model.cpus_per_gpu[-1], model.memory_gb_per_gpu[-1]
    return measured_knee(model, ServerLimits(cpus, memory, cpus, memory), KNEE_THRESHOLD)


def document(
    profile: Profile, model: Model, grid: Grid | None, path: Path, charts: Sequence[Path]
) -> dict[str, Any]:
    """All of it, for programs."""
    reading, wanted, compute = profile.reading, knee(model), profile.compute
    return {
        "model": model.name,
        "file": str(path),
        "charts": [str(chart) for chart in charts],
        "seconds": profile.seconds,
        "by_quota": profile.by_quota,
        "drift": profile.drift,
        "steady": profile.steady,
        "cpu_points": [{"cores": cores, **vars(rate)} for cores, rate in profile.rates.items()],
        "reading": None if reading is None else {**vars(reading), "uncached": vars(reading.uncached)},
        "compute": None if compute is None else compute_document(compute),
        "workers": None if profile.workers is None else workers_document(profile.workers, profile),
        "knee": {"cpus": wanted.cpus, "memory_gb": wanted.memory_gb, "speed": wanted.speed},
        "grid": None if grid is None else _grid_document(grid, model, profile),
    }


def show(profile: Profile, model: Model, grid: Grid | None, files: Sequence[Path]) -> None:
    """Tables for the terminal."""
    from rich.console import Console

    console = as_wide_as_terminal(Console(highlight=False))
    console.print(_rates_table(profile))
    if profile.compute is not None:
        console.print(compute_table(profile.compute, fit_of(profile.compute)))
    if profile.workers is not None:
        console.print(workers_table(profile.workers, profile))
    for sentence in (*_found(profile, model), *_doubts(profile), *doubts_of_compute(profile)):
        print(sentence)
    print(f"Took {duration(profile.seconds)}.")
    if grid is not None:
        _show_grid(grid, model, profile)
    for file in files:
        print(f"Wrote {file}")


def _found(profile: Profile, model: Model) -> Iterator[str]:
    """Sentences on what the model file states."""
    reading, wanted = profile.reading, knee(model)
    if reading is None:
        yield "No cached data (training.CachedDataset): speed is taken not to depend on memory."
    else:
        bound = "" if reading.storage_is_limit else "at least "
        yield (
            f"Reads {_gb(reading.full_gb)} an epoch; storage gives {bound}{_gb(reading.storage_gb_per_s)}/s, "
            f"memory {_gb(reading.memory_gb_per_s)}/s."
        )
    memory = "" if reading is None else f" and {_gb(wanted.memory_gb)} of cache"
    yield f"Knee: {formatting.cores(wanted.cpus)}{memory} for {percent(wanted.speed)} of its best speed."
    if model.compute is not None:
        yield f"Compute: a pass takes as long as that of {model.compute.fixed_samples:.3g} samples more."
        yield f"Error of that line: {model.compute.error}."
    if model.network is not None and model.network.measured is not None:
        communicates = three_figures(1000 * (model.network.measured["local_seconds"] or 0.0))
        yield f"Network of this machine: two workers communicate for {communicates} ms a step, partly hidden."
        yield f"Error of that law: {model.network.error}."


def _show_grid(grid: Grid, model: Model, profile: Profile) -> None:
    """What every point gave, and how far off the predictions were."""
    from rich.console import Console

    console = as_wide_as_terminal(Console(highlight=False))
    console.print(_grid_table(grid, model))
    off_of_shares = _errors_of_shares(grid, model, profile)
    if grid.samples:
        heads = [counted_samples(samples) for samples in grid.samples]
        console.print(_errors_table("all cached", heads, grid, grid.share_rates, off_of_shares))
    errors = [abs(error) for row in (*_errors(grid, model), *off_of_shares) for error in row]
    print(
        f"Predicted against measured: off by {percent(fmean(errors))} in the mean, {percent(median(errors))} in the "
        f"median, {percent(max(errors))} at most; every point took {duration(grid.seconds)}, "
        f"{grid.seconds / profile.seconds:.1f} times as long."
    )


def draw(profile: Profile, model: Model, grid: Grid | None, path: Path) -> list[Path]:
    """Speed over CPU, a line a memory point, with what was measured; SVG and PNG beside the model file."""
    import altair as alt

    from muster.files import write_aside
    from muster.report.render import png_of, svg_of
    from muster.report.theme import config, series_colours

    lowest = min(profile.points[0], model.cpus_per_gpu[0])
    axis = sorted({*profile.points, *model.cpus_per_gpu, lowest})
    names = [_memory_name(model, memory) for memory in model.memory_gb_per_gpu]
    lines = [
        {"memory": name, "cores": cores, "rate": predicted_steps_per_s(model, cores, memory)}
        for name, memory in zip(names, model.memory_gb_per_gpu, strict=True)
        for cores in axis
    ]
    measured = [(names[-1], cores, rate) for cores, rate in profile.rates.items()]
    if grid is not None:
        measured = [
            (name, cores, rate)
            for cores, row in zip(grid.cpus, grid.rates, strict=True)
            for name, rate in zip(names, row, strict=True)
        ]
    dots = [
        {
            "memory": name,
            "cores": cores,
            "rate": rate.steps_per_s,
            "low": rate.steps_per_s * (1 - rate.error),
            "high": rate.steps_per_s * (1 + rate.error),
        }
        for name, cores, rate in measured
    ]
    colour = alt.Color(
        "memory:N",
        scale=alt.Scale(domain=names[::-1], range=series_colours(len(names))),
        legend=alt.Legend(columns=3) if len(names) > 1 else None,
    )
    cores_axis = alt.X("cores:Q", title="CPU cores", scale=alt.Scale(zero=True))
    base = alt.Chart(alt.InlineData(values=dots)).encode(x=cores_axis, color=colour)
    drawing = (
        alt.Chart(alt.InlineData(values=lines))
        .mark_line()
        .encode(x=cores_axis, y=alt.Y("rate:Q", title="Steps a second"), color=colour)
        + base.mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
        + base.mark_point(filled=True, size=45).encode(y="rate:Q")
    ).properties(width=460, height=300, title=f"{model.name}: lines as predicted, points as measured")
    svg = svg_of(drawing.to_dict() | {"config": config()}, "profile")
    charts = [path.with_suffix(".svg"), path.with_suffix(".png")]
    with write_aside(charts[0]) as aside:
        aside.write_text(svg, encoding="utf-8")
    with write_aside(charts[1]) as aside:
        aside.write_bytes(png_of(svg))
    return charts


def _rates_table(profile: Profile) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("cores", box=SIMPLE_HEAD)
    for column in ("steps/s", "±", "spread", "windows", "cached"):
        table.add_column(column, justify="right")
    rows = [(cores, rate, "all") for cores, rate in profile.rates.items()]
    if profile.reading is not None:
        rows.append((max(profile.rates), profile.reading.uncached, "nothing"))
    for cores, rate, cached in rows:
        unsure = "" if rate.sure else " (unsure)"
        table.add_row(
            f"{cores:g}",
            three_figures(rate.steps_per_s),
            percent(rate.error) + unsure,
            percent(rate.spread),
            str(rate.windows),
            "" if profile.reading is None else cached,
        )
    return table


def _grid_table(grid: Grid, model: Model) -> Any:
    heads = [_memory_name(model, memory) for memory in grid.memory_gb]
    return _errors_table("whole batch", heads, grid, grid.rates, _errors(grid, model))


def _errors_table(
    title: str,
    heads: Sequence[str],
    grid: Grid,
    rows: Sequence[Sequence[Rate]],
    off: Sequence[Sequence[float]],
) -> Any:
    """Measured steps a second with their confidence, and how far off the prediction is."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = f"measured steps/s (predicted), {title}"
    table = Table("cores", box=SIMPLE_HEAD, title=title, title_justify="left")
    for head in heads:
        table.add_column(head, justify="right")
    for cores, rates, errors in zip(grid.cpus, rows, off, strict=True):
        cells = [
            f"{three_figures(rate.steps_per_s)} ±{100 * rate.error:.0f}% ({100 * error:+.1f}%)"
            for rate, error in zip(rates, errors, strict=True)
        ]
        table.add_row(f"{cores:g}", *cells)
    return table


def _grid_document(grid: Grid, model: Model, profile: Profile) -> dict[str, Any]:
    return {
        "seconds": grid.seconds,
        "times_as_long": grid.seconds / profile.seconds,
        "points": [
            {
                "cores": cores,
                "memory_gb": memory,
                **vars(rate),
                "predicted_steps_per_s": predicted_steps_per_s(model, cores, memory),
                "predicted_off_by": error,
            }
            for cores, rates, errors in zip(grid.cpus, grid.rates, _errors(grid, model), strict=True)
            for memory, rate, error in zip(grid.memory_gb, rates, errors, strict=True)
        ],
        "shares": [
            {"cores": cores, "samples": samples, **vars(rate), "predicted_off_by": error}
            for cores, rates, errors in zip(
                grid.cpus, grid.share_rates, _errors_of_shares(grid, model, profile), strict=True
            )
            for samples, rate, error in zip(grid.samples, rates, errors, strict=True)
        ],
    }


def _errors(grid: Grid, model: Model) -> list[list[float]]:
    """Predicted over measured, less 1."""
    return [
        [
            predicted_steps_per_s(model, cores, memory) / rate.steps_per_s - 1
            for memory, rate in zip(grid.memory_gb, rates, strict=True)
        ]
        for cores, rates in zip(grid.cpus, grid.rates, strict=True)
    ]


def _errors_of_shares(grid: Grid, model: Model, profile: Profile) -> list[list[float]]:
    """As `_errors`, for workers that share the batch."""
    whole = 0 if profile.compute is None else profile.compute.samples
    return [
        [
            predicted_of_share(model, cores, samples / whole) / rate.steps_per_s - 1
            for samples, rate in zip(grid.samples, rates, strict=True)
        ]
        for cores, rates in zip(grid.cpus, grid.share_rates, strict=True)
    ]


def _memory_name(model: Model, memory_gb: float) -> str:
    """A memory point as the part of the data set that it holds."""
    if model.dataset is None:
        return "any memory"
    return f"{100 * memory_gb / model.dataset.size_gb:g} % cached"


def _with_error(rate: Rate) -> str:
    unsure = "" if rate.sure else ", less sure than asked for"
    return (
        f"{rate.steps_per_s:.5g} steps/s ± {percent(rate.error)} (spread {percent(rate.spread)} over "
        f"{rate.windows} windows of a second or more{unsure})"
    )


def _gb(gigabytes: float) -> str:
    """A size in the unit in which it reads best."""
    return f"{three_figures(gigabytes)} GB" if gigabytes >= 1 else f"{three_figures(1000 * gigabytes)} MB"
