"""`docs/reference/traces.md` names what the code has, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from muster.workload.traces import FORMATS
from muster.workload.traces.columns import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "traces.md").read_text(encoding="utf-8")


def table_under(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_table_of_columns_is_the_code_s() -> None:
    assert tuple(row[0].strip("`") for row in table_under("The native form")) == NAMES


def test_every_format_is_described() -> None:
    reply = dict.fromkeys(row[0].strip("`") for row in table_under("Foreign forms"))
    assert {*reply, "native"} == {*FORMATS, "csv"}
    for row in table_under("Foreign forms"):
        for name in re.findall(r"`([^`]+)`", row[1])[0].split(", "):
            if row[0] != "`sacct`" and row[0] != "`csv`" and "attempts" not in row[1]:
                assert name in FORMATS[row[0].strip("`")].expected
