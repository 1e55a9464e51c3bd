"""`muster compare`: several schedulers on one trace, each in a process of its own."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags
from muster.cli.console import as_wide_as_terminal
from muster.cli.flag_groups import takes_flag_groups
from muster.cli.simulation_flags import MORE_HELP, CertifiedFlags, print_notes
from muster.problems import ErrorCollector, InputError, Problem
from muster.schedulers.presets import DEFAULT_SCHEDULER

if TYPE_CHECKING:
    from muster.inputs import Inputs
    from muster.schedulers.contract import Scheduler

COMPARED_BY_DEFAULT = ("slurm-like", "fifo", "las", DEFAULT_SCHEDULER)
NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._+-]+")


@takes_flag_groups(more_help=MORE_HELP)
def compare(
    trace: flags.TraceFile,
    cluster: flags.Clusters,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Scheduler as in muster simulate; repeatable (default: slurm-like, fifo, las "
            "and the default scheduler).",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the records of all runs and the page.")
    ] = Path("muster-comparison"),
    overwrite: flags.Overwrite = False,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of runs at a time (default: one for each CPU core)."),
    ] = None,
    *,
    given: CertifiedFlags,
    as_json: flags.Json = False,
) -> None:
    """Replay a trace under several schedulers, on one or several clusters, side by side.

    Example: muster compare trace.csv --cluster philly --scheduler las
    """
    from muster.cli.progress import DRAWING, progress_bars, spinner
    from muster.extras import CHARTS, missing_extra
    from muster.files import write_folder_aside
    from muster.folder_layouts import COMPARISON
    from muster.formatting import as_json_text
    from muster.parallel import run_all
    from muster.report.comparison import write_comparison
    from muster.report.run_notes import notes_by_run

    errors = ErrorCollector()
    first, *more = cluster
    with spinner(f"Reading {trace}"):
        inputs = given.inputs(errors, trace, first)
    on_clusters = [inputs, *(inputs.on(errors, name) for name in more)]
    names = scheduler or list(COMPARED_BY_DEFAULT)
    own_names = errors.of(_folder_names, names)
    built = [errors.of(inputs.with_settings_of(name, names).scheduler, name) for name in names]
    errors.settle()
    _refuse_same_names(names, built)
    _say_whose(inputs, names)
    clusters = _cluster_names(on_clusters)
    print_notes(inputs.trace)
    with write_folder_aside(out, COMPARISON if overwrite else None) as folder:
        works = {
            f"{own}{suffix}": _Work(name, folder / f"{own}{suffix}", one.with_settings_of(name, names))
            for one, suffix in zip(on_clusters, clusters, strict=True)
            for name, own in zip(names, own_names, strict=True)
        }
        folders = list(works)
        with progress_bars(folders, len(inputs.trace.jobs)) as show:
            summaries = list(run_all(works, workers or os.cpu_count() or 1, show).values())
        history = _write_history(folder, inputs, folders)
        rows = {**history, **dict(zip(folders, summaries, strict=True))}
        write_comparison(folder, folders, rows, history)
        if missing := missing_extra(CHARTS):
            print(f"no page with charts: {missing}", file=sys.stderr)
        else:
            from muster.inputs import knowledge_of
            from muster.report.page import write_report

            with spinner(DRAWING):
                write_report(folder, knowledge_of=knowledge_of)
    own_notes = [summary["notes"][len(inputs.trace.notes) :] for summary in summaries]
    for note in notes_by_run(folders, own_notes):
        print(note, file=sys.stderr)
    if as_json:
        content = as_json_text({"out": str(out), "runs": folders, "summaries": summaries, **history})
        print(content, end="")
        return
    from rich.console import Console

    from muster.report.terminal import comparison_table

    console = as_wide_as_terminal(Console())
    console.print(comparison_table(summaries, console.width, history))
    if not missing:
        print(f"The page with charts: {out / 'report.html'}")


def _refuse_same_names(names: Sequence[str], built: Sequence[Scheduler]) -> None:
    """Refuse schedulers that tables and charts would show by the same name."""
    first = {made.name: name for name, made in reversed(list(zip(names, built, strict=True)))}
    problems = [
        Problem(
            "--scheduler",
            f"it is called {made.name}, as {first[made.name]} is; name each once, and give classes of your own "
            "different names",
            found=name,
        )
        for name, made in zip(names, built, strict=True)
        if first[made.name] != name
    ]
    if problems:
        raise InputError(*problems)


def _write_history(folder: Path, inputs: Inputs, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the log records, as a run of its own in the folder; its summary by its name, nothing without starts.

    Jobs that all runs of the folder leave out are left out of it too.
    """
    from muster.formatting import as_json_text
    from muster.report.recorded import RECORDED, has_starts, recorded, refused_by_all, summary_of

    if not has_starts(inputs.trace):
        return {}
    left_out = refused_by_all(folder / run for run in runs) if inputs.options.skip_impossible else ()
    record = recorded(inputs.trace, inputs.cluster, inputs.options.measure, left_out)
    summary = summary_of(record)
    (folder / RECORDED).mkdir()
    record.write(folder / RECORDED)
    (folder / RECORDED / "summary.json").write_text(as_json_text(summary), encoding="utf-8")
    return {RECORDED: summary}


def _say_whose(inputs: Inputs, names: Sequence[str]) -> None:
    """Print on stderr which settings are of some of the schedulers alone."""
    kept = {name: inputs.with_settings_of(name, names).settings for name in names}
    for key in inputs.settings:
        those = [name for name in names if key in kept[name]]
        if len(those) < len(names):
            print(f"--set {key}: of {' and '.join(those)} alone", file=sys.stderr)


@dataclass(frozen=True)
class _Work:
    """One run, as a process of its own carries it out."""

    scheduler: str
    folder: Path
    inputs: Inputs

    def __call__(self, report: Callable[[Any], None]) -> dict[str, Any]:
        from muster.api import Result

        result = Result.of(self.inputs.run(self.inputs.scheduler(self.scheduler), report))
        self.folder.mkdir()
        result.write(self.folder)
        return dict(result.summary)


def _cluster_names(on_clusters: Sequence[Inputs]) -> list[str]:
    """What a folder's name says of each cluster; nothing where there is only one."""
    names = [NOT_IN_A_NAME.sub("-", one.cluster.name).strip("-.") for one in on_clusters]
    problems = [
        Problem(
            "--cluster",
            "another cluster has the same name; give each once",
            found=on_clusters[at].cluster.name,
        )
        for at, name in enumerate(names)
        if name in names[:at]
    ]
    if problems:
        raise InputError(*problems)
    return [f"-on-{name}" for name in names] if len(names) > 1 else [""]


def _folder_names(schedulers: Sequence[str]) -> list[str]:
    """A folder's name for each: the scheduler's, without the path of its file and odd characters."""
    names = [NOT_IN_A_NAME.sub("-", name.rpartition("/")[2]).strip("-.") for name in schedulers]
    problems = [
        Problem("--scheduler", "is named twice; name each once", found=schedulers[at])
        for at, name in enumerate(names)
        if name in names[:at]
    ]
    if problems:
        raise InputError(*problems)
    return names
