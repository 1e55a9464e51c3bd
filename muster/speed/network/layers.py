"""Reader of layer profiles: a CSV of one row a layer, from the first layer to the last.

Columns `model, fwd_ns, input_grad_ns, weight_grad_ns, allreduce_bytes`, and if wanted `update_ns` and `batch`; others
are ignored. Times are nanoseconds of an iteration on one GPU, sizes bytes; `batch` is the samples of that iteration,
the same in all rows of a model. `compute_scale`, likewise, multiplies the forward and gradient times, not the updates.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from muster.files import read_text
from muster.problems import InputError, Problem
from muster.speed.network.models import LayeredModel

NEEDED = ("model", "fwd_ns", "input_grad_ns", "weight_grad_ns", "allreduce_bytes")
BATCH = "batch"
UPDATE = "update_ns"
SCALE = "compute_scale"
OPTIONAL = (UPDATE, BATCH, SCALE)
SECONDS_PER_NS = 1e-9
GB_PER_BYTE = 1e-9

_OF_A_MODEL: Sequence[tuple[str, Callable[[float], bool], str]] = (
    (
        BATCH,
        lambda samples: samples >= 1,
        "allowed: the samples of the iteration that was profiled, from 1 on and the same in all its rows",
    ),
    (SCALE, lambda factor: factor > 0, "allowed: a factor above 0, the same in all rows of a model"),
)
"""Columns that have one value a model: which values are allowed, and what is said of others."""


def read_layers(path: Path) -> Mapping[str, LayeredModel]:
    """The models of a layer file, by name, in the order in which they appear."""
    where = str(path)
    header, *rows = _rows(path)
    _refuse(
        [Problem(where, "this column is missing from the header", 1, c) for c in NEEDED if c not in header]
    )
    numeric = [column for column in (*NEEDED[1:], *OPTIONAL) if column in header]
    layers = _layers_by_model(rows, header, numeric, where)
    for column, allowed, what in _OF_A_MODEL:
        if column in numeric:
            at = numeric.index(column)
            found = {name: {row[at] for row in rows} for name, rows in layers.items()}
            odd = [name for name, values in found.items() if len(values) > 1 or not allowed(min(values))]
            _refuse([Problem(where, what, None, column, name) for name in odd])
    models = {name: _model(name, numeric, values) for name, values in layers.items()}
    what = "takes no compute time at all; some layer needs more than 0"
    idle = [name for name, model in models.items() if not model.messages().compute_seconds > 0.0]
    _refuse([Problem(where, what, None, "fwd_ns", name) for name in idle])
    return models


def _layers_by_model(
    rows: Sequence[Sequence[str]], header: Sequence[str], numeric: Sequence[str], where: str
) -> Mapping[str, list[list[float]]]:
    """The numeric columns of every row, by model."""
    layers: dict[str, list[list[float]]] = {}
    problems = []
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(header):
            problems.append(Problem(where, f"allowed: {len(header)} fields", line, None, len(row)))
            continue
        fields = dict(zip(header, row, strict=True))
        if not fields["model"]:
            problems.append(Problem(where, "allowed: a name", line, "model", fields["model"]))
        values = {column: _number(fields[column]) for column in numeric}
        problems += [
            Problem(where, "allowed: a number of 0 or more", line, column, fields[column])
            for column, value in values.items()
            if value is None
        ]
        layers.setdefault(fields["model"], []).append([v for v in values.values() if v is not None])
    if not problems and not layers:
        problems.append(Problem(where, "has no layer; allowed: a row each"))
    _refuse(problems)
    return layers


def _refuse(problems: Sequence[Problem]) -> None:
    """Raises the problems, if there are any."""
    if problems:
        raise InputError(*problems)


def _rows(path: Path) -> list[list[str]]:
    try:
        rows = list(csv.reader(read_text(path).splitlines()))
    except csv.Error as error:
        raise InputError(Problem(str(path), f"is no CSV: {error}")) from None
    if not rows:
        raise InputError(Problem(str(path), "is empty; allowed: a header and a row a layer"))
    return rows


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0.0 else None


def _model(name: str, numeric: list[str], rows: list[list[float]]) -> LayeredModel:
    columns = dict(zip(numeric, np.array(rows, dtype=np.float64).T, strict=True))
    model = LayeredModel(
        name,
        columns["fwd_ns"] * SECONDS_PER_NS,
        columns["input_grad_ns"] * SECONDS_PER_NS,
        columns["weight_grad_ns"] * SECONDS_PER_NS,
        columns["allreduce_bytes"] * GB_PER_BYTE,
        columns.get(UPDATE, np.zeros(len(rows))) * SECONDS_PER_NS,
        float(columns[BATCH][0]) if BATCH in columns else np.nan,
    )
    return model.scaled(float(columns[SCALE][0])) if SCALE in columns else model
