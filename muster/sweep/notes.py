"""Notes of a sweep: each once, with the schedulers that it is about and the first trace that has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.report.run_notes import notes_by_run
from muster.sweep.grid import Point


def notes_of_sweep(points: Sequence[Point], summaries: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return each note of the runs with the first trace that has it; one about some schedulers names them."""
    said: dict[str, dict[str, list[str]]] = {}
    for point, summary in zip(points, summaries, strict=True):
        said.setdefault(summary["trace"], {}).setdefault(point.scheduler, []).extend(summary["notes"])
    first: dict[str, str] = {}
    for trace, of_scheduler in said.items():
        for note in notes_by_run(list(of_scheduler), of_scheduler.values()):
            first.setdefault(note, trace)
    return first
