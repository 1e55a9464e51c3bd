"""The figures that tables compare: where each stands in a summary, its plain words, which way is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from muster import formatting
from muster.report.metrics import complete_the_same_jobs, value_at

Show = Callable[[float | None], str]
TIME = None
"""The way to show a length of time: all of a column in one unit, which stands in its head."""


@dataclass(frozen=True)
class Figure:
    """One column of a comparison."""

    path: str
    """In the summary, as `jct_seconds.mean`."""
    group: str
    """In plain words; neighbours of one group share a heading."""
    title: str
    """Which figure of the group; empty where it has one."""
    short: str
    """The heading where there is little room, in two lines; the unit follows in a third."""
    show: Show | None
    """None for a length of time."""
    better: int = -1
    """-1 less, 1 more, 0 neither."""
    compared: bool = False
    """Whether the ratio to the first scheduler says something."""
    of_completed: bool = False
    """Whether it is of the completed jobs, so that none is best where runs complete different ones."""

    def of(self, summary: Mapping[str, Any]) -> float | None:
        """The figure of one run; None where it has none."""
        value = value_at(summary, self.path)
        return None if value is None else float(value)

    def show_in(self, values: Sequence[float | None]) -> tuple[Show, str]:
        """How to show these values, which stand below each other, and the unit for their head, else empty."""
        return (self.show, "") if self.show else time_column(values)


@dataclass(frozen=True)
class FigureCell:
    """A figure of a run as a table shows it."""

    text: str
    ratio: str
    """To the first scheduler's run; empty where it says nothing."""
    best: bool


@dataclass(frozen=True)
class FigureColumn:
    """A figure of all runs with its heads."""

    title: str
    short: str
    cells: Sequence[FigureCell]


FIGURES: Sequence[Figure] = (
    Figure(
        "jct_seconds.mean", "Completion time", "mean", "mean\nJCT", TIME, compared=True, of_completed=True
    ),
    Figure(
        "jct_seconds.p50", "Completion time", "median", "p50\nJCT", TIME, compared=True, of_completed=True
    ),
    Figure(
        "jct_seconds.p99",
        "Completion time",
        "99th\u00a0%",
        "p99\nJCT",
        TIME,
        compared=True,
        of_completed=True,
    ),
    Figure("wait_seconds.mean", "Wait", "mean", "mean\nwait", TIME, compared=True, of_completed=True),
    Figure("wait_seconds.p99", "Wait", "99th\u00a0%", "p99\nwait", TIME, compared=True, of_completed=True),
    Figure("slowdown.mean", "Slowdown", "mean", "slow-\ndown", formatting.number, of_completed=True),
    Figure("makespan_seconds", "Makespan", "", "make-\nspan", TIME, compared=True, of_completed=True),
    Figure("utilization.gpu", "GPUs in use", "", "GPU\nuse", formatting.percent, better=1),
    Figure("fragmentation", "Fragmen\u00adtation", "", "frag-\nments", formatting.percent),
    Figure("preemptions", "Preemp\u00adtions", "", "preemp-\ntions", formatting.number, better=0),
    Figure("restart_loss", "Lost to restarts", "", "re-\nstarts", formatting.percent),
    Figure("fairness.rho_mean", "Unfairness ρ", "mean", "ρ\nmean", formatting.number, of_completed=True),
    Figure("fairness.rho_max", "Unfairness ρ", "worst", "ρ\nmax", formatting.number, of_completed=True),
)
TENANT_FIGURE = Figure("fairness.jain", "Fairness", "tenants", "Jain", formatting.number, better=1)
UTILITY_FIGURES: Sequence[Figure] = (
    Figure("utility.total", "Utility", "total", "uti-\nlity", formatting.number, better=1, compared=True),
    Figure("utility.on_target", "Utility", "on target", "on\ntarget", formatting.percent, better=1),
)
"""Where jobs have one."""
DEADLINE_FIGURES: Sequence[Figure] = (
    Figure("deadlines.met", "Deadlines", "met", "dead-\nlines", formatting.percent, better=1),
)
"""Where jobs state one."""
CERTIFIED_FIGURES: Sequence[Figure] = (
    Figure("below_best.mean", "Optimality gap", "mean", "gap", formatting.percent),
    Figure("below_best.p99", "Optimality gap", "99th\u00a0%", "p99\ngap", formatting.percent),
)
"""Where decisions have a bound."""
TERMINAL_PATHS = (
    "jct_seconds.mean",
    "jct_seconds.p50",
    "jct_seconds.p99",
    "wait_seconds.mean",
    "makespan_seconds",
    "utilization.gpu",
    "preemptions",
)


def known(figures: Sequence[Figure], summaries: Sequence[Mapping[str, Any]]) -> Sequence[Figure]:
    """These figures where any run has one of them, else none."""
    return (
        figures if any(figure.of(summary) is not None for figure in figures for summary in summaries) else ()
    )


def time_column(seconds: Sequence[float | None]) -> tuple[Show, str]:
    """How to show lengths of time below each other, and their one unit."""
    unit = formatting.common_unit(seconds)
    return partial(formatting.in_unit, unit=unit), unit.name


def column(figure: Figure, summaries: Sequence[Mapping[str, Any]], base: int = 0) -> FigureColumn:
    """A figure of all runs: best marked where there are several, of the same jobs, and they differ as shown.

    `base` is the run to which the others' ratios are.
    """
    values = [figure.of(summary) for summary in summaries]
    show, unit = figure.show_in(values)
    texts = [show(value) for value in values]
    known = [value for value in values if value is not None]
    best_text = ""
    rivals = not figure.of_completed or complete_the_same_jobs(summaries)
    if figure.better and len(set(texts)) > 1 and known and rivals:
        best_text = show(max(known, key=lambda value: figure.better * value))
    cells = [
        FigureCell(
            text,
            formatting.ratio(value, values[base]) if figure.compared and index != base else "",
            text == best_text,
        )
        for index, (value, text) in enumerate(zip(values, texts, strict=True))
    ]
    title = ", ".join(filter(None, (figure.title, unit)))
    return FigureColumn(title, f"{figure.short}\n{unit}" if unit else figure.short, cells)


def groups(figures: Sequence[Figure]) -> list[tuple[str, int]]:
    """The headings over neighbouring figures, and how many stand under each."""
    return [(group, len(list(under))) for group, under in groupby(figures, key=lambda figure: figure.group)]


def run_names(summaries: Sequence[Mapping[str, Any]]) -> tuple[list[str], str]:
    """The name of each run, and the end that all schedulers' names share and that is left out.

    Runs on several clusters say theirs: `fifo on 16x8gpu`.
    """
    schedulers = [str(summary["scheduler"]) for summary in summaries]
    clusters = [str(summary["cluster"]) for summary in summaries]
    distinct = list(dict.fromkeys(schedulers))
    short, common = formatting.short_names(distinct)
    called = dict(zip(distinct, short, strict=True))
    if len(set(clusters)) == 1:
        return [called[name] for name in schedulers], common
    return [
        f"{called[name]} on {cluster}" for name, cluster in zip(schedulers, clusters, strict=True)
    ], common
