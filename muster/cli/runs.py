"""What `simulate` and `compare` share: the inputs of a run, and its record with summary in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.simulation import Run
    from muster.speed.network.models import NetworkModel
    from muster.workload.models import Model


def known_models(folder: Path | None) -> Mapping[str, Model]:
    """The shipped models, and over them those of a folder."""
    from muster.workload.models import read_models, shipped_models

    return {**shipped_models(), **(read_models(folder) if folder else {})}


def known_layers(file: Path | None) -> Mapping[str, NetworkModel] | None:
    """The layer profiles of a file, for models that the shipped network models do not know."""
    from muster.speed.network.layers import read_layers

    return read_layers(file) if file else None


def write_run(run: Run, folder: Path) -> dict[str, Any]:
    """Writes the record and `summary.json` into an existing folder; the summary."""
    from muster.report import summarise

    summary = summarise(run.record, asdict(run.cost))
    run.record.write(folder)
    (folder / "summary.json").write_text(as_json_text(summary), encoding="utf-8")
    return summary


def as_json_text(value: object) -> str:
    """JSON as it is printed and written."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
