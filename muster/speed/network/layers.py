"""Reader of layer profiles: a CSV of one row a layer, from the first layer to the last.

Columns `model, fwd_ns, input_grad_ns, weight_grad_ns, allreduce_bytes`, and if wanted `update_ns` and `batch`; others
are ignored. Times are nanoseconds of an iteration on one GPU, sizes bytes; `batch` is the samples of that iteration,
the same in all rows of a model. `compute_scale`, likewise, multiplies the forward and gradient times, not the updates.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from muster.files import read_text
from muster.problems import BadInput, Problem
from muster.speed.network.models import LayeredModel

NEEDED = ("model", "fwd_ns", "input_grad_ns", "weight_grad_ns", "allreduce_bytes")
BATCH = "batch"
UPDATE = "update_ns"
SCALE = "compute_scale"
OPTIONAL = (UPDATE, BATCH, SCALE)
SECONDS_PER_NS = 1e-9
GB_PER_BYTE = 1e-9


def read_layers(path: Path) -> Mapping[str, LayeredModel]:
    """The models of a layer file, by name, in the order in which they appear."""
    where = str(path)
    rows = _rows(path)
    header = rows[0]
    missing = [
        Problem(where, "this column is missing from the header", 1, c) for c in NEEDED if c not in header
    ]
    if missing:
        raise BadInput(*missing)
    numeric = [column for column in (*NEEDED[1:], *OPTIONAL) if column in header]
    layers: dict[str, list[list[float]]] = {}
    problems = []
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) != len(header):
            problems.append(Problem(where, f"{len(header)} fields are needed", line, None, len(row)))
            continue
        fields = dict(zip(header, row, strict=True))
        if not fields["model"]:
            problems.append(Problem(where, "a name is needed", line, "model", fields["model"]))
        values = []
        for column in numeric:
            value = _number(fields[column])
            if value is None:
                found = fields[column]
                problems.append(Problem(where, "a number of 0 or more is needed", line, column, found))
            else:
                values.append(value)
        layers.setdefault(fields["model"], []).append(values)
    if not problems and not layers:
        problems.append(Problem(where, "has no layer; a row each is needed"))
    if problems:
        raise BadInput(*problems)
    if BATCH in numeric:
        at = numeric.index(BATCH)
        what = "the samples of the iteration that was profiled are needed, from 1 on and the same in all its rows"
        batches = {name: {row[at] for row in rows} for name, rows in layers.items()}
        odd = [name for name, found in batches.items() if len(found) > 1 or min(found) < 1]
        if odd:
            raise BadInput(*(Problem(where, what, None, BATCH, name) for name in odd))
    if SCALE in numeric:
        at = numeric.index(SCALE)
        what = "a factor above 0 is needed, the same in all rows of a model"
        scales = {name: {row[at] for row in rows} for name, rows in layers.items()}
        odd = [name for name, found in scales.items() if len(found) > 1 or min(found) <= 0]
        if odd:
            raise BadInput(*(Problem(where, what, None, SCALE, name) for name in odd))
    models = {name: _model(name, numeric, values) for name, values in layers.items()}
    idle = [
        Problem(where, "takes no compute time at all; some layer needs more than 0", None, "fwd_ns", name)
        for name, model in models.items()
        if not model.messages().compute_seconds > 0.0
    ]
    if idle:
        raise BadInput(*idle)
    return models


def _rows(path: Path) -> list[list[str]]:
    try:
        rows = list(csv.reader(read_text(path).splitlines()))
    except csv.Error as error:
        raise BadInput(Problem(str(path), f"is no CSV: {error}")) from None
    if not rows:
        raise BadInput(Problem(str(path), "is empty; a header and a row a layer are needed"))
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
