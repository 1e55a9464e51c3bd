"""`muster simulate`: one scheduler on one trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import flags


def simulate(
    trace: flags.TraceFile,
    cluster: flags.ClusterName,
    scheduler: Annotated[
        str, typer.Option(metavar="NAME", help="ORDER+ALLOCATION+PLACEMENT, a preset, file.py:Class.")
    ] = "fifo",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the record is written.")] = Path(
        "muster-run"
    ),
    overwrite: flags.Overwrite = False,
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
    """Replay a trace on a cluster under one scheduler.

    Example: muster simulate trace.csv --cluster 16x8gpu --scheduler las
    """
    from muster.cli.progress import progress_bars
    from muster.cli.runs import as_json_text, known_layers, known_models, write_run
    from muster.cluster.shipped import parse_cluster
    from muster.files import write_folder_aside
    from muster.simulation import simulate as run_simulation
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
    policy = told.of(flags.scheduler_named, scheduler, options, chosen)
    told.settle()
    for note in jobs.notes:
        print(f"{trace}: {note}", file=sys.stderr)
    with write_folder_aside(out, overwrite=overwrite) as folder:
        with progress_bars([policy.name], len(jobs.jobs)) as show:
            run = run_simulation(
                jobs, machines, policy, options, lambda progress: show(policy.name, progress), known, profiles
            )
        summary = write_run(run, folder)
    for note in summary["notes"][len(jobs.notes) :]:
        print(note, file=sys.stderr)
    if as_json:
        print(as_json_text({"out": str(out), "summary": summary}), end="")
        return
    from rich.console import Console

    from muster.report.terminal import comparison_table

    Console().print(comparison_table([summary]))
    print(f"The record is in {out}; a page with charts: muster report {out}")
