"""A long table shows what Rich shows of the same rows."""

from __future__ import annotations

import io
import random

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.cli.long_table import LongTable
from muster.cli.service_view import plain_table

TEXTS = (
    *(
        "",
        "a",
        "x" * 17,
        "y" * 60,
        "[bold]x[/]",
        " before",
        "after   ",
        "z" * 20 + "  ",
        "a b c d e f g h i j",
    ),
    *(
        "名前名前名前名前名前名前",
        "日本語" * 9 + "a",
        "é" * 30,
        "👩‍👩‍👧‍👦 family " * 2,
        "line\nline",
        "tab\tx",
        "a\u2028b",
    ),
)
WIDTHS = (*range(1, 45), 79, 80, 81, 200)


def columns() -> Table:
    table = plain_table()
    table.expand = True
    table.add_column("", no_wrap=True)
    table.add_column("job", justify="right", no_wrap=True, min_width=3)
    table.add_column("name", no_wrap=True, overflow="ellipsis", max_width=18)
    table.add_column("since", justify="right", no_wrap=True)
    table.add_column("why", no_wrap=True, overflow="ellipsis", ratio=1)
    return table


def printed(table: Table | LongTable, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False, force_terminal=True)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("kinds", [TEXTS, TEXTS[:9], ("short",), ()])
def test_a_long_table_is_drawn_as_rich_draws_it(kinds: tuple[str, ...]) -> None:
    chance = random.Random(4)
    rows = [
        (
            Text("a", "red") if at % 3 == 1 else "",
            *(str(at * 100), chance.choice(kinds), chance.choice(("3 d", "21 h  ")), chance.choice(kinds)),
        )
        for at in range(20 * bool(kinds))
    ]
    whole = columns()
    for row in rows:
        whole.add_row(*row)
    for width in WIDTHS:
        assert printed(LongTable(columns(), rows), width) == printed(whole, width)
