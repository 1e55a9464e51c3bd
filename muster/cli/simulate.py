"""`muster simulate`: one scheduler on one trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import flags
from muster.cli.console import as_wide_as_terminal
from muster.cli.flag_groups import takes_flag_groups
from muster.cli.simulation_flags import MORE_HELP, CertifiedFlags, print_notes
from muster.problems import ErrorCollector
from muster.schedulers.presets import DEFAULT_SCHEDULER


@takes_flag_groups(more_help=MORE_HELP)
def simulate(
    trace: flags.TraceFile,
    cluster: flags.ClusterName,
    scheduler: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Scheduler: parts (las+tune), a preset (dally) or a class (file.py:Class)."
        ),
    ] = DEFAULT_SCHEDULER,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the record of the run.")] = Path(
        "muster-run"
    ),
    overwrite: flags.Overwrite = False,
    snapshot_at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Write the whole input of the first decision from this time on, as 36h, into snapshot.json "
            "(default: none).",
        ),
    ] = None,
    *,
    given: CertifiedFlags,
    as_json: flags.Json = False,
) -> None:
    """Replay a trace on a cluster under one scheduler.

    Example: muster simulate trace.csv --cluster 16x8gpu --scheduler las
    """
    from muster.api import Result
    from muster.cli.progress import progress_bars
    from muster.files import write_folder_aside
    from muster.folder_layouts import RECORD
    from muster.formatting import as_json_text
    from muster.units import seconds_of

    errors = ErrorCollector()
    inputs = given.inputs(errors, trace, cluster)
    policy = errors.of(inputs.scheduler, scheduler)
    moment = None if snapshot_at is None else errors.of(seconds_of, "--snapshot-at", snapshot_at)
    errors.settle()
    if moment is not None:
        from muster.runtime.snapshots.taking import SnapshotTaker

        policy = taker = SnapshotTaker(policy, moment)
    print_notes(inputs.trace)
    with write_folder_aside(out, RECORD if overwrite else None) as folder:
        with progress_bars([policy.name], len(inputs.trace.jobs)) as show:
            result = Result.of(inputs.run(policy, lambda progress: show(policy.name, progress)))
        if moment is not None:
            taker.write(folder / "snapshot.json")
        result.write(folder)
    summary = result.summary
    for note in summary["notes"][len(inputs.trace.notes) :]:
        print(note, file=sys.stderr)
    if as_json:
        print(as_json_text({"out": str(out), "summary": summary}), end="")
        return
    from rich.console import Console

    from muster.report.terminal import comparison_table

    console = as_wide_as_terminal(Console())
    console.print(comparison_table([summary], console.width))
    print(f"The record is in {out}; a page with charts: muster report {out}")
    if moment is not None:
        print(f"Decide it again: muster replay {out / 'snapshot.json'}")
