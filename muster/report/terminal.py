"""The comparison as a table for the terminal, 80 columns wide."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from muster.report.figures import CERTIFIED_FIGURES, FIGURES, TERMINAL_PATHS, UTILITY_FIGURES, column, known
from muster.words import short_names

WIDTH = 80
BESIDE_A_NAME = 3
"""Columns of the table that are neither name nor figure: its edges and the space behind the name."""
BESIDE_A_FIGURE = 2


def comparison_table(summaries: Sequence[Mapping[str, Any]]) -> Table:
    """A row a scheduler: best in bold, below each time its ratio to the first scheduler's."""
    names, common = _names([str(summary["scheduler"]) for summary in summaries])
    figures = [figure for figure in FIGURES if figure.path in TERMINAL_PATHS]
    more = [*known(UTILITY_FIGURES, summaries), *known(CERTIFIED_FIGURES[:1], summaries)]
    if more:
        # In 80 columns they take the room of the preemptions.
        figures[-1:] = more
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, caption_justify="left")
    table.add_column("scheduler", overflow="fold")
    for figure in figures:
        table.add_column(figure.short, justify="right", no_wrap=True)
    columns = [column(figure, summaries) for figure in figures]
    for index, name in enumerate(names):
        cells = []
        for cell in (cells_of_figure[index] for cells_of_figure in columns):
            text = Text(cell.text, style="bold" if cell.best else "")
            cells.append(text.append(f"\n{cell.ratio}", style="dim not bold") if cell.ratio else text)
        table.add_row(Text(_folded(name)), *cells)
    table.caption = Text("\n".join(_remarks(summaries, names, common)), style="dim")
    return table


def _folded(name: str) -> str:
    """A long name in several lines, broken behind a `+` where it has one."""
    lines = [""]
    for part in re.findall(r"[^+]*\+?", name):
        if len(lines[-1] + part) > NAME_COLUMNS and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _remarks(summaries: Sequence[Mapping[str, Any]], names: Sequence[str], common: str) -> list[str]:
    remarks = [f"all {common}"] if common else []
    if len(summaries) > 1:
        remarks.append(f"best in bold; ratios to {names[0]}")
    for name, summary in zip(names, summaries, strict=True):
        missing = [f"{summary[kind]:,} {kind}" for kind in ("unfinished", "refused") if summary[kind]]
        if missing:
            remarks.append(f"{name}: {', '.join(missing)} of {summary['jobs']:,} jobs, not in the figures")
    return remarks
