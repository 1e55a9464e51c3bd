"""Times and durations as logs write them, to seconds; whole columns at once."""

from __future__ import annotations

import polars as pl

_DATE_TIME = (
    r"^(?<date>\d{4}[-/]\d{2}[-/]\d{2})"
    r"(?:[T ](?<hours>\d{2}):(?<minutes>\d{2})(?::(?<seconds>\d{2}(?:\.\d+)?))?)?"
    r" ?(?:Z|UTC|(?<sign>[+-])(?<zone_hours>\d{2}):?(?<zone_minutes>\d{2}))?$"
)
_CLOCK = r"^(?:(?:(?<days>\d+)-)?(?<hours>\d+):)?(?<minutes>\d+):(?<seconds>\d+(?:\.\d+)?)$"
_DAY_SECONDS = 86_400


def epoch_seconds(cells: pl.Series) -> pl.Series:
    """Seconds since 1970 from ISO date-times (no zone: taken as UTC), typed date-times or plain numbers.

    Null where a cell is empty or is none of these.
    """
    if cells.dtype in (pl.Date, pl.Datetime):
        return cells.cast(pl.Datetime("us")).cast(pl.Int64) / 1e6
    if cells.dtype != pl.String:
        return _numbers(cells)
    date = _part("date").str.replace_all("/", "-").str.to_date("%Y-%m-%d", strict=False)
    hours, minutes, seconds = _count("hours"), _count("minutes"), _count("seconds")
    on_a_clock = (hours < 24) & (minutes < 60) & (seconds < 61)
    east = _count("zone_hours") * 3600 + _count("zone_minutes") * 60
    offset = pl.when(_part("sign") == "-").then(-east).otherwise(east)
    days = date.cast(pl.Int32).cast(pl.Float64)
    moment = days * _DAY_SECONDS + hours * 3600 + minutes * 60 + seconds - offset
    return _parsed(cells, _DATE_TIME, pl.when(on_a_clock).then(moment)).fill_null(_numbers(cells))


def clock_seconds(cells: pl.Series) -> pl.Series:
    """Seconds from `days-hours:minutes:seconds`, its leading parts optional, or from plain numbers.

    Null where a cell is empty or is none of these (Slurm: `1-02:03:04`, `02:03:04`, `03:04.5`).
    """
    if cells.dtype != pl.String:
        return _numbers(cells)
    hours = _count("days") * 24 + _count("hours")
    moment = hours * 3600 + _count("minutes") * 60 + _count("seconds")
    return _parsed(cells, _CLOCK, pl.when(_part("seconds").is_not_null()).then(moment)).fill_null(
        _numbers(cells)
    )


def _part(name: str) -> pl.Expr:
    return pl.col("part").struct.field(name)


def _count(name: str) -> pl.Expr:
    """A part as a number; 0 where it is not written."""
    return _part(name).cast(pl.Float64, strict=False).fill_null(0.0)


def _parsed(cells: pl.Series, pattern: str, value: pl.Expr) -> pl.Series:
    parts = cells.alias("cell").to_frame().select(pl.col("cell").str.extract_groups(pattern).alias("part"))
    return parts.select(value.cast(pl.Float64).alias("seconds"))["seconds"]


def _numbers(cells: pl.Series) -> pl.Series:
    """Plain numbers; null where it is none, or none that a clock can show."""
    if not (cells.dtype.is_numeric() or cells.dtype == pl.String):
        return pl.repeat(None, len(cells), dtype=pl.Float64, eager=True)
    values = cells.cast(pl.Float64, strict=False)
    return values.zip_with(
        values.is_finite().fill_null(value=False), pl.repeat(None, len(values), dtype=pl.Float64, eager=True)
    )
