"""`muster would`: when a job would start, without submitting it."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags
from muster.cli.advise import SiteCluster, SlurmSource, TwinFlags, asked_files
from muster.cli.flag_groups import takes_flag_groups
from muster.problems import ErrorCollector

if TYPE_CHECKING:
    from muster.advise.would import Shape


@dataclass(frozen=True)
class JobShapeFlags:
    """The job that is asked about."""

    gpus: Annotated[int, typer.Option(metavar="N", min=1, help="GPUs of the job; required.")]
    time_limit: Annotated[str, typer.Option(metavar="TIME", help="Time limit of the job, as 4h; required.")]
    cpus: Annotated[
        float | None, typer.Option(metavar="N", help="CPU cores of the job in all (default: any number).")
    ] = None
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory of the job in all, as 64gb (default: any).")
    ] = None
    nodes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Nodes of the job (default: as few as hold it).")
    ] = None
    user: Annotated[str, typer.Option(metavar="NAME", help="User, where priorities go by users.")] = ""
    account: Annotated[
        str, typer.Option(metavar="NAME", help="Account, where priorities go by accounts.")
    ] = ""
    partition: Annotated[str, typer.Option(metavar="NAME", help="Partition of the job.")] = ""


@takes_flag_groups()
def would(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="LOG",
            help="Output of sacct -P or --json with running and waiting jobs (default: with --from).",
        ),
    ] = None,
    cluster: SiteCluster = None,
    *,
    asked: JobShapeFlags,
    source: SlurmSource,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time since the first submission of the log (default: its end)."),
    ] = None,
    draws: Annotated[
        int, typer.Option(metavar="N", min=5, max=10_000, help="Simulations, each with other durations.")
    ] = 40,
    twin: TwinFlags,
    as_json: flags.Json = False,
) -> None:
    """Estimate when a job would start, and which smaller shape would start sooner. Nothing is submitted.

    Example: muster would sacct.txt --cluster scontrol.txt --gpus 16 --time-limit 4h
    """
    from muster.advise import read_site
    from muster.advise.would import check_shape, queue_at, would_start
    from muster.formatting import as_json_text, counted, duration
    from muster.units import seconds_of

    errors = ErrorCollector()
    shape = errors.of(_shape, asked)
    chosen = errors.of(flags.parse_settings, twin.settings or [])
    now = None if at is None else errors.of(seconds_of, "--at", at)
    errors.settle()
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        log, cluster = asked_files("muster would", source, log, cluster, Path(folder))
        site, notes = read_site(
            log, cluster, slurm_config=twin.slurm_config, settings=chosen, scheduler=twin.scheduler
        )
    for note in notes:
        print(f"{log}: {note}", file=sys.stderr)
    check_shape(site, shape)
    state = queue_at(site, now)
    shapes = [shape, *shape.smaller()]
    found = would_start(site, state, shapes, draws)
    rows = list(zip(shapes, found, strict=True))
    if as_json:
        answer = [
            {"gpus": one.gpus, "start": None if start is None else start.to_dict()} for one, start in rows
        ]
        counts = {
            "running": state.running.height,
            "waiting": state.waiting.height,
            "ended": state.ended.height,
        }
        print(as_json_text({"now_seconds": state.now, **counts, "draws": draws, "shapes": answer}), end="")
        return
    print(
        f"{counted(state.running.height, 'job')} running, {state.waiting.height:,} waiting; durations are drawn from "
        f"{counted(state.ended.height, 'job')} that ended."
    )
    print(f"{'GPUs':>6}{'starts in':>14}{'80 % of draws':>28}")
    for one, start in rows:
        if start is None:
            print(f"{one.gpus:>6}{'never':>14}")
            continue
        interval = f"{duration(start.low)} to {duration(start.high)}"
        print(f"{one.gpus:>6}{duration(start.median):>14}{interval:>28}")
    own = found[0]
    sooner = [one.gpus for one, start in rows[1:] if start and own and start.high < own.median]
    if sooner:
        print(f"With {counted(max(sooner), 'GPU')} it is likely to start sooner than with {shape.gpus}.")


def _shape(asked: JobShapeFlags) -> Shape:
    from muster.advise.would import Shape

    return Shape(
        asked.gpus,
        flags.positive_seconds_of("--time-limit", asked.time_limit),
        asked.cpus,
        None if asked.memory is None else flags.gb_of("--memory", asked.memory),
        asked.nodes,
        asked.user,
        asked.account,
        asked.partition,
    )
