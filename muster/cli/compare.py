"""`muster compare`: several schedulers on one trace, each in a process of its own."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags

if TYPE_CHECKING:
    from muster.cluster import Cluster
    from muster.simulation import Options
    from muster.speed.network.models import NetworkModel
    from muster.workload.models import Model
    from muster.workload.trace import Trace

DEFAULT_SCHEDULERS = ("fifo", "srtf", "las")
NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._+-]+")


def compare(
    trace: flags.TraceFile,
    cluster: flags.ClusterName,
    scheduler: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Once each; else fifo, srtf, las.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where all is written.")] = Path(
        "muster-comparison"
    ),
    overwrite: flags.Overwrite = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs at a time; else one a core.")
    ] = None,
    round_seconds: flags.Round = None,
    round_origin: flags.RoundOrigin = "0",
    restart_cost: flags.RestartCost = "0",
    resize_restarts: flags.ResizeRestarts = False,
    release_seconds: flags.ReleaseSeconds = "0",
    measure: flags.Measure = None,
    rules: flags.RulesName = "exact",
    knowledge: flags.Knowledge = "oracle",
    failures: flags.NodeFailures = None,
    checkpoint: flags.Checkpoint = "3600",
    network: flags.Network = "auto",
    congestion: flags.Congestion = 0.0,
    contention: flags.Contention = False,
    layers: flags.LayerFile = None,
    skip_impossible: flags.SkipImpossible = False,
    certify: flags.Certify = False,
    settings: flags.Settings = None,
    models: flags.ModelFolder = None,
    seed: flags.Seed = 0,
    as_json: flags.Json = False,
) -> None:
    """Replay a trace under several schedulers and set them side by side.

    Example: muster compare trace.csv --cluster philly --scheduler las
    """
    from muster.cli.progress import progress_bars
    from muster.cli.runs import as_json_text, known_layers, known_models
    from muster.cluster.shipped import parse_cluster
    from muster.files import write_folder_aside
    from muster.parallel import run_all
    from muster.report.page import write_report
    from muster.workload.trace import read_trace

    told = flags.Gathering()
    options = told.of(
        flags.simulation_options,
        round_seconds=round_seconds,
        round_origin=round_origin,
        restart_cost=restart_cost,
        resize_restarts=resize_restarts,
        release_seconds=release_seconds,
        measure=measure,
        rules=rules,
        knowledge=knowledge,
        failures=failures,
        checkpoint=checkpoint,
        network=network,
        congestion=congestion,
        contention=contention,
        skip_impossible=skip_impossible,
        certify=certify,
        seed=seed,
    )
    machines = told.of(parse_cluster, cluster)
    chosen = told.of(flags.parse_settings, settings or [])
    known = told.of(known_models, models)
    profiles = told.of(known_layers, layers)
    jobs = told.of(read_trace, trace, models=known)
    names = scheduler or list(DEFAULT_SCHEDULERS)
    folders = told.of(_folder_names, names)
    for name in names:
        told.of(flags.scheduler_named, name, options, chosen)
    told.settle()
    for note in jobs.notes:
        print(f"{trace}: {note}", file=sys.stderr)
    with write_folder_aside(out, overwrite=overwrite) as folder:
        works = {
            own: _Work(name, folder / own, jobs, machines, options, chosen, known, profiles)
            for name, own in zip(names, folders, strict=True)
        }
        with progress_bars(folders, len(jobs.jobs)) as show:
            summaries = list(run_all(works, workers or os.cpu_count() or 1, show).values())
        (folder / "comparison.json").write_text(as_json_text({"runs": folders}), encoding="utf-8")
        write_report(folder)
    for note in dict.fromkeys(note for summary in summaries for note in summary["notes"][len(jobs.notes) :]):
        print(note, file=sys.stderr)
    if as_json:
        print(as_json_text({"out": str(out), "runs": folders, "summaries": summaries}), end="")
        return
    from rich.console import Console

    from muster.report.terminal import comparison_table

    Console().print(comparison_table(summaries))
    print(f"The page with charts: {out / 'report.html'}")


@dataclass(frozen=True)
class _Work:
    """One run, as a process of its own carries it out."""

    scheduler: str
    folder: Path
    trace: Trace
    cluster: Cluster
    options: Options
    settings: Mapping[str, str]
    models: Mapping[str, Model]
    layers: Mapping[str, NetworkModel] | None

    def __call__(self, report: Callable[[Any], None]) -> dict[str, Any]:
        from muster.cli.runs import write_run
        from muster.simulation import simulate

        policy = flags.scheduler_named(self.scheduler, self.options, self.settings)
        run = simulate(self.trace, self.cluster, policy, self.options, report, self.models, self.layers)
        self.folder.mkdir()
        return write_run(run, self.folder)


def _folder_names(schedulers: Sequence[str]) -> list[str]:
    """A folder's name for each: the scheduler's, without the path of its file and odd characters."""
    from muster.problems import BadInput, Problem

    names = [NOT_IN_A_NAME.sub("-", name.rpartition("/")[2]).strip("-.") for name in schedulers]
    problems = [
        Problem("--scheduler", "is named twice; name each once", found=schedulers[at])
        for at, name in enumerate(names)
        if name in names[:at]
    ]
    if problems:
        raise BadInput(*problems)
    return names
