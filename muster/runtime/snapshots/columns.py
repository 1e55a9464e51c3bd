"""Columns of structured arrays as lists for JSON, and back. JSON has no infinity and no NaN: those are texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from muster.cluster.structured import zero_records
from muster.problems import InputError, Problem


def plain(value: Any) -> Any:
    """A value of JSON with `inf`, `-inf` and `nan` as texts, and arrays as lists."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def columns_of(records: Any, names: Iterable[str]) -> dict[str, list[Any]]:
    """Columns of a structured array, by name."""
    return {name: plain(records[name]) for name in names}


def records_of(
    columns: Mapping[str, Sequence[Any]], layout: np.dtype[Any], rows: int, where: str, file: str
) -> Any:
    """A structured array of these columns; those that are not named stay 0. InputError names what is wrong."""
    records = zero_records(rows, layout)
    for name, values in columns.items():
        field = f"{where}.{name}"
        if name not in (layout.names or ()):
            raise InputError(Problem(file, f"allowed: {', '.join(layout.names or ())}", column=field))
        records[name] = array_of(values, records[name], field, file)
    return records


def array_of(values: Sequence[Any], like: Any, field: str, file: str) -> Any:
    """An array of these values with the shape and type of another one."""
    kind = np.float64 if like.dtype.kind == "f" else np.int64
    try:
        whole = np.array(values, dtype=np.float64 if kind is np.float64 else None)
        array = whole.astype(np.float64).reshape(like.shape) if not whole.size else whole
        if kind is np.int64 and array.size and array.dtype.kind != "i":
            raise ValueError("whole numbers are needed")
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(
            Problem(file, f"allowed: numbers, one for each job ({error})", column=field)
        ) from None
    if array.shape != like.shape:
        what = f"allowed: {len(like)} values, each with the shape that the reference states"
        raise InputError(Problem(file, what, column=field, found=f"shape {array.shape}"))
    return array.astype(kind)
