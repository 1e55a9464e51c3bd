"""What a trace file holds, before anybody knows which format it is: a table of cells, or a JSON document."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from muster.files import decode_text, read_bytes
from muster.formatting import counted
from muster.problems import ErrorCollector, InputError, Problem
from muster.workload.traces.headerless import SWF_COLUMNS, is_swf, known_header

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True)
class TraceTable:
    """Cells under a header: text from CSV (stripped, empty = null), typed columns from Parquet."""

    where: str
    cells: pl.DataFrame
    lines: pl.Series
    """Line of the file for each row, the header being line 1."""

    @property
    def header(self) -> list[str]:
        """The names of the columns."""
        return self.cells.columns


@dataclass(frozen=True)
class Document:
    """A parsed JSON file."""

    where: str
    value: object


Content = TraceTable | Document


def open_content(path: Path) -> Content:
    """Reads Parquet, JSON or separated text, recognised by how the file begins."""
    where = str(path)
    data = read_bytes(path)
    if data.startswith(_PARQUET_MAGIC):
        return _parquet_table(data, where)
    text = decode_text(data, where)
    beginning = text[:1000].lstrip()
    if beginning.startswith(("{", "[")):
        return Document(where, _parse_json(text, where))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _swf_table(text, where) if is_swf(text) else _text_table(text, where)


def _parse_json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        what = f"this is not JSON: {error.msg} at character {error.colno}"
        raise InputError(Problem(where, what, row=error.lineno)) from None
    except (RecursionError, ValueError) as error:
        raise InputError(Problem(where, f"this JSON cannot be used: {error}")) from None


def _parquet_table(data: bytes, where: str) -> TraceTable:
    try:
        cells = pl.read_parquet(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else "its structure is damaged"
        raise InputError(Problem(where, f"this Parquet file cannot be read: {reason}")) from None
    # As if it had been written as CSV: the header would be line 1.
    return _typed_table(cells, where, first_line=2)


def table_of(columns: object, where: str) -> TraceTable:
    """The table of columns that a program holds: a data frame, or a mapping of names to lists or arrays.

    The first row is 1. Polars frames are taken as they are. Any other frame must have what one of pandas has:
    `columns`, `isna` and columns with `dtype`, `to_numpy` and `tolist`. NaN is an empty cell.
    """
    if isinstance(columns, pl.DataFrame):
        return _typed_table(columns.fill_nan(None), where, first_line=1)
    # In this order: a lazy frame of polars warns where its columns are asked for.
    if hasattr(columns, "isna") and hasattr(columns, "columns"):
        named: Mapping[Any, Any] = {name: _cells_of_pandas(columns[name]) for name in columns.columns}  # type: ignore[index]
    elif isinstance(columns, Mapping):
        named = columns
    else:
        what = "allowed: a path, a Trace, a data frame, or a mapping of column names to lists or arrays"
        raise InputError(Problem(where, what, found=type(columns).__name__))
    errors = ErrorCollector()
    series = [errors.of(_series, where, str(name), values) for name, values in named.items()]
    errors.settle()
    others = [one for one in series if len(one) != len(series[0])]
    if others:
        what = f"allowed: {counted(len(series[0]), 'row')}, as in column {series[0].name}"
        raise InputError(*(Problem(where, what, column=one.name, found=len(one)) for one in others))
    return _typed_table(pl.DataFrame(series).fill_nan(None), where, first_line=1)


def _series(where: str, name: str, values: Any) -> pl.Series:
    """A column; of mixed types one of text, so that the checks name the cell that does not belong."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        what = "allowed: a list or an array, a value a job"
        raise InputError(Problem(where, what, column=name, found=values))
    if isinstance(values, np.ndarray) and values.dtype == np.object_:
        values = values.tolist()
    try:
        return pl.Series(name, values)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(name, [None if cell is None else str(cell) for cell in values], dtype=pl.String)


def _cells_of_pandas(column: Any) -> Any:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column.to_numpy()
    return [
        None if empty else cell for cell, empty in zip(column.tolist(), column.isna().tolist(), strict=True)
    ]


def _typed_table(cells: pl.DataFrame, where: str, first_line: int) -> TraceTable:
    if cells.height == 0:
        raise InputError(Problem(where, "there is no job in it: no rows"))
    named = cells.select(
        _clean(pl.col(name).cast(pl.String)).alias(name)
        if isinstance(dtype, pl.String | pl.Categorical | pl.Enum)
        else pl.col(name)
        for name, dtype in cells.schema.items()
    )
    lines = pl.int_range(first_line, first_line + cells.height, eager=True)
    return TraceTable(where, named, lines)


def _numbered(text: str) -> pl.DataFrame:
    """The lines of a text that have a cell, each with its number."""
    lines = pl.Series("line", text.split("\n"), dtype=pl.String)
    numbered = pl.DataFrame({"line": lines, "number": pl.int_range(1, len(lines) + 1, eager=True)})
    # A line of separators alone is what a spreadsheet leaves below the data; it has no cell either.
    return numbered.filter(pl.col("line").str.contains(r"[^\s,;|]"))


def _swf_table(text: str, where: str) -> TraceTable:
    """Lines of numbers with space between them, comments left out."""
    line = pl.col("line").str.strip_chars()
    rows = _numbered(text).filter(~line.str.starts_with(";")).with_columns(line.str.replace_all(r"\s+", "\t"))
    cells = _split_cells(rows, "\t", len(SWF_COLUMNS), where, "a line of SWF has")
    return TraceTable(where, cells.rename(dict(zip(cells.columns, SWF_COLUMNS, strict=True))), rows["number"])


def _text_table(text: str, where: str) -> TraceTable:
    filled = _numbered(text)
    if filled.height == 0:
        raise InputError(Problem(where, "the file is empty; allowed: a header line and one line a job"))
    header_line, header_number = str(filled["line"][0]), int(filled["number"][0])
    separator = _sniff_separator(header_line, header_number, where)
    without = known_header(header_line.split(separator))
    if without:
        cells = _split_cells(filled, separator, len(without), where, "the first line has")
        names_of_cells = dict(zip(cells.columns, without, strict=True))
        return TraceTable(where, cells.rename(names_of_cells), filled["number"])
    # Accounting logs separated by bars never quote: there a quotation mark is a letter.
    if '"' in text and separator != "|":
        table = _quoted_table(text, separator, where)
    else:
        names = header_line.split(separator)
        cells = _split_cells(filled.slice(1), separator, len(names), where)
        table = TraceTable(where, cells, filled["number"].slice(1))
        table = _with_names(table, names, header_number)
    if table.cells.height == 0:
        raise InputError(Problem(where, "there is no job in it: a header and no rows"))
    return table


def _sniff_separator(header: str, number: int, where: str) -> str:
    unquoted = "".join(header.split('"')[::2])
    present = Counter(letter for letter in unquoted if letter in _SEPARATORS)
    if not present:
        what = "the header has one column only; columns are separated by comma, semicolon, tab or bar"
        raise InputError(Problem(where, what, row=number, found=_short(header)))
    if len(present) > 1:
        mixed = " and ".join(_SEPARATORS[letter] for letter in _SEPARATORS if letter in present)
        raise InputError(Problem(where, f"the header mixes {mixed}; allowed: one separator", row=number))
    return next(iter(present))


def _split_cells(
    rows: pl.DataFrame, separator: str, width: int, where: str, wanted: str = "the header has"
) -> pl.DataFrame:
    """Splits unquoted lines at once; a line of another width is refused with its number."""
    counts = rows["line"].str.count_matches(separator, literal=True)
    wrong = rows.filter(counts != width - 1)
    if wrong.height:
        raise InputError(
            *(
                Problem(
                    where, _width_problem(line.split(separator), line, separator, width, wanted), row=number
                )
                for line, number in wrong.iter_rows()
            )
        )
    fields = rows["line"].str.split_exact(separator, width - 1).struct.unnest()
    return fields.select(_clean(pl.all()))


def _quoted_table(text: str, separator: str, where: str) -> TraceTable:
    """Splits lines with quoted cells, which may hold separators and line ends."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[list[str]] = []
    numbers: list[int] = []
    next_number = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append(row)
                numbers.append(next_number)
            next_number = reader.line_num + 1
    except csv.Error as error:
        raise InputError(Problem(where, f"this line cannot be split: {error}", row=reader.line_num)) from None
    width = len(rows[0])
    problems = [
        Problem(where, _width_problem(row, separator.join(row), separator, width), row=number)
        for row, number in zip(rows, numbers, strict=True)
        if len(row) != width
    ]
    if problems:
        raise InputError(*problems)
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ((),) * width
    fields = pl.DataFrame(
        [pl.Series(f"field_{index}", column, dtype=pl.String) for index, column in enumerate(columns)]
    )
    table = TraceTable(
        where, fields.select(_clean(pl.all())), pl.Series("number", numbers[1:], dtype=pl.Int64)
    )
    return _with_names(table, rows[0], numbers[0])


def _width_problem(
    cells: list[str], line: str, separator: str, width: int, wanted: str = "the header has"
) -> str:
    for other, name in _SEPARATORS.items():
        if other != separator and line.count(other) == width - 1:
            return f"separated by {name}, the header by {_SEPARATORS[separator]}; allowed: one separator"
    return f"has {counted(len(cells), 'cell')}; {wanted} {width}"


def _with_names(table: TraceTable, names: list[str], header_number: int) -> TraceTable:
    """Names the columns as the header does; a nameless last column without cells (`sacct -p`) goes."""
    cells = table.cells
    stripped = [name.strip() for name in names]
    if not stripped[-1] and cells[:, -1].null_count() == cells.height:
        cells, stripped = cells[:, :-1], stripped[:-1]
    stripped = [name or f"unnamed_{place}" for place, name in enumerate(stripped, start=1)]
    twice = [name for name, count in Counter(stripped).items() if count > 1]
    if twice:
        raise InputError(
            *(
                Problem(table.where, "the header has this column twice", row=header_number, column=name)
                for name in twice
            )
        )
    return TraceTable(table.where, cells.rename(dict(zip(cells.columns, stripped, strict=True))), table.lines)


def _clean(cells: pl.Expr) -> pl.Expr:
    """Text without the space around it; nothing at all is null."""
    stripped = cells.str.strip_chars()
    return pl.when(stripped.str.len_bytes() > 0).then(stripped).name.keep()


def _short(text: str, at_most: int = 60) -> str:
    return text if len(text) <= at_most else text[: at_most - 1] + "…"
