"""Runs the cases one after the other, each in a fresh process on one thread, and prints the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.cases import CASES

PICTURE = Path("docs/pictures/scaling.svg")
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}


def timed(name: str) -> dict[str, Any]:
    """The figures of one case."""
    command = [sys.executable, "-m", "benchmarks.one", name]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def scaling_chart(rows: list[dict[str, Any]]) -> alt.LayerChart:
    """CPU seconds over jobs, log-log, with n log n through the first point for comparison."""
    data = pl.DataFrame(rows).with_columns(
        pl.col("case").str.extract(r"scaling-(\w+)-").alias("scheduler"),
    )
    base = alt.Chart(data).encode(
        x=alt.X("jobs:Q", scale=alt.Scale(type="log"), title="Jobs"),
        y=alt.Y("cpu_seconds:Q", scale=alt.Scale(type="log"), title="CPU seconds"),
        color=alt.Color("scheduler:N", title=None),
    )
    lines: alt.LayerChart = base.mark_line() + base.mark_point(filled=True)
    return lines.properties(width=420, height=280)


def main() -> None:
    """All cases, or those whose names begin with one of the arguments."""
    wanted = tuple(sys.argv[1:]) or ("",)
    console = Console()
    table = Table("case", "goal", "jobs", "CPU s", "jobs / CPU s", "peak MB", "decision, us")
    rows = []
    for case in CASES:
        if not case.name.startswith(wanted):
            continue
        row = timed(case.name)
        rows.append(row)
        cells = (row["jobs"], row["cpu_seconds"], row["jobs_per_cpu_second"], row["peak_memory_mb"])
        jobs, cpu, rate, memory = cells
        decision = row["decision_microseconds"]
        table.add_row(
            case.name,
            case.goal,
            f"{jobs:,}",
            f"{cpu:.2f}",
            f"{rate:,.0f}",
            f"{memory:,.0f}",
            f"{decision:,.1f}",
        )
        console.print(f"{case.name}: {cpu:.2f} CPU s")
    console.print(table)
    scaling = [row for row in rows if row["case"].startswith("scaling-")]
    if scaling:
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        scaling_chart(scaling).save(str(PICTURE))
        console.print(f"chart: {PICTURE}")


if __name__ == "__main__":
    main()
