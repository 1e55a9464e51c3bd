"""The results of a sweep in its folder: tables for programs, a page for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import muster
from muster import formatting
from muster.files import write_aside, write_parquet
from muster.sweep.grid import Point
from muster.sweep.page import write_sections
from muster.sweep.results import Mean, as_json, as_rows, cells_frame, means_of
from muster.sweep.show import sections_of


def write_results(
    folder: Path, points: Sequence[Point], summaries: Sequence[Mapping[str, Any]], title: str, command: str
) -> list[Mean]:
    """Write `cells.parquet`, `cells.csv`, `means.csv`, `sweep.json` and the page; the means."""
    cells = cells_frame(points, summaries)
    means = means_of(cells)
    with write_aside(folder / "cells.parquet") as aside:
        write_parquet(cells, aside)
    with write_aside(folder / "cells.csv") as aside:
        cells.write_csv(aside)
    with write_aside(folder / "means.csv") as aside:
        pl.DataFrame(as_rows(means), infer_schema_length=None).write_csv(aside)
    content = {
        "title": title,
        "muster_version": muster.__version__,
        "first_scheduler": points[0].scheduler,
        "cells": len(points),
        "means": as_json(means),
    }
    with write_aside(folder / "sweep.json") as aside:
        aside.write_text(
            json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )
    counts = {
        "simulation": len(points),
        "setting": len({point.setting for point in points}),
        "scheduler": len({point.scheduler for point in points}),
        "seed": len({point.seed for point in points}),
    }
    headline = [formatting.counted(count, name) for name, count in counts.items()]
    write_sections(folder, title, headline, sections_of(means), command)
    return means
