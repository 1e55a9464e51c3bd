"""The comparison as a table for the terminal, in 80 columns or what there is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from muster.formatting import counted
from muster.report.figures import (
    CERTIFIED_FIGURES,
    DEADLINE_FIGURES,
    FIGURES,
    TERMINAL_PATHS,
    UTILITY_FIGURES,
    FigureColumn,
    column,
    known,
    run_names,
)
from muster.report.finding import finding, jct_bound_text
from muster.report.metrics import NOT_COMPLETED

BESIDE_A_NAME = 2
"""Columns of the terminal that are neither name nor figure."""
BESIDE_A_FIGURE = 2
LEAST_ROOM = 12
"""For a name. In a narrower terminal the last figures are left out."""


def comparison_table(
    simulated: Sequence[Mapping[str, Any]],
    width: int = 80,
    history: Mapping[str, Mapping[str, Any]] | None = None,
) -> Table:
    """A row a scheduler: best in bold, below each time its ratio to the first scheduler's.

    `history` is what the log records, by its name: rows above those, of which no sentence speaks, as on the page.
    """
    above = history or {}
    summaries = [*above.values(), *simulated]
    figures = [figure for figure in FIGURES if figure.path in TERMINAL_PATHS]
    some = (UTILITY_FIGURES, DEADLINE_FIGURES, CERTIFIED_FIGURES[:1])
    more = [figure for figures_if_any in some for figure in known(figures_if_any, summaries)]
    if more:
        # In 80 columns they take the room of the preemptions.
        figures[-1:] = more
    columns = [column(figure, summaries, base=len(above)) for figure in figures]
    shown = len(columns)
    while shown > 1 and _room(width, columns[:shown]) < LEAST_ROOM:
        shown -= 1
    columns, left_out = columns[:shown], len(columns) - shown
    room = _room(width, columns)
    names, common = _names(simulated, room)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, caption_justify="left")
    table.add_column("scheduler", overflow="fold")
    for one in columns:
        table.add_column(one.short, justify="right", no_wrap=True)
    for index, name in enumerate([*above, *names]):
        cells = []
        for cell in (one.cells[index] for one in columns):
            text = Text(cell.text, style="bold" if cell.best else "")
            cells.append(text.append(f"\n{cell.ratio}", style="dim not bold") if cell.ratio else text)
        table.add_row(Text(_folded(name, room)), *cells)
    remarks = _remarks(summaries, [*above, *names], common, len(above))
    if left_out:
        remarks.append(f"{counted(left_out, 'column')} left out: the terminal has {counted(width, 'column')}")
    table.caption = Text("\n".join(remarks), style="dim")
    return table


def _room(width: int, columns: Sequence[FigureColumn]) -> int:
    """For the names beside these figures."""
    return width - BESIDE_A_NAME - sum(map(_width, columns))


def _width(one: FigureColumn) -> int:
    """Of a figure's column, the space before the next one included."""
    texts = [*one.short.splitlines(), *(text for cell in one.cells for text in (cell.text, cell.ratio))]
    return BESIDE_A_FIGURE + max(map(len, texts))


def _names(summaries: Sequence[Mapping[str, Any]], room: int) -> tuple[list[str], str]:
    """What stands in the rows, and the parts of the names that stand below instead."""
    names, common = run_names(summaries)
    if len(names) > 1 or len(names[0]) <= room:
        return names, common
    first, plus, rest = names[0].partition("+")
    return [first], plus + rest


def _folded(name: str, room: int) -> str:
    """A long name in several lines, broken behind a `+` where it has one."""
    lines = [""]
    for part in re.findall(r"[^+]*\+?", name):
        if len(lines[-1] + part) > room and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _remarks(
    summaries: Sequence[Mapping[str, Any]], names: Sequence[str], common: str, recorded: int
) -> list[str]:
    """The first `recorded` rows are not simulated."""
    first, *more = names[recorded:]
    remarks = [said] if (said := finding(names[recorded:], summaries[recorded:])) else []
    if common:
        remarks.append(f"all {common}" if more else f"in full: {first}{common}")
    if len(summaries) > 1:
        remarks.append(f"best in bold; ratios to {first}")
    bounds = zip(names, map(jct_bound_text, summaries), strict=True)
    remarks += [f"{name}: {text}" for name, text in bounds if text]
    for name, summary in zip(names, summaries, strict=True):
        missing = [f"{summary[kind]:,} {kind.replace('_', ' ')}" for kind in NOT_COMPLETED if summary[kind]]
        if missing:
            total = counted(summary["jobs"] + summary["refused"], "job")
            remarks.append(f"{name}: {', '.join(missing)} of {total}, not in the figures")
    return remarks
