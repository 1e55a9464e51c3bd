"""Data files in pages: a line that is a link to a CSV file becomes a table.

`[Mean JCT by load](data/loads.csv)` on a line of its own is a link where the page is read as a file, and a table with
this caption on the site. If the first column is named `group`, each of its values has a table of its own.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

_LINK = re.compile(r"^\[([^\]\n]+)\]\(([^)\n]+\.csv)\)$", re.MULTILINE)
_NUMBER = re.compile(r"[-+]?[\d.,]+( ?%| [a-z]+)?( ± .*| \(.*)?")
GROUP = "group"


def rendered(markdown: str, folder: Path) -> str:
    """A page with the tables of its data files, which are named from a folder."""
    return _LINK.sub(lambda link: _tables(link[1], folder / link[2], link[2]), markdown)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns of numbers are aligned right."""
    rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    is_number = [
        all(_NUMBER.fullmatch(cell) or not cell for cell in column) and any(column)
        for column in zip(*rows, strict=True)
    ]
    line = ["---:" if number else "---" for number in is_number or [False] * len(header)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, line, *rows))


def _tables(caption: str, path: Path, link: str) -> str:
    """The table of a file, or one for each of its groups, under a caption that links to the file."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    source = f"*{caption}* ([CSV]({link}))"
    if header[0] != GROUP:
        return f"{source}\n\n{markdown_table(header, rows)}\n"
    parts = [
        f"**{name}**\n\n{markdown_table(header[1:], [row[1:] for row in group])}"
        for name, group in groupby(rows, key=lambda row: row[0])
    ]
    return "\n\n".join([source, *parts]) + "\n"
