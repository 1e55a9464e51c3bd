"""What every reader of a foreign format does with oddities: cleans them in the open, a note each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from muster.formatting import counted
from muster.workload.traces.columns import LINE, Checks, Number
from muster.workload.traces.content import TraceTable
from muster.workload.traces.times import epoch_seconds

LEAST_SECONDS = 1.0
"""What a run of no measurable length is set to: logs count whole seconds."""

_OPEN = ("RUNNING", "PENDING", "SUSPENDED")
"""States of jobs that have not ended."""
_MOMENTS = ("submit_seconds", "start_seconds", "end_seconds")
"""Columns on the log's clock."""
_ANY_NUMBER = "a number from -1e12 to 1e12"
_AMOUNT = "a number from 0 to 1e12"
NOTHING = ("none", "null", "n/a", "unknown", "nan", "-")
"""Words that stand for an empty cell in foreign files."""


@dataclass
class Reading:
    """What a reader made of a file: native columns (and others to keep), and what it cleaned."""

    frame: pl.DataFrame
    """Has the column LINE beside them."""
    notes: list[str] = field(default_factory=list)
    names: Mapping[str, str] = field(default_factory=dict)
    """For a native column the name it has in the file, where another."""

    def drop(self, odd: pl.Expr, why: str) -> None:
        """Takes rows out, and says how many and why."""
        kept = self.frame.filter(~odd.fill_null(value=False))
        gone = self.frame.height - kept.height
        if gone:
            self.notes.append(f"dropped {gone:,} of {counted(self.frame.height, 'row')}: {why}")
            self.frame = kept

    def drop_without_gpus(self) -> None:
        """CPU-only jobs do not compete for GPUs."""
        self.drop(pl.col("gpus").fill_null(0) == 0, "no GPU asked for")

    def drop_open(self) -> None:
        """What a log says of the length of a job that still runs or waits is not how long it takes."""
        is_open = pl.col("status").str.to_uppercase().is_in(_OPEN)
        self.drop(is_open, "not finished when the log ends")

    def clamp_durations(self) -> None:
        """Runs of 0 s become 1 s; negative ones are left to the checks, which refuse them."""
        zero = pl.col("duration_seconds") == 0
        count = int(self.frame.select(zero.sum()).item())
        if count:
            self.notes.append(f"set {counted(count, 'duration')} of 0 s to 1 s")
            clamped = pl.when(zero).then(LEAST_SECONDS).otherwise(pl.col("duration_seconds"))
            self.frame = self.frame.with_columns(clamped.alias("duration_seconds"))

    def clamp_limits(self) -> None:
        """A job that ran longer than its time limit had, in effect, a longer one: Slurm checks limits now and then."""
        over = pl.col("time_limit_seconds") < pl.col("duration_seconds")
        count = int(self.frame.select(over.sum()).item())
        if count:
            self.notes.append(f"set {counted(count, 'time limit')} to the time that the job really ran")
            longest = pl.max_horizontal("time_limit_seconds", "duration_seconds")
            self.frame = self.frame.with_columns(pl.when(over).then(longest).otherwise("time_limit_seconds"))

    def only_positive(self, *names: str) -> None:
        """Logs write 0 where a job asks for nothing in particular."""
        self.frame = self.frame.with_columns(pl.when(pl.col(name) > 0).then(name) for name in names)

    def require_gpu_type(self, column: str) -> None:
        """A named type of GPU becomes the constraint."""
        named = pl.when(pl.col(column) != "").then(pl.lit("gpu_type=") + pl.col(column))
        self.frame = self.frame.with_columns(named.alias("constraint"))

    def possible_nodes(self) -> None:
        """A number of nodes that a gang of so many GPUs cannot be on is not kept."""
        possible = (pl.col("nodes") > 0) & (pl.col("nodes") <= pl.col("gpus"))
        self.frame = self.frame.with_columns(pl.when(possible).then("nodes"))

    def order_moments(self) -> None:
        """A log may say that a job started a second before it was submitted, or ended before it started."""
        submit, start, end = (pl.col(name) for name in _MOMENTS)
        started = pl.when(start.is_not_null())
        ended = pl.when(start.is_not_null() & end.is_not_null())
        self.frame = self.frame.with_columns(
            started.then(pl.max_horizontal(start, submit)).alias("start_seconds"),
            ended.then(pl.max_horizontal(start, submit, end)).alias("end_seconds"),
        )

    def whole_gpus(self) -> None:
        """Less than a GPU in all is a share of one; any other fraction is rounded up, because gangs have whole GPUs."""
        gpus = pl.col("gpus").round(3)
        share = pl.when((gpus > 0) & (gpus < 1)).then(gpus * 1000).otherwise(1000)
        count = int(self.frame.select(((gpus > 1) & (gpus != gpus.floor())).sum()).item())
        if count:
            self.notes.append(f"rounded the GPUs of {counted(count, 'job')} up to a whole number")
        self.frame = self.frame.with_columns(gpus.ceil(), share.round().alias("gpu_milli"))

    def start_at_zero(self) -> None:
        """Time 0 becomes the first submission."""
        zero = pl.col("submit_seconds").min()
        moments = [name for name in _MOMENTS if name in self.frame.columns]
        self.frame = self.frame.with_columns(pl.col(name) - zero for name in moments)


class Cells:
    """The cells of a foreign table, with what cannot be read collected.

    Columns are asked for by their native name where they have one, else by the name in the file.
    """

    def __init__(self, table: TraceTable, names: Mapping[str, str]) -> None:
        self.table = table
        self.checks = Checks(table.where, table.lines, names)

    def raw(self, column: str) -> pl.Series:
        """The cells as they are, words for nothing taken as empty."""
        cells = self.table.cells[self.checks.names.get(column, column)]
        if cells.dtype != pl.String:
            return cells
        return _without_nothing(cells)

    def text(self, column: str) -> pl.Series:
        """The cells as text, empty where nothing is said."""
        cells = self.raw(column)
        if cells.dtype.is_nested() or cells.dtype == pl.Binary:
            self.checks.refuse_file(f"holds {cells.dtype} values; allowed: text", column)
            return pl.repeat("", len(cells), dtype=pl.String, eager=True)
        return cells.cast(pl.String, strict=False).fill_null("")

    def numbers(self, column: str) -> pl.Series:
        """The cells as numbers, null where nothing is said."""
        return self.checks.number(self.raw(column), Number(column, -1e12, 1e12, _ANY_NUMBER))

    def amounts(self, column: str) -> pl.Series:
        """The cells as numbers from 0 on, null where nothing is said."""
        return self.checks.number(self.raw(column), Number(column, 0, 1e12, _AMOUNT))

    def times(self, column: str) -> pl.Series:
        """The cells as seconds since 1970, from date-times or numbers; null where nothing is said."""
        cells = self.raw(column)
        seconds = epoch_seconds(cells)
        bad = seconds.is_null() & cells.is_not_null()
        self.checks.refuse(bad, column, cells, "allowed: a date-time such as 2017-10-03 14:05:02")
        return seconds

    def reading(self, columns: Mapping[str, pl.Series]) -> Reading:
        """The native columns that a reader made of these cells; refuses the file if a cell was unreadable."""
        self.checks.raise_if_any()
        frame = pl.DataFrame({**columns, LINE: self.table.lines})
        return Reading(frame, names=self.checks.names)


def has_all(header: Sequence[str], needed: Sequence[str]) -> bool:
    """Whether a header names all these columns."""
    return set(needed) <= set(header)


def _without_nothing(cells: pl.Series) -> pl.Series:
    frame = cells.alias("cell").to_frame()
    says = ~pl.col("cell").str.to_lowercase().is_in(NOTHING)
    return frame.select(pl.when(says).then("cell"))["cell"]
