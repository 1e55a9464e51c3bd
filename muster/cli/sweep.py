"""`muster sweep`: all combinations of loads, splits, seeds, schedulers, clusters, options."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags
from muster.cli.console import as_wide_as_terminal

if TYPE_CHECKING:
    from muster.sweep.on_ray import RayTasks
    from muster.sweep.on_slurm import SlurmTasks

_RAY, _SLURM = "ray", "slurm"


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
    where: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="CLUSTER",
            help="Where to run: ray is the cluster at --address, slurm a job array in --partition "
            "(default: this machine).",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Head of the Ray cluster (default: none; required with --on ray)."
        ),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Partition of Slurm (default: none; required with --on slurm)."),
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
    from muster.cli.progress import DRAWING, spinner
    from muster.formatting import as_json_text
    from muster.sweep.grid import points_of
    from muster.sweep.notes import notes_of_sweep
    from muster.sweep.sweep_file import read_sweep_file

    content = read_sweep_file(file, columns)
    points = points_of(content)
    cells = [point.cell for point in points]
    if where is None and address is None and partition is None:
        summaries = run_kept(cells, out, workers or os.cpu_count() or 1)
    else:
        with closing(_tasks(where, address, partition)) as tasks:
            summaries = run_kept(cells, out, workers or tasks.cpus, tasks.run)
    from muster.sweep.results import as_json as means_as_json
    from muster.sweep.write import write_results

    mapped = ["--map", columns] if columns else []
    command = shlex.join(["muster", "sweep", str(file), *mapped, "--out", str(out)])
    with spinner(DRAWING):
        means = write_results(out, points, summaries, content.title or file.stem, command)
    for note, trace in notes_of_sweep(points, summaries).items():
        print(f"{trace}: {note}", file=sys.stderr)
    if as_json:
        print(as_json_text({"out": str(out), "cells": len(points), "means": means_as_json(means)}), end="")
        return
    from rich.console import Console

    from muster.sweep.show import not_completed, terminal_tables

    for table in terminal_tables(means):
        as_wide_as_terminal(Console()).print(table)
    for note in not_completed(means):
        print(note)
    print(f"The page with charts: {out / 'report.html'}")


def _tasks(where: str | None, address: str | None, partition: str | None) -> RayTasks | SlurmTasks:
    """Connect to where the runs are to be. InputError if the flags do not name one place."""
    from muster.problems import InputError, Problem

    if where not in (_RAY, _SLURM):
        raise InputError(Problem("--on", f"allowed: {_RAY}, {_SLURM}", found=where))
    if where == _RAY:
        if partition is not None:
            raise InputError(Problem("--partition", f"allowed with --on {_SLURM} only", found=partition))
        from muster.sweep.on_ray import RayTasks

        return RayTasks(address)
    if address is not None:
        raise InputError(Problem("--address", f"allowed with --on {_RAY} only", found=address))
    from muster.sweep.on_slurm import SlurmTasks

    return SlurmTasks(partition)
