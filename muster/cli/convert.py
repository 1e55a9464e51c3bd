"""`muster convert`: other systems' traces, and lists of nodes, into Muster's files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import flags
from muster.problems import InputError, Problem


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Trace of any known form, or openb's list of nodes.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write: .csv or .parquet for a trace, .toml for a list of nodes.",
        ),
    ],
    kind: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="KIND",
            help="Form of the input: auto, native, philly, helios, openb, acme, pai, spot-gpu, gpu-2026, swf, sacct "
            "or csv.",
        ),
    ] = "auto",
    columns: flags.Columns = None,
    overwrite: flags.Overwrite = False,
    as_json: flags.Json = False,
) -> None:
    """Convert a trace of another system into a native one, and report what was cleaned.

    Example: muster convert jobs.csv -o trace.csv --map submit=at,duration=run
    """
    from muster.cli.outputs import check_other_file, check_output
    from muster.cli.progress import spinner
    from muster.formatting import as_json_text, counted
    from muster.workload.trace import read_trace, trace_writer
    from muster.workload.traces.mapped import parse_mapping

    check_other_file(output, source, "this is the file that is converted, of which only a part is kept")
    check_output(output, overwrite=overwrite)
    if output.suffix == ".toml":
        _check_nodes(kind, columns)
        _convert_nodes(source, output, as_json=as_json)
        return
    with trace_writer(output) as write, spinner(f"Converting {source}"):
        trace = read_trace(source, kind, parse_mapping(columns) if columns is not None else None)
        write(trace)
    notes = list(trace.notes)
    if trace.other_columns:
        notes.append(f"kept columns that are not Muster's own: {', '.join(trace.other_columns)}")
    if as_json:
        print(as_json_text({"output": str(output), "jobs": len(trace.jobs), "notes": notes}), end="")
        return
    for note in notes:
        print(f"{source}: {note}", file=sys.stderr)
    print(f"{counted(len(trace.jobs), 'job')} in {output}")


def _check_nodes(kind: str, columns: str | None) -> None:
    """Refuse what says how jobs are read."""
    problems = []
    if kind not in ("auto", "openb"):
        what = "a list of nodes is read as openb's; allowed: auto or openb"
        problems.append(Problem("--from", what, found=kind))
    if columns is not None:
        problems.append(
            Problem("--map", "columns are those of jobs; a list of nodes has none", found=columns)
        )
    if problems:
        raise InputError(*problems)


def _convert_nodes(source: Path, output: Path, *, as_json: bool) -> None:
    from muster.cluster.cluster_file import write_cluster_file
    from muster.formatting import as_json_text, counted
    from muster.workload.traces.openb_nodes import read_nodes

    cluster = read_nodes(source)
    write_cluster_file(cluster, output)
    if as_json:
        content = {"output": str(output), "nodes": len(cluster.nodes), "gpus": cluster.total_gpus}
        print(as_json_text(content), end="")
    else:
        print(f"{counted(len(cluster.nodes), 'node')} with {counted(cluster.total_gpus, 'GPU')} in {output}")
