"""Reading a record back: the four tables and `run.json` of one run, or the runs of a comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from muster.files import read_text
from muster.problems import InputError, Problem
from muster.runtime.records import NODE_QUANTITIES, TABLES, CompactTable, Record

# What the report reads of run.json, as path and kind; more may stand there.
RUN_FIELDS: Sequence[tuple[str, type]] = (
    ("trace", dict),
    ("trace.source", str),
    ("cluster", dict),
    ("cluster.name", str),
    ("cluster.nodes", list),
    ("scheduler", dict),
    ("scheduler.name", str),
    ("rules", dict),
    ("knowledge", str),
)
OBJECTS_IF_ANY = ("settings", "named")
_ALLOWED = "allowed: a folder that muster simulate, compare or export wrote"
KIND_WORDS: Mapping[type, str] = {dict: "an object", list: "a list", str: "a text"}


def record_folders(folder: Path) -> tuple[Path, ...]:
    """The folders of a comparison's runs in their order, or the folder itself where it holds one run."""
    comparison = folder / "comparison.json"
    if not comparison.exists():
        return (folder,)
    content = _read_json(comparison)
    runs = content.get("runs") if isinstance(content, dict) else None
    if not isinstance(runs, list) or not runs or not all(isinstance(name, str) for name in runs):
        what = 'allowed: a list of folder names under "runs", one a scheduler'
        raise InputError(Problem(str(comparison), what, found=runs))
    return tuple(folder / name for name in runs)


def read_record(folder: str | PathLike[str]) -> Record:
    """The record of one run; all problems of the folder are raised together."""
    folder = Path(folder)
    _check_is_record(folder)
    problems: list[Problem] = []
    tables: dict[str, pl.DataFrame] = {}
    for name, schema in TABLES.items():
        try:
            tables[name] = _read_table(folder / f"{name}.parquet", schema)
        except InputError as bad:
            problems.extend(bad.problems)
    run: Any = None
    try:
        run = _read_json(folder / "run.json")
        problems.extend(_problems_of_run(run, folder / "run.json"))
    except InputError as bad:
        problems.extend(bad.problems)
    if problems:
        raise InputError(*problems)
    jobs, allocations, decisions, reasons = (tables[name] for name in TABLES)
    return Record(jobs, CompactTable(allocations), decisions, CompactTable(reasons), run)


def _check_is_record(folder: Path) -> None:
    """Refuses what is no folder with the files of one run; some of them may be missing."""
    what = ""
    if not folder.is_dir():
        what = f"{'this is a file' if folder.exists() else 'there is no such folder'}; {_ALLOWED}"
    elif (folder / "comparison.json").exists():
        what = "this is a comparison of several runs; give the folder of one of them"
    elif not any(
        (folder / name).exists() for name in ("run.json", *(f"{table}.parquet" for table in TABLES))
    ):
        what = f"this is no record; {_ALLOWED}"
    if what:
        raise InputError(Problem(str(folder), what))


def _read_table(path: Path, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    if not path.is_file():
        raise InputError(Problem(str(path), "this table of the record is missing; run the command again"))
    try:
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(Problem(str(path), f"not a readable Parquet file ({reason})")) from error
    problems = []
    for column, kind in schema.items():
        if column not in table.columns:
            problems.append(Problem(str(path), f"this column of {kind} values is missing", column=column))
        elif table.schema[column] not in (kind, pl.Null()):
            found = str(table.schema[column])
            problems.append(Problem(str(path), f"allowed: {kind} values", column=column, found=found))
    if problems:
        raise InputError(*problems)
    return table.with_columns(pl.col(column).cast(kind) for column, kind in schema.items())


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(Problem(str(path), f"not valid JSON ({error.msg})", row=error.lineno)) from None


def _problems_of_run(run: Any, path: Path) -> Iterator[Problem]:
    if not isinstance(run, dict):
        yield Problem(str(path), "allowed: an object with trace, cluster, scheduler, rules and knowledge")
        return
    for field, kind in RUN_FIELDS:
        value: Any = run
        for part in field.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if not isinstance(value, kind):
            yield Problem(str(path), f"allowed: {KIND_WORDS[kind]}", column=field, found=value)
    for field in OBJECTS_IF_ANY:
        if not isinstance(run.get(field) or {}, dict):
            yield Problem(str(path), "allowed: an object, or nothing", column=field, found=run[field])
    cluster = run.get("cluster")
    nodes = cluster.get("nodes") if isinstance(cluster, dict) else None
    for index, node in enumerate(nodes if isinstance(nodes, list) else []):
        yield from _problems_of_node(node, f"cluster.nodes[{index}]", path)


def _problems_of_node(node: Any, place: str, path: Path) -> Iterator[Problem]:
    if not isinstance(node, dict) or not isinstance(node.get("name"), str):
        yield Problem(str(path), "allowed: a node with a name", column=place, found=node)
        return
    for quantity in NODE_QUANTITIES:
        amount = node.get(quantity) or 0
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < 1e18:
            column = f"{place}.{quantity}"
            yield Problem(str(path), "allowed: a number from 0 on", column=column, found=amount)
