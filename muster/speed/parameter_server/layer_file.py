"""Profiled layers from a CSV file: a row a layer, from the input on.

Columns: model, layer_index, fwd_ns, input_grad_ns, weight_grad_ns, allreduce_bytes; and source_file, whose
name may say the batch that was profiled (`_B512`). Other columns are not read.
"""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path

from muster.files import read_text
from muster.problems import BadInput, Problem
from muster.speed.parameter_server.layers import Layers

_NUMBERS = ("layer_index", "fwd_ns", "input_grad_ns", "weight_grad_ns", "allreduce_bytes")
_BATCH_IN_NAME = re.compile(r"_B(\d+)(?:_|\.|$)")


def read_layers(path: Path, model: str, profiled_batch: int | None = None) -> Layers:
    """The layers of `model`; `profiled_batch` (samples) wins over what the source file's name says."""
    where = str(path)
    rows = csv.DictReader(io.StringIO(read_text(path)))
    header = rows.fieldnames or []
    missing = [
        Problem(where, "there is no such column", row=1, column=column)
        for column in ("model", *_NUMBERS)
        if column not in header
    ]
    if missing:
        raise BadInput(*missing)

    problems: list[Problem] = []
    layers: list[tuple[float, ...]] = []
    batches: set[int] = set()
    models: dict[str, None] = {}
    for row in rows:
        name = (row["model"] or "").strip()
        models[name] = None
        if name.lower() != model.lower():
            continue
        layers.append(_numbers(where, rows.line_num, row, problems))
        said = _BATCH_IN_NAME.search(row.get("source_file") or "")
        batches.update([int(said[1])] if said else [])
    if not models:
        problems.append(Problem(where, "there is no layer; a model needs at least one"))
    elif not layers:
        problems.append(Problem(where, f"there is no such model; it holds {', '.join(models)}", found=model))
    elif profiled_batch is None and len(batches) != 1:
        what = f"the profiled batch of {model} is not told by source_file (`_B512`); say it (--profile-batch)"
        problems.append(Problem(where, what, column="source_file", found=sorted(batches) or None))
    batch = next(iter(batches), 0) if profiled_batch is None else profiled_batch
    if batch < 1 and not problems:
        problems.append(Problem(where, "the profiled batch must be from 1 on", found=batch))
    if problems:
        raise BadInput(*problems)

    _, forward, input_gradient, weight_gradient, gradient = zip(*sorted(layers), strict=True)
    return Layers.checked(
        [nanoseconds * 1e-9 / batch for nanoseconds in forward],
        [(i + w) * 1e-9 for i, w in zip(input_gradient, weight_gradient, strict=True)],
        [number_of_bytes / 1e9 for number_of_bytes in gradient],
        where=where,
    )


def _numbers(where: str, line: int, row: dict[str, str], problems: list[Problem]) -> tuple[float, ...]:
    """The numbers of one row; each that is none is added to the problems."""
    numbers = []
    for column in _NUMBERS:
        cell = row[column]
        try:
            number = float(cell)
        except (TypeError, ValueError):
            number = math.nan
        if not (math.isfinite(number) and number >= 0):
            problems.append(Problem(where, "a number from 0 on is needed", line, column, cell))
        numbers.append(number)
    return tuple(numbers)
