"""`muster serve`: the daemon that runs jobs on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags
from muster.problems import BadInput, Problem
from muster.schedulers.presets import DEFAULT_SCHEDULER

_ROUND = "60"
_RESTART_COST = "60"

if TYPE_CHECKING:
    from muster.cluster import Cluster
    from muster.service.daemon import EngineMaker, Lookup
    from muster.service.engines import Engine, Seat

    Served = tuple[Cluster, str, EngineMaker]
    """A cluster, and its engine's name and maker."""


def serve(
    scheduler: Annotated[
        str, typer.Option(metavar="NAME", help="ORDER+ALLOCATION+PLACEMENT, a preset, file.py:Class.")
    ] = DEFAULT_SCHEDULER,
    round_seconds: Annotated[
        str, typer.Option("--round", metavar="SECONDS", help="How long a turn lasts where jobs take turns.")
    ] = _ROUND,
    restart_cost: Annotated[
        str,
        typer.Option(
            metavar="SECONDS",
            help="Stop and start-up of a job, until its own are measured (default: 60).",
            show_default=False,
        ),
    ] = _RESTART_COST,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="So many, there or not; else those that are found.")
    ] = None,
    cpus: Annotated[float | None, typer.Option(metavar="N", help="CPU cores to give away.")] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="Memory to give away, as 500GB.")
    ] = None,
    fake_nodes: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="Serve the nodes of this cluster without running any process, to try a scheduler live "
            "(default: run jobs on this machine).",
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Elsewhere than on loopback needs tokens.")
    ] = "127.0.0.1:0",
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="postgresql://...; else SQLite in MUSTER_HOME.")
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Let nobody in without one, though none is made yet.")
    ] = False,
    limits: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Limits of users and tenants, reloaded on SIGHUP; else limits.toml in MUSTER_HOME.",
        ),
    ] = None,
    settings: flags.Settings = None,
) -> None:
    """Schedule and run jobs on this machine until interrupted; jobs run on without it.

    Example: muster serve --gpus 8 --cpus 24 --memory 500GB
    """
    from muster.service.daemon import Serving
    from muster.service.daemon import serve as serve_until_interrupted
    from muster.service.home import home_folder
    from muster.service.live_limits import LiveLimits
    from muster.service.live_scheduler import live_scheduler

    told = flags.Gathering()
    home = home_folder()
    turn = told.of(flags.positive_seconds_of, "--round", round_seconds)
    cost = told.of(_restart_cost, restart_cost)
    address = told.of(_address, listen)
    chosen = told.of(flags.parse_settings, settings or [])
    allowed = told.of(LiveLimits, limits, home)
    if fake_nodes is None:
        made = told.of(_machine, home, gpus, cpus, memory)
    else:
        told.of(_refuse_beside_fake_nodes, {"--gpus": gpus, "--cpus": cpus, "--memory": memory})
        made = told.of(_fake, home, fake_nodes)
    policy = told.of(live_scheduler, scheduler, chosen or {}, turn or float(_ROUND))
    told.settle()
    host, port = address
    serve_until_interrupted(
        Serving(home, *made, policy, turn, allowed, cost, host, port, store, needs_tokens=tokens),
        lambda line: print(line, flush=True),
    )


def _restart_cost(text: str) -> float:
    seconds = flags.seconds_of("--restart-cost", text)
    if not 0 <= seconds < float("inf"):
        raise BadInput(Problem("--restart-cost", "a time from 0 on is needed", found=text))
    return seconds


def _machine(home: Path, gpus: int | None, cpus: float | None, memory: str | None) -> Served:
    """This machine, and the engine that runs processes on it."""
    from muster.service.engines.local.engine import LocalEngine
    from muster.service.home import engine_folder
    from muster.service.machine import find_machine

    machine = find_machine(
        gpus=gpus, cpus=cpus, memory_gb=None if memory is None else flags.gb_of("--memory", memory)
    )
    name = LocalEngine.name
    return machine.cluster, name, lambda _: LocalEngine(engine_folder(home, name), machine)


def _refuse_beside_fake_nodes(flags_given: Mapping[str, object]) -> None:
    what = "describes this machine; with --fake-nodes the cluster states the resources"
    problems = [Problem(flag, what, found=value) for flag, value in flags_given.items() if value is not None]
    if problems:
        raise BadInput(*problems)


def _fake(home: Path, text: str) -> Served:
    """Fake nodes, and the engine that runs no process on them."""
    from muster.cluster.shipped import parse_cluster
    from muster.service.engines.fake import FakeEngine, Pace, pace_of
    from muster.service.home import engine_folder
    from muster.service.known_models import KnownModels

    cluster = parse_cluster(text)
    models = KnownModels(home)

    def engine(job_row: Lookup) -> Engine:
        def pace(job: int, seats: Sequence[Seat]) -> Pace:
            return pace_of(job_row(job), seats, models.all())

        return FakeEngine(engine_folder(home, FakeEngine.name), cluster, pace)

    return cluster, FakeEngine.name, engine


def _address(text: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 address in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65_536):
        what = "HOST:PORT is needed, as 127.0.0.1:7461 or [::1]:7461; port 0 takes any that is free"
        raise BadInput(Problem("--listen", what, found=text))
    return host, int(port)
