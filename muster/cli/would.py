"""`muster would`: when a job would start, without submitting it: in a log of Slurm, or in the running service."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags
from muster.cli.advise import SiteCluster, SlurmSource, TwinFlags, asked_files
from muster.cli.flag_groups import takes_flag_groups
from muster.problems import ErrorCollector, InputError, Problem

if TYPE_CHECKING:
    from muster.advise.would import Shape


@dataclass(frozen=True)
class JobShapeFlags:
    """The job that is asked about."""

    gpus: Annotated[int, typer.Option(metavar="N", min=1, help="GPUs of the job.")]
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Time limit of the job, as 4h; required with a log (default: none)."
        ),
    ] = None
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
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Profiled model of the job, without a log only (default: none)."),
    ] = None


@takes_flag_groups()
def would(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="LOG",
            help="Output of sacct -P or --json with running and waiting jobs (default: with --from, else "
            "the running daemon is asked).",
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
        int | None,
        typer.Option(
            metavar="N",
            min=5,
            max=10_000,
            help="Simulations, each with other durations (default: 40, or at least 9 where 40 take the daemon more "
            "than 10 s).",
        ),
    ] = None,
    twin: TwinFlags,
    as_json: flags.Json = False,
) -> None:
    """Estimate when a job would start, and which smaller shape would start sooner. Nothing is submitted.

    Without a log the running daemon is asked, for the account or token of its caller.

    Example: muster would --gpus 16 --time-limit 4h
    """
    from muster.advise import read_site
    from muster.advise.would import check_shape, in_default_partition, queue_at, without_away, would_start
    from muster.cli.progress import noted_if_slow
    from muster.formatting import counted
    from muster.simulation.start_estimates import DRAWS
    from muster.units import seconds_of

    live = log is None and source.source is None and cluster is None
    if problems := list(_of_the_other_form(asked, at, twin, live=live)):
        raise InputError(*problems)
    errors = ErrorCollector()
    errors.of(source.check)
    if live:
        request = errors.of(_request, asked)
        errors.settle()
        _ask_live(request, draws, as_json=as_json)
        return
    shape = errors.of(_shape, asked)
    chosen = errors.of(flags.parse_settings, twin.settings or [])
    now = None if at is None else errors.of(seconds_of, "--at", at)
    errors.settle()
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        log, cluster = asked_files("muster would", source, log, cluster, Path(folder))
        site, notes = read_site(
            log, cluster, slurm_config=twin.slurm_config, settings=chosen, scheduler=twin.scheduler
        )
    for source_file, note in notes:
        print(f"{source_file}: {note}", file=sys.stderr)
    shape, asked_partition = in_default_partition(site, shape), shape.partition
    if shape.partition != asked_partition:
        print(f"--partition: {shape.partition}, the default of Slurm", file=sys.stderr)
    check_shape(site, shape)
    if now is None and site.away:
        print(f"{cluster}: nothing starts on {', '.join(sorted(site.away))}", file=sys.stderr)
        site = without_away(site)
    state, draws = queue_at(site, now), DRAWS if draws is None else draws
    shapes = [shape, *shape.smaller()]
    with noted_if_slow(
        f"The log's queue is simulated {draws:,} times for each of {counted(len(shapes), 'shape')}"
    ):
        found = would_start(site, state, shapes, draws)
    answer: dict[str, Any] = {
        "now_seconds": state.now,
        "running": state.running.height,
        "waiting": state.waiting.height,
        "ended": state.ended.height,
        "draws": draws,
        "shapes": [
            {"gpus": one.gpus, "start": None if start is None else start.to_dict()}
            for one, start in zip(shapes, found, strict=True)
        ],
    }
    _show(answer, as_json=as_json)


def _ask_live(request: Mapping[str, Any], draws: int | None, *, as_json: bool) -> None:
    from muster.cli.starts import would_start_live

    _show(would_start_live(request, draws), as_json=as_json)


def _show(answer: Mapping[str, Any], *, as_json: bool) -> None:
    from muster.cli.starts import basis_of, print_shapes
    from muster.formatting import as_json_text

    if as_json:
        print(as_json_text(answer), end="")
        return
    print(basis_of(answer))
    print_shapes([(one["gpus"], one["start"]) for one in answer["shapes"]])


def _of_the_other_form(
    asked: JobShapeFlags, at: str | None, twin: TwinFlags, *, live: bool
) -> Iterator[Problem]:
    """The flags that have no effect on this form of the question."""
    if not live:
        if asked.time_limit is None:
            yield Problem("--time-limit", "a log needs it, as durations are shares of time limits")
        if asked.model is not None:
            yield Problem(
                "--model", "allowed without a log only: the running daemon knows it", found=asked.model
            )
        return
    what = "allowed with a log only; without one the running daemon is asked, for its caller"
    of_a_log = {
        "--nodes": asked.nodes,
        "--user": asked.user or None,
        "--partition": asked.partition or None,
        "--at": at,
        "--slurm-config": twin.slurm_config,
        "--scheduler": None if twin.scheduler == TwinFlags.scheduler else twin.scheduler,
        "--set": ",".join(twin.settings) if twin.settings else None,
    }
    yield from (Problem(flag, what, found=value) for flag, value in of_a_log.items() if value is not None)


def _request(asked: JobShapeFlags) -> dict[str, Any]:
    """As the daemon takes it."""
    limit, memory = asked.time_limit, asked.memory
    stated = {
        "gpus": asked.gpus,
        "cpus": asked.cpus,
        "memory_gb": None if memory is None else flags.gb_of("--memory", memory),
        "time_limit_seconds": None if limit is None else flags.positive_seconds_of("--time-limit", limit),
        "model": asked.model,
        "tenant": asked.account or None,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _shape(asked: JobShapeFlags) -> Shape:
    from muster.advise.would import Shape

    return Shape(
        asked.gpus,
        flags.positive_seconds_of("--time-limit", asked.time_limit or ""),
        asked.cpus,
        None if asked.memory is None else flags.gb_of("--memory", asked.memory),
        asked.nodes,
        asked.user,
        asked.account,
        asked.partition,
    )
