"""`muster serve`: the daemon that runs jobs on this machine."""

from __future__ import annotations

import gc
import signal
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import PYTHONS_COLLECTION, flags
from muster.cli.flag_groups import takes_flag_groups
from muster.problems import ErrorCollector, InputError, Problem
from muster.schedulers.presets import DEFAULT_SCHEDULER

if TYPE_CHECKING:
    from muster.service.engines.factory import ConfiguredEngine

_ROUND = "60"
_RESTART_COST = "60"


@dataclass(frozen=True)
class NodeFlags:
    """What the daemon schedules on: this machine, all of it or a part, or nodes of a simulated engine."""

    gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of GPUs to schedule, also on a machine without them (default: those "
            "that are found).",
        ),
    ] = None
    cpus: Annotated[
        float | None,
        typer.Option(metavar="N", help="CPU cores that jobs may have (default: all of this machine)."),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT", help="Memory that jobs may have, as 500GB (default: all of this machine)."
        ),
    ] = None
    fake_nodes: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="Serve the nodes of this cluster without running any process, to try a scheduler live "
            "(default: run jobs on this machine).",
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Engine that runs the jobs (default: local, processes on this machine; fake with --fake-nodes).",
            show_default=False,
        ),
    ] = None
    partition: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Partition whose nodes to use, with --engine slurm (default: none; required there).",
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Head of the Ray cluster whose nodes to use, with --engine ray (default: none; required there).",
        ),
    ] = None

    links: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Cluster file whose links and network cards the nodes have, with --engine slurm (default: Dally's "
            "reference constants).",
            show_default=False,
        ),
    ] = None

    def served(self, errors: ErrorCollector) -> tuple[str, ConfiguredEngine]:
        """The engine's name and the engine; fake nodes imply theirs. `errors` collects what is wrong."""
        from muster.cli.progress import noted_if_slow
        from muster.service.engines.factory import EngineOptions
        from muster.service.engines.registry import FAKE, LOCAL, configured_engine

        memory_gb = None if self.memory is None else errors.of(flags.gb_of, "--memory", self.memory)
        name = self.engine if self.engine is not None else LOCAL if self.fake_nodes is None else FAKE
        options = EngineOptions(
            self.gpus, self.cpus, memory_gb, self.fake_nodes, self.partition, self.address, self.links
        )
        where = "" if self.address is None else f" at {self.address}"
        with noted_if_slow(f"Waiting for engine {name}{where} to answer."):
            return name, errors.of(configured_engine, name, options)


@dataclass(frozen=True)
class ServiceFlags:
    """Where the daemon listens and keeps its state, and what users may do."""

    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Listen on TCP too, for requests with a token and for /metrics (default: only the Unix socket in "
            "MUSTER_HOME).",
        ),
    ] = None
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Database of the daemon, as postgresql://... (default: SQLite in MUSTER_HOME).",
        ),
    ] = None
    jobs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the files of jobs, for example on a disk that all nodes share (default: jobs in "
            "MUSTER_HOME).",
        ),
    ] = None
    limits: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Limits of users and tenants, reloaded on SIGHUP (default: limits.toml in MUSTER_HOME).",
        ),
    ] = None


@takes_flag_groups()
def serve(
    scheduler: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Scheduler: parts (las+tune), a preset (dally) or a class (file.py:Class)."
        ),
    ] = DEFAULT_SCHEDULER,
    round_seconds: Annotated[
        str, typer.Option("--round", metavar="SECONDS", help="Seconds of a turn where jobs take turns.")
    ] = _ROUND,
    restart_cost: Annotated[
        str,
        typer.Option(
            metavar="SECONDS",
            help="Seconds to stop and start a job, until its own are measured (default: 60).",
            show_default=False,
        ),
    ] = _RESTART_COST,
    *,
    nodes: NodeFlags,
    service: ServiceFlags,
    settings: flags.Settings = None,
) -> None:
    """Schedule and run jobs on this machine, in Slurm or Ray, until interrupted; jobs run on without it.

    Example: muster serve --gpus 8 --cpus 24 --memory 500GB
    """
    # A stop while it starts is no failure to systemd; once it serves, the daemon answers SIGTERM itself.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from muster.service.daemon import Serving
    from muster.service.daemon import serve as serve_until_interrupted
    from muster.service.home import home_folder
    from muster.service.live_limits import LiveLimits
    from muster.service.live_scheduler import live_scheduler

    errors = ErrorCollector()
    home = home_folder()
    turn = errors.of(flags.positive_seconds_of, "--round", round_seconds)
    cost = errors.of(_restart_cost, restart_cost)
    listen = None if service.listen is None else errors.of(_address, service.listen)
    chosen = errors.of(flags.parse_settings, settings or [])
    allowed = errors.of(LiveLimits, service.limits, home)
    served = nodes.served(errors)
    policy = errors.of(live_scheduler, scheduler, chosen or {}, turn or float(_ROUND))
    errors.settle()
    gc.set_threshold(*PYTHONS_COLLECTION)
    serve_until_interrupted(
        Serving(home, *served, policy, turn, allowed, cost, listen, service.store, service.jobs, scheduler),
        lambda line: print(line, flush=True),
    )


def _restart_cost(text: str) -> float:
    from muster.units import seconds_of

    seconds = seconds_of("--restart-cost", text)
    if not 0 <= seconds < float("inf"):
        raise InputError(Problem("--restart-cost", "allowed: a time from 0 on", found=text))
    return seconds


def _address(text: str) -> tuple[str, int]:
    """The address of HOST:PORT, and the port; an IPv6 address stands in brackets, localhost is 127.0.0.1."""
    host, colon, port = text.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        ip_address(host)
    except ValueError:
        host = ""
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65_536):
        what = (
            "allowed: an address of this machine and a port, for example 127.0.0.1:7461, [::1]:7461 or localhost:7461. "
            "Hint: port 0 takes any that is free"
        )
        raise InputError(Problem("--listen", what, found=text))
    return host, int(port)
