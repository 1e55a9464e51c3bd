"""The page of the record's columns, from `muster.runtime.records`."""

from __future__ import annotations

import polars as pl
from tables import markdown_table

from muster.runtime.records import COLUMNS
from muster.schedulers import reasons

TABLES = {
    "jobs": "One row for each job.",
    "allocations": "One row for each interval in which a job held resources on a node.",
    "decisions": "One row for each decision of the scheduler.",
    "reasons": "One row for each interval in which a job waited for one reason.",
}
_TYPES = {pl.String: "text", pl.Float64: "number", pl.Int64: "whole number", pl.Boolean: "true or false"}


def page() -> str:
    """The page in Markdown."""
    parts = [
        "# Record",
        "`muster simulate --out DIR`, each run of `muster compare` and `muster export DIR` write a record: four "
        "Parquet tables and `run.json`. Columns that end in `_seconds` are in seconds; times are on the clock of the "
        "trace. This page is generated from `muster/runtime/records.py`.",
        "`run.json` names the inputs, settings, versions and the seed: enough to run it again.",
    ]
    for table, columns in COLUMNS.items():
        rows = [(f"`{name}`", _type(column.dtype), column.description) for name, column in columns.items()]
        parts += [
            f"## {table}.parquet",
            TABLES[table],
            markdown_table(("Column", "Type", "Meaning"), rows),
        ]
    kinds = [reasons.reason(code) for code in reasons.REASONS.values()]
    codes = [
        (f"`{kind.name}`", "; or: ".join(filter(None, (kind.sentence, kind.if_enough)))) for kind in kinds
    ]
    parts += [
        "## Pending reasons",
        "The codes of the column `reason`.",
        markdown_table(("Code", "Meaning"), codes),
    ]
    return "\n\n".join(parts) + "\n"


def _type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.List):
        return "list of whole numbers"
    return _TYPES[type(dtype)]
