"""`muster calibrate`: how far a simulated scheduler repeats what a log records."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags
from muster.cli.flag_groups import takes_flag_groups
from muster.cli.simulation_flags import MORE_HELP, SimulationFlags, notes_of
from muster.problems import ErrorCollector, InputError, Problem

if TYPE_CHECKING:
    from muster.inputs import Inputs
    from muster.runtime.records import Record


@takes_flag_groups(more_help=MORE_HELP)
def calibrate(
    trace: flags.TraceFile,
    cluster: flags.ClusterName,
    scheduler: Annotated[
        str, typer.Option(metavar="NAME", help="Scheduler as in muster simulate, with the site's settings.")
    ] = "slurm",
    phases: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Runs with other phases of the scheduler's clocks, if it has any."
        ),
    ] = 8,
    slurm_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Output of scontrol show config, or slurm.conf, for the settings of slurm (default: Slurm's own).",
        ),
    ] = None,
    *,
    given: SimulationFlags,
    as_json: flags.Json = False,
) -> None:
    """Set a simulated scheduler beside the starts that a log records.

    Example: muster calibrate sacct.txt --cluster mycluster.toml --set bf_interval=30
    """
    from muster.cli.progress import progress_bars
    from muster.cluster.shipped import SETTINGS_LEFT_OUT
    from muster.formatting import as_json_text
    from muster.report.calibration import calibration, first_divergence, most_gpus_held
    from muster.report.recorded import has_starts, recorded
    from muster.schedulers.registry import clock_phases
    from muster.slurm_config import read_slurm_config

    errors = ErrorCollector()
    inputs = given.inputs(errors, trace, cluster)
    config = errors.of(read_slurm_config, slurm_config) if slurm_config else None
    of_file: Mapping[str, str] = {}
    if config:
        typed = inputs.settings or {}
        of_file = {key: value for key, value in config.settings.items() if key not in typed}
        inputs = replace(inputs, settings={**config.settings, **typed})
    errors.of(_check_scheduler, inputs, scheduler, slurm_config, of_file)
    errors.settle()
    for note in config.notes if config else ():
        print(f"{slurm_config}: {note}", file=sys.stderr)
    if not has_starts(inputs.trace):
        what = "no job has a start in this log; allowed: a column start_seconds, or Start in sacct"
        raise InputError(Problem(inputs.trace.source, what, column="start_seconds"))
    for note in notes_of(inputs.trace, inputs.cluster):
        if config is None or not note.endswith(SETTINGS_LEFT_OUT):
            print(note, file=sys.stderr)
    phased = [replace(inputs, settings=one) for one in clock_phases(scheduler, inputs.settings, phases)]
    names = [f"run {number} of {len(phased)}" for number in range(1, len(phased) + 1)]
    with progress_bars(names, len(inputs.trace.jobs)) as show:
        records = [
            one.run(one.scheduler(scheduler), partial(show, name)).record
            for name, one in zip(names, phased, strict=True)
        ]
    _print_notes_of_runs(inputs, records)
    runs = [record.jobs for record in records]
    log = recorded(inputs.trace, inputs.cluster, inputs.options.measure).jobs
    figures = {
        **calibration(log, runs),
        "first_divergence": first_divergence(log, runs[0]),
        "gpus": inputs.cluster.total_gpus,
        "most_gpus_held": most_gpus_held(log),
        "settings": dict(inputs.settings or {}),
    }
    if not figures["jobs"]:
        what = "no job with a start in this log starts in the simulation too: there is nothing to compare"
        raise InputError(Problem(inputs.trace.source, what))
    if as_json:
        print(as_json_text(figures), end="")
        return
    _print(scheduler, figures)
    if config:
        given_as = " ".join(f"--set {key}={value}" for key, value in inputs.settings.items())
        print(f"The same settings elsewhere: {given_as}")


def _print_notes_of_runs(inputs: Inputs, records: Sequence[Record]) -> None:
    """Print what the runs say beside the trace and the cluster, each once."""
    known = {*inputs.trace.notes, *inputs.cluster.notes}
    for note in dict.fromkeys(note for record in records for note in record.run["trace"]["notes"]):
        if note not in known:
            print(note, file=sys.stderr)


def _check_scheduler(inputs: Inputs, name: str, config: Path | None, of_file: Mapping[str, str]) -> None:
    """Refuse what the scheduler does not take; settings of the file by the flag or the name of the file."""
    from muster.schedulers.registry import takes

    try:
        inputs.scheduler(name)
    except InputError as bad:
        problems: list[Problem] = []
        unknown: list[str] = []
        for problem in bad.problems:
            keys = problem.where.removeprefix("--set ").split(", ")
            theirs = [key for key in keys if key in of_file]
            if not theirs:
                problems.append(problem)
            elif all(takes(name, key) for key in theirs):
                typed = [f"--set {key}" for key in keys if key not in theirs]
                problems.append(replace(problem, where=" and ".join([*typed, str(config)])))
            else:
                unknown += theirs
        if unknown:
            what = f"{name} has no setting {', '.join(unknown)}; add --scheduler slurm, or leave the file out"
            problems.append(Problem("--slurm-config", what, found=str(config)))
        raise InputError(*problems) from None


def _print(scheduler: str, figures: Mapping[str, Any]) -> None:
    from muster.formatting import UNKNOWN, counted, duration, gpus

    print(
        f"{counted(figures['jobs'], 'job')} with a recorded start, {counted(figures['runs'], 'run')} of {scheduler}"
    )
    _print_waits(figures)
    before, after = figures["recorded_overtakes"], figures["simulated_overtakes"]
    print(f"{'jobs that pass another':22}{before:>11.1%}{after:>11.1%}")
    deviation = duration(figures["mean_wait_deviation_seconds"])
    print(f"Standard deviation of the mean wait over the phases of the clocks: {deviation}")
    order = figures["start_order_correlation"]
    print(
        f"Start error: p50 {duration(figures['start_error_p50_seconds'])}, "
        f"p90 {duration(figures['start_error_p90_seconds'])}; "
        f"rank correlation of starts {UNKNOWN if order is None else f'{order:.3f}'}"
    )
    print(f"Jobs of the log held {figures['most_gpus_held']:,g} of {gpus(figures['gpus'])} at most.")
    first = figures["first_divergence"]
    if first is not None:
        run = "" if figures["runs"] == 1 else " of the first run"
        print(
            f"First divergence{run}: job {first['job_id']} of {gpus(first['gpus'])} waited "
            f"{duration(first['recorded_wait_seconds'])} in the log and waits "
            f"{duration(first['simulated_wait_seconds'])} here; jobs of the log held "
            f"{gpus(first['gpus_held'])} when it came, {duration(first['submit_seconds'])} after the first one."
        )


def _print_waits(figures: Mapping[str, Any]) -> None:
    """Print the waits of the log beside those of the runs, and how far apart the runs are."""
    from muster.formatting import duration

    def seconds(value: float | None) -> str:
        return "-" if value is None else duration(value)

    log, twin = figures["recorded_wait_seconds"], figures["simulated_wait_seconds"]
    several = figures["runs"] > 1
    lowest, highest = figures["lowest_wait_seconds"], figures["highest_wait_seconds"]
    names = ("recorded", "simulated", "difference", *(("lowest", "highest") if several else ()))
    print(f"{'':22}" + "".join(f"{name:>11}" for name in names))
    for name in ("mean", "p50", "p90", "p99", "max"):
        one, other = log[name], twin[name]
        change = f"{other / one - 1:+z.1%}" if one and other is not None else "-"
        ends = (seconds(lowest[name]), seconds(highest[name])) if several else ()
        cells = (seconds(one), seconds(other), change, *ends)
        print(f"{'wait ' + name:22}" + "".join(f"{cell:>11}" for cell in cells))
