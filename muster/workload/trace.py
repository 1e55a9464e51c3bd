"""A trace: the jobs of a workload as one table, read from a file, made by a generator, or written out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from muster.files import write_aside, write_parquet
from muster.problems import InputError, Problem, did_you_mean
from muster.workload.models import Model, shipped_models
from muster.workload.traces import read_content
from muster.workload.traces.cleaning import Reading
from muster.workload.traces.columns import (
    COLUMNS,
    LINE,
    LOG_COLUMNS,
    NAMES,
    TARGET_LOSS,
    WORK,
    Checks,
    checked,
    default_of,
)
from muster.workload.traces.content import Content, open_content, table_of

_ALWAYS_WRITTEN = ("job_id", "submit_seconds", "gpus")
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".txt")
_RESEMBLES = 0.8
"""As `cpu` resembles `cpus`; a column of a site's own that is further off is not asked about."""
COLUMNS_SOURCE = "jobs"
"""The source of a trace that was read from columns."""


@dataclass(frozen=True)
class Trace:
    """The jobs of a workload, in the order of their file."""

    jobs: pl.DataFrame
    """All native columns (`docs/reference/traces.md`) with their types, then the file's other columns."""
    source: str
    """The file, or the generator with its settings."""
    notes: tuple[str, ...] = ()
    """What was cleaned or is worth knowing, a line each with its count."""
    lines: pl.Series | None = None
    """The line of the file that each job came from; None: made by a program."""
    names: Mapping[str, str] = field(default_factory=dict)
    """For a native column the name it has in the file, where another."""

    @property
    def other_columns(self) -> list[str]:
        """The names of the columns that are not native; few rules use some of them."""
        return self.jobs.columns[len(NAMES) :]


def in_range(ids: pl.Series, numbers: tuple[int, int] | None) -> pl.Series:
    """Which job ids are a number from the first to the last one; without numbers, all."""
    if numbers is None:
        return pl.repeat(value=True, n=len(ids), eager=True)
    return ids.cast(pl.Int64, strict=False).is_between(*numbers).fill_null(value=False)


def read_trace(
    path: Path | str,
    kind: str = "auto",
    mapping: Mapping[str, str] | None = None,
    models: Mapping[str, Model] | None = None,
) -> Trace:
    """Reads a trace of any known form; all problems of the file are raised together.

    `mapping` names the file's column for a native one (`{"submit_seconds": "arrival_s"}`). `models` are
    those whose iterations can be counted; left out, the shipped ones.
    """
    return trace_from(open_content(Path(path)), kind, mapping, models)


def read_columns(
    columns: object, mapping: Mapping[str, str] | None = None, models: Mapping[str, Model] | None = None
) -> Trace:
    """Reads a trace of any known form from columns that a program holds, as from a Parquet file with them.

    `columns` maps names to lists or arrays, or is a data frame of Polars or pandas. Problems name the row, the first
    being 1.
    """
    return trace_from(table_of(columns, COLUMNS_SOURCE), "auto", mapping, models)


def trace_from(
    content: Content,
    kind: str = "auto",
    mapping: Mapping[str, str] | None = None,
    models: Mapping[str, Model] | None = None,
) -> Trace:
    """Reads a trace of any known form from a file that is open already."""
    reading = read_content(content, kind, mapping)
    if reading.frame.height == 0:
        cleaned = "; ".join(reading.notes)
        raise InputError(Problem(content.where, f"there is no job in it{cleaned and ': '}{cleaned}"))
    jobs = _checked(reading, content.where, shipped_models() if models is None else models)
    notes = (*reading.notes, *_resembling(reading.frame.columns))
    return Trace(jobs, content.where, notes, reading.frame[LINE], reading.names)


def trace_of(columns: Mapping[str, object], source: str, models: Mapping[str, Model] | None = None) -> Trace:
    """A trace from native columns made by a program, with the same checks as a file."""
    frame = pl.DataFrame(columns)
    lines = pl.int_range(1, frame.height + 1, eager=True, dtype=pl.Int64)
    reading = Reading(frame.with_columns(lines.alias(LINE)))
    return Trace(_checked(reading, source, shipped_models() if models is None else models), source)


def write_trace(trace: Trace, path: Path | str) -> None:
    """Writes CSV or Parquet, by the name's ending; only columns that say something; whole or not at all."""
    with trace_writer(Path(path)) as write:
        write(trace)


@contextmanager
def trace_writer(path: Path) -> Iterator[Callable[[Trace], None]]:
    """A function that writes the trace of this name, as `write_trace` does.

    A wrong name, or a place that cannot be written, is an InputError before the body runs. The body calls the
    function once.
    """
    suffix = path.suffix.lower()
    if suffix not in _PARQUET + _CSV:
        what = f"the ending decides the form; allowed: one of {', '.join(_CSV + _PARQUET)}"
        raise InputError(Problem(str(path), what, found=path.suffix))
    with write_aside(path) as aside:

        def write(trace: Trace) -> None:
            jobs = _telling(trace.jobs)
            _check_writable(jobs, path, as_text=suffix in _CSV)
            if suffix in _PARQUET:
                write_parquet(jobs, aside)
            else:
                jobs.write_csv(aside)

        yield write


def _checked(reading: Reading, where: str, models: Mapping[str, Model]) -> pl.DataFrame:
    by_name = {name.lower(): model for model in models.values() for name in (model.name, *model.aliases)}
    return checked(reading.frame, Checks(where, reading.frame[LINE], reading.names), by_name)


def _resembling(columns: Sequence[str]) -> Iterator[str]:
    """A note for each column that is not read and resembles one that is, and that the file does not have."""
    absent = [name for name in NAMES if name not in columns]
    for column in columns:
        if column in NAMES or column in (LINE, *LOG_COLUMNS):
            continue
        whole = [name for name in absent if name.startswith(f"{column.casefold()}_")]
        hint = did_you_mean(column, absent, cutoff=_RESEMBLES)
        if whole or hint:
            yield f"column {column} is kept and not read; {hint or f'did you mean {whole[0]}?'}"


def _telling(jobs: pl.DataFrame) -> pl.DataFrame:
    """The columns that differ from what an absent column means, and those that a trace must have.

    Iterations that follow from a loss to reach are left out.
    """
    if jobs[TARGET_LOSS].is_not_null().any():
        jobs = jobs.drop("iterations")
    defaults = {column.name: default_of(column) for column in COLUMNS}
    kept = [
        name
        for name in jobs.columns
        if name in _ALWAYS_WRITTEN or name not in defaults or not _all_default(jobs[name], defaults[name])
    ]
    return jobs.select(kept)


def _all_default(cells: pl.Series, default: object) -> bool:
    return cells.null_count() == len(cells) if default is None else bool((cells == default).all())


def _check_writable(jobs: pl.DataFrame, path: Path, *, as_text: bool) -> None:
    problems = []
    work = [name for name in (*WORK, TARGET_LOSS) if name in jobs.columns]
    if len(work) != 1:
        what = f"jobs say their work in {len(work)} ways ({', '.join(work)}); one file has exactly one"
        problems.append(Problem(str(path), what))
    if as_text:
        problems += [
            Problem(str(path), f"{dtype} values do not fit into text; write Parquet instead", column=name)
            for name, dtype in jobs.schema.items()
            if dtype.is_nested() or dtype in (pl.Binary, pl.Object)
        ]
    if problems:
        raise InputError(*problems)
