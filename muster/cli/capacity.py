"""`muster capacity`: how many more nodes a target takes."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags
from muster.cli.flag_groups import takes_flag_groups
from muster.cli.simulation_flags import MORE_HELP, SimulationFlags, notes_of, print_notes
from muster.problems import ErrorCollector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.sweep.capacity import CapacityPoint, Target

_HEADER = ("more nodes", "GPUs", "figure", "±", "meets")


@dataclass(frozen=True)
class CapacityQuestion:
    """What is asked of the curve."""

    add: Annotated[
        str,
        typer.Option(
            metavar="NODES",
            help="Nodes to add, as 'h100 nodes 0..16 step 2', with 'in NAME' for a partition; a type of the cluster "
            "or 1x8h100,96cpu,1tb.",
        ),
    ]
    target: Annotated[
        str,
        typer.Option(metavar="TARGET", help="Figure and its bound, as 'p90 wait < 1h' or 'mean jct < 2h'."),
    ]


@takes_flag_groups(more_help=MORE_HELP)
def capacity(
    trace: flags.TraceFile,
    cluster: flags.ClusterName,
    *,
    asked: CapacityQuestion,
    scheduler: Annotated[
        str, typer.Option(metavar="NAME", help="Scheduler as in muster simulate.")
    ] = "slurm",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the curve and the page.")] = Path(
        "muster-capacity"
    ),
    overwrite: flags.Overwrite = False,
    given: SimulationFlags,
    as_json: flags.Json = False,
) -> None:
    """Find the least number of more nodes that meets a target.

    Example: muster capacity log.csv --cluster now.toml --add 'h100 nodes 0..16 step 2' --target 'p90 wait < 1h'
    """
    from muster.cli.progress import DRAWING, noted_if_slow, progress_bars, spinner
    from muster.extras import CHARTS, missing_extra
    from muster.files import write_folder_aside
    from muster.folder_layouts import CAPACITY
    from muster.formatting import as_json_text, command_lines, counted
    from muster.sweep.capacity import (
        as_dict,
        curve_of,
        parse_added,
        parse_target,
        run_batches,
        runs_of,
        write_curve,
    )

    errors = ErrorCollector()
    inputs = given.inputs(errors, trace, cluster)
    bound = errors.of(parse_target, asked.target)
    errors.of(inputs.scheduler, scheduler)
    errors.settle()
    added = parse_added(asked.add, inputs.cluster)
    print_notes(inputs.trace, inputs.cluster)
    runs = runs_of(inputs, scheduler, added, bound)
    with write_folder_aside(out, CAPACITY if overwrite else None) as folder:
        jobs = len(inputs.trace.jobs)
        what = f"Simulating {counted(jobs, 'job')} {counted(len(runs), 'time')}"
        # On a terminal the bars say it.
        with (
            nullcontext() if sys.stderr.isatty() else noted_if_slow(what),
            progress_bars(list(runs), jobs) as show,
        ):
            results = run_batches(runs, os.cpu_count() or 1, show)
        points = curve_of(results, inputs, added, bound)
        notes = list(dict.fromkeys(note for result in results.values() for note in result.notes))
        answer = {"scheduler": scheduler, **as_dict(points, added, bound)}
        write_curve(folder, answer)
        if missing := missing_extra(CHARTS):
            print(f"no page with charts: {missing}", file=sys.stderr)
        else:
            from muster.sweep.capacity_page import write_capacity_page

            title = f"{inputs.trace.source} on {inputs.cluster.name}, {scheduler}"
            typed = [
                ("--cluster", cluster),
                ("--add", asked.add),
                ("--target", asked.target),
                ("--scheduler", scheduler),
                *given.typed(),
                ("--out", str(out)),
            ]
            command = command_lines("capacity", str(trace), typed)
            with spinner(DRAWING):
                known = notes_of(inputs.trace, inputs.cluster)
                write_capacity_page(folder, points, added, bound, title, command, [*known, *notes])
    for note in notes:
        print(note, file=sys.stderr)
    if as_json:
        print(as_json_text(answer), end="")
        return
    _print(points, bound)
    print(answer["answer"])
    if not missing:
        print(f"The page with the curve: {out / 'report.html'}")


def _print(points: Sequence[CapacityPoint], target: Target) -> None:
    from muster.sweep.capacity import rows_of

    lacking = "not in the figure" if any(point.missing for point in points) else ""
    header = (*_HEADER[:2], target.figure, *_HEADER[3:], lacking)
    for *cells, missing in (header, *rows_of(points)):
        print(("".join(f"{cell:>12}" for cell in cells) + f"  {missing}").rstrip())
