"""Any table whose columns a user names: `submit=arrival_s,gpus=num_gpu,duration=run_s`."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from muster.formatting import counted
from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.workload.traces.cleaning import Reading
from muster.workload.traces.columns import LARGEST_SECONDS, LINE, NAMES, WORK
from muster.workload.traces.content import TraceTable
from muster.workload.traces.times import epoch_seconds

_SHORT = {
    "id": "job_id",
    "job": "job_id",
    "submit": "submit_seconds",
    "duration": "duration_seconds",
    "gpu_work": "gpu_work_seconds",
    "memory": "memory_gb",
    "min_runtime": "min_runtime_seconds",
    "restart_cost": "restart_cost_seconds",
    "deadline": "deadline_seconds",
}
_MOMENTS = ("submit_seconds", "start_seconds", "end_seconds", "deadline_seconds")
_EPOCH_FROM = 1e8
"""Times from here on (1973 on a Unix clock) are dates, not seconds since a trace began."""


def parse_mapping(text: str) -> dict[str, str]:
    """`submit=arrival_s,gpus=num_gpu` as native column -> column of the file."""
    mapping: dict[str, str] = {}
    problems = []
    for pair in text.split(","):
        name, equals, column = (part.strip() for part in pair.partition("="))
        native = _SHORT.get(name, name)
        if not equals or not column:
            problems.append(Problem("--map", "allowed: pairs such as submit=arrival_s", found=pair.strip()))
        elif native not in NAMES:
            known = (*_SHORT, *NAMES)
            what = f"is no column of a trace; allowed: {', '.join(known)}"
            problems.append(Problem("--map", with_hint(what, did_you_mean(name, known)), found=name))
        elif native in mapping:
            problems.append(Problem("--map", "is mapped twice", found=name))
        else:
            mapping[native] = column
    if problems:
        raise InputError(*problems)
    return mapping


def read(table: TraceTable, mapping: Mapping[str, str]) -> Reading:
    """Renames the columns; native names that are not mapped stand for themselves."""
    mapping = {_SHORT.get(name, name): column for name, column in mapping.items()}
    problems = [
        Problem(
            table.where, f"no such column to map {native} to; found: {', '.join(table.header)}", column=column
        )
        for native, column in mapping.items()
        if column not in table.header
    ]
    if problems:
        raise InputError(*problems)
    taken = {*mapping, *mapping.values()}
    # A mapped length is the one meant, whatever else the file says about it.
    unmeant = [name for name in WORK if name in table.header and name not in taken and taken & set(WORK)]
    others = [name for name in table.header if name not in taken and name not in unmeant]
    frame = table.cells.select(
        *(pl.col(column).alias(native) for native, column in mapping.items()), *others
    ).with_columns(table.lines.alias(LINE))
    notes = [f"left out column {name}: another one was mapped to say how long a job is" for name in unmeant]
    reading = Reading(frame, notes, mapping)
    if "job_id" not in frame.columns:
        reading.frame = frame.with_row_index("job_id")
    _read_dates(reading)
    _clean_zeros(reading)
    return reading


def _read_dates(reading: Reading) -> None:
    """Date-times and Unix times become seconds since the first submission; other times stay."""
    moments = {name: _moments(reading.frame[name]) for name in _MOMENTS if name in reading.frame.columns}
    submit = moments.get("submit_seconds")
    if submit is None or not submit.dtype.is_numeric():
        return
    first = submit.min()
    if not isinstance(first, float) or not _EPOCH_FROM <= first <= LARGEST_SECONDS:
        # Dates beside them are of another clock: they stay as they are, for the checks to show. So do milliseconds.
        reading.frame = reading.frame.with_columns(submit)
        return
    reading.frame = reading.frame.with_columns(
        cells - first if cells.dtype.is_numeric() else cells for cells in moments.values()
    )
    reading.notes.append("times are dates: 0 is the first submission")


def _moments(cells: pl.Series) -> pl.Series:
    """Seconds since 1970, or as they are where one is no time: that cell is for the checks to show."""
    seconds = epoch_seconds(cells)
    return seconds.alias(cells.name) if seconds.null_count() == cells.null_count() else cells


def _clean_zeros(reading: Reading) -> None:
    """The same cleaning as for logs of known form: no GPU, no length."""
    for name in ("gpus", "duration_seconds"):
        cells = reading.frame.get_column(name, default=None)
        if cells is None or not (cells.dtype.is_numeric() or cells.dtype == pl.String):
            continue
        zero = cells.cast(pl.Float64, strict=False) == 0
        if name == "gpus":
            reading.drop(pl.lit(zero), "no GPU asked for")
        elif count := int(zero.sum()):
            one = pl.Series(name, ["1" if cells.dtype == pl.String else 1]).cast(cells.dtype)
            reading.frame = reading.frame.with_columns(cells.zip_with(~zero.fill_null(value=False), one))
            reading.notes.append(f"set {counted(count, 'duration')} of 0 s to 1 s")
