"""`muster sweep`: all combinations of loads, splits, seeds, schedulers, clusters, options."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import flags


def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Sweep file; docs/how-to/sweep.md describes it.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the results; finished runs in it are kept.")
    ] = Path("muster-sweep"),
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of runs at a time (default: one for each CPU core)."),
    ] = None,
    columns: flags.Columns = None,
    as_json: flags.Json = False,
) -> None:
    """Run many simulations and set their means side by side.

    It may be stopped at any moment: the same command goes on where it was.

    Example: muster sweep sweep.toml --out loads
    """
    from muster.extras import CHARTS, require

    require(CHARTS)
    from muster.cli.kept_runs import run_kept
    from muster.formatting import as_json_text
    from muster.sweep.grid import points_of
    from muster.sweep.sweep_file import read_sweep_file

    content = read_sweep_file(file, columns)
    points = points_of(content)
    summaries = run_kept([point.cell for point in points], out, workers or os.cpu_count() or 1)
    from muster.sweep.write import write_results

    mapped = ["--map", columns] if columns else []
    command = shlex.join(["muster", "sweep", str(file), *mapped, "--out", str(out)])
    means = write_results(out, points, summaries, content.title or file.stem, command)
    if as_json:
        print(as_json_text({"out": str(out), "cells": len(points)}), end="")
        return
    from rich.console import Console

    from muster.sweep.show import terminal_tables

    for table in terminal_tables(means):
        Console().print(table)
    print(f"The page with charts: {out / 'report.html'}")
