"""A sweep for the eye: tables and charts of its means, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table as TerminalTable

from muster import formatting
from muster.report.drawing import Chart, time_unit
from muster.report.metrics import NOT_COMPLETED
from muster.sweep.charts import Spot, load_chart, point_chart
from muster.sweep.page import Section, Table
from muster.sweep.results import Mean
from muster.sweep.statistics import Estimate


@dataclass(frozen=True)
class ShownFigure:
    """A figure that has a chart and a table of its own."""

    column: str
    name: str
    """Of the chart's file."""
    title: str


SHOWN = (
    ShownFigure("jct_mean_seconds", "mean-jct", "Mean completion time"),
    ShownFigure("jct_p99_seconds", "p99-jct", "99th percentile of completion time"),
    ShownFigure("makespan_seconds", "makespan", "Makespan"),
    ShownFigure("wait_mean_seconds", "mean-wait", "Mean waiting time"),
)
DIFFERENCE = ShownFigure(
    "jct_mean_seconds", "mean-jct-vs-first", "Mean completion time against the first scheduler"
)

Of = Callable[[Mean], Estimate | None]


def terminal_tables(means: Sequence[Mean]) -> list[TerminalTable]:
    """A table a setting: a row a load, a column a scheduler, the mean completion time with its interval."""
    schedulers = list(dict.fromkeys(mean.scheduler for mean in means))
    names, common = formatting.short_names(schedulers)
    tables = []
    for setting, here in _by_setting(means).items():
        table = TerminalTable(
            title=_title(setting),
            title_justify="left",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        table.add_column("load", justify="right")
        for name in names:
            table.add_column(name, justify="right", overflow="fold")
        for load, cells in _grid(here, schedulers, lambda mean: mean.figures["jct_mean_seconds"]).items():
            table.add_row(_load(load), *(_time(cell) for cell in cells))
        note = "Mean completion time; ± the 95 % interval over seeds."
        table.caption = f"{note} All {common}." if common else note
        table.caption_justify = "left"
        tables.append(table)
    return tables


def not_completed(means: Sequence[Mean]) -> list[str]:
    """For each scheduler that did not complete all jobs, how many are not in its figures and why."""
    notes = []
    for scheduler in dict.fromkeys(mean.scheduler for mean in means):
        own = [mean.not_completed for mean in means if mean.scheduler == scheduler]
        counts = {kind: sum(one[kind] for one in own) for kind in NOT_COMPLETED}
        missing = [f"{count:,} {kind.replace('_', ' ')}" for kind, count in counts.items() if count]
        if missing:
            notes.append(f"{scheduler}: {', '.join(missing)}; these jobs are not in the figures.")
    return notes


def sections_of(means: Sequence[Mean]) -> list[Section]:
    """What the page shows: a section a figure, charts before tables."""
    first = means[0].scheduler
    notes = not_completed(means)
    difference = Section(
        f"{DIFFERENCE.title}: {first}",
        [
            "Differences are taken on the same seed, so that what a seed does to both is out; below 0 is shorter.",
            *notes,
            *(
                ["There is none where a seed has a job that one of the two does not complete."]
                if notes
                else []
            ),
        ],
        _tables(means, lambda mean: mean.against_first[DIFFERENCE.column], _percent),
        _difference_charts(means),
    )
    seeds = max((entry.seeds for mean in means for entry in mean.figures.values() if entry), default=0)
    interval = f"Mean over {seeds} seeds with its 95 % interval (Student's t)." if seeds > 1 else "One seed."
    sections = [
        Section(
            shown.title,
            [interval],
            _tables(means, lambda mean, column=shown.column: mean.figures[column], _time),  # type: ignore[misc]
            _time_charts(means, shown),
        )
        for shown in SHOWN
    ]
    several = len({mean.scheduler for mean in means}) > 1
    return [
        Section(sections[0].title, [*sections[0].paragraphs, *notes], sections[0].tables, sections[0].charts),
        *([difference] if several else []),
        *sections[1:],
    ]


def _time_charts(means: Sequence[Mean], shown: ShownFigure) -> list[Chart]:
    known = [(mean, mean.figures[shown.column]) for mean in means]
    seconds, unit = time_unit(max((entry.mean for _, entry in known if entry), default=0.0))
    spots = [
        Spot(
            _title(mean.setting),
            mean.scheduler,
            mean.load,
            entry.mean / seconds,
            None if entry.half_width is None else entry.half_width / seconds,
        )
        for mean, entry in known
        if entry
    ]
    return _charts(means, spots, shown.name, shown.title, unit)


def _difference_charts(means: Sequence[Mean]) -> list[Chart]:
    # The first scheduler is drawn too, on 0, and so every scheduler keeps its colour from chart to chart.
    zero = Estimate(0.0, None, 0)
    first = means[0].scheduler
    known = [
        (mean, zero if mean.scheduler == first else mean.against_first[DIFFERENCE.column]) for mean in means
    ]
    spots = [
        Spot(
            _title(mean.setting),
            mean.scheduler,
            mean.load,
            100 * entry.mean,
            None if entry.half_width is None else 100 * entry.half_width,
        )
        for mean, entry in known
        if entry
    ]
    return _charts(means, spots, DIFFERENCE.name, DIFFERENCE.title, "Per cent")


def _charts(means: Sequence[Mean], spots: Sequence[Spot], name: str, title: str, unit: str) -> list[Chart]:
    """Settings with several loads as lines, the others as points."""
    loads: dict[str, set[float | None]] = {}
    for mean in means:
        loads.setdefault(_title(mean.setting), set()).add(mean.load)
    lined = [spot for spot in spots if len(loads[spot.panel]) > 1]
    alone = [spot for spot in spots if len(loads[spot.panel]) == 1]
    note = "Bars: 95 % interval over seeds." if any(spot.half_width is not None for spot in spots) else ""
    charts: list[Chart] = []
    for load_unit in dict.fromkeys(mean.load_unit for mean in means):
        here = {_title(mean.setting) for mean in means if mean.load_unit == load_unit}
        of_unit = [spot for spot in lined if spot.panel in here]
        if of_unit:
            own = name if not charts else f"{name}-{len(charts) + 1}"
            charts.append(load_chart(own, title, note, of_unit, f"Load, {load_unit}", unit))
    if alone:
        charts.append(point_chart(f"{name}-points" if charts else name, title, note, alone, unit))
    return charts


def _tables(means: Sequence[Mean], of: Of, show: Callable[[Estimate | None], str]) -> list[Table]:
    schedulers = list(dict.fromkeys(mean.scheduler for mean in means))
    return [
        Table(
            _title(setting),
            ["Load", *schedulers],
            [[_load(load), *map(show, cells)] for load, cells in _grid(here, schedulers, of).items()],
        )
        for setting, here in _by_setting(means).items()
    ]


def _by_setting(means: Sequence[Mean]) -> Mapping[tuple[str, str, str], list[Mean]]:
    settings: dict[tuple[str, str, str], list[Mean]] = {}
    for mean in means:
        settings.setdefault(mean.setting, []).append(mean)
    return settings


def _grid(
    means: Sequence[Mean], schedulers: Sequence[str], of: Of
) -> Mapping[float | None, list[Estimate | None]]:
    """By load, an estimate a scheduler."""
    cells = {(mean.load, mean.scheduler): of(mean) for mean in means}
    loads = dict.fromkeys(mean.load for mean in means)
    return {load: [cells.get((load, scheduler)) for scheduler in schedulers] for load in loads}


def _title(setting: tuple[str, str, str]) -> str:
    return " · ".join(word for word in setting if word)


def _load(load: float | None) -> str:
    return formatting.UNKNOWN if load is None else f"{load:g}"


def _time(entry: Estimate | None) -> str:
    if entry is None:
        return formatting.UNKNOWN
    width = "" if entry.half_width is None else f" ± {formatting.duration(entry.half_width)}"
    return formatting.duration(entry.mean) + width


def _percent(entry: Estimate | None) -> str:
    if entry is None:
        return formatting.UNKNOWN
    width = "" if entry.half_width is None else f" ± {100 * entry.half_width:.1f}"
    return f"{100 * entry.mean:+.1f}{width} %"
