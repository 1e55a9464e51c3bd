"""`muster serve`: the daemon that runs jobs on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags
from muster.problems import BadInput, Problem

_MOVE_SECONDS = 30.0
"""What a real job loses by a move, as far as a scheduler that counts it is told: a checkpoint and a new start."""

if TYPE_CHECKING:
    from muster.cluster import Cluster
    from muster.schedulers.contract import Scheduler
    from muster.service.daemon import EngineMaker, Lookup
    from muster.service.engines import Engine, Seat


def serve(
    scheduler: Annotated[
        str, typer.Option(metavar="NAME", help="ORDER+ALLOCATION+PLACEMENT, a preset, file.py:Class.")
    ] = "las+tune-plus",
    round_seconds: Annotated[
        str, typer.Option("--round", metavar="SECONDS", help="How long a turn lasts where jobs take turns.")
    ] = "60",
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="So many, there or not; else those that are found.")
    ] = None,
    cpus: Annotated[float | None, typer.Option(metavar="N", help="CPU cores to give away.")] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="Memory to give away, as 500GB.")
    ] = None,
    pretend: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Nodes without processes, to try a scheduler live."),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Elsewhere than on loopback needs tokens.")
    ] = "127.0.0.1:0",
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="postgresql://...; else SQLite in MUSTER_HOME.")
    ] = None,
    settings: flags.Settings = None,
) -> None:
    """Schedule and run jobs on this machine until interrupted; jobs run on without it.

    Example: muster serve --gpus 8 --cpus 24 --memory 500GB
    """
    from muster.cluster.shipped import parse_cluster
    from muster.service.daemon import Serving
    from muster.service.daemon import serve as serve_until_interrupted
    from muster.service.home import home_folder

    told = flags.Gathering()
    home = home_folder()
    turn = told.of(flags.seconds_of, "--round", round_seconds)
    address = told.of(_address, listen)
    chosen = told.of(flags.parse_settings, settings or [])
    nodes = told.of(parse_cluster, pretend) if pretend else None
    made = told.of(_pretended, home, nodes) if nodes else told.of(_machine, home, gpus, cpus, memory)
    policy = told.of(live_scheduler, scheduler, chosen or {}, turn or 60.0)
    told.settle()
    assert made is not None
    assert address is not None
    assert policy is not None
    cluster, engine = made
    host, port = address
    serve_until_interrupted(
        Serving(home, cluster, engine, policy, turn or 60.0, host, port, store),
        lambda line: print(line, flush=True),
    )


def _machine(
    home: Path, gpus: int | None, cpus: float | None, memory: str | None
) -> tuple[Cluster, EngineMaker]:
    """This machine, and the engine that runs processes on it."""
    from muster.service.engines.local.engine import LocalEngine
    from muster.service.machine import find_machine

    machine = find_machine(
        gpus=gpus, cpus=cpus, memory_gb=None if memory is None else flags.gb_of("--memory", memory)
    )
    return machine.cluster, lambda _: LocalEngine(home / "engine", machine)


def _pretended(home: Path, cluster: Cluster) -> tuple[Cluster, EngineMaker]:
    """Nodes that are not there, and the engine that runs nothing on them."""
    from muster.service.engines.pretend import Pace, PretendEngine, pace_of
    from muster.service.known_models import KnownModels

    models = KnownModels(home)

    def engine(job_row: Lookup) -> Engine:
        def pace(job: int, seats: Sequence[Seat]) -> Pace:
            return pace_of(job_row(job), seats, models.all())

        return PretendEngine(home / "pretend", cluster, pace)

    return cluster, engine


def live_scheduler(name: str, settings: Mapping[str, str], turn: float) -> Scheduler:
    """The scheduler of that name: where jobs take turns, a turn lasts a round, and a move costs what it really does."""
    from muster.schedulers.catalogue import build, parts

    policy = build(name, settings)
    chosen = set(policy.describe().get("parts", {}).values())
    real = {"quantum_seconds": turn, "move_seconds": _MOVE_SECONDS}
    known = {
        f"{part.name}.{setting.name}": str(real[setting.name])
        for part in parts()
        for setting in part.settings
        if part.name in chosen and setting.name in real and setting.name not in settings
    }
    return build(name, {**known, **settings}) if known else policy


def _address(text: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 address in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65_536):
        what = "HOST:PORT is needed, as 127.0.0.1:7461 or [::1]:7461; port 0 takes any that is free"
        raise BadInput(Problem("--listen", what, found=text))
    return host, int(port)
