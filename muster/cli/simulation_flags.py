"""The flags of a simulation, declared once for `simulate` and `compare`, and the inputs that they name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags
from muster.cli.help import RARELY_NEEDED
from muster.problems import InputError, Problem

if TYPE_CHECKING:
    from muster.cluster import Cluster
    from muster.schedulers.contract import Scheduler
    from muster.simulation import Failures, Options, Progress, Run
    from muster.speed.network.models import NetworkModel
    from muster.workload.models import Model
    from muster.workload.trace import Trace


MORE_HELP = "Show more options: network, failures, restarts, own models."
"""What `--help-all` shows besides, of a command that takes `SimulationFlags`."""


def _rare(*names: str, **details: Any) -> Any:
    return typer.Option(*names, rich_help_panel=RARELY_NEEDED, **details)


@dataclass(frozen=True)
class SimulationFlags:
    """What is typed about a run beside its trace, cluster and scheduler; help shows it in this order."""

    columns: flags.Columns = None
    round_seconds: Annotated[
        str | None,
        typer.Option(
            "--round",
            metavar="SECONDS",
            help="Seconds between scheduling rounds (default: schedule at every event).",
        ),
    ] = None
    round_origin: Annotated[
        str, typer.Option(metavar="WHEN", help="Second of the first round, or first-arrival.")
    ] = "0"
    restart_cost: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            help="Seconds an interruption costs a job (default: 60).",
        ),
    ] = None
    measure: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:LAST",
            help="Job ids that the results count; the run ends with them (default: all jobs).",
        ),
    ] = None
    rules: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Rules of the simulation: exact, synergy-published or dally-published."
        ),
    ] = "exact"
    knowledge: Annotated[
        str,
        typer.Option(metavar="CLASS", help="What schedulers know of durations: oracle, noisy:SIGMA or none."),
    ] = "oracle"
    skip_impossible: Annotated[
        bool,
        typer.Option(
            "--skip-impossible", help="Leave out jobs that can never fit (default: refuse the trace)."
        ),
    ] = False
    settings: flags.Settings = None
    seed: flags.Seed = 0
    network: Annotated[
        str, _rare("--network", metavar="MODEL", help="Network model: auto, physical, astra or none.")
    ] = "auto"
    congestion: Annotated[
        float,
        _rare("--congestion", metavar="SHARE", help="Fraction of uplink bandwidth used by other traffic."),
    ] = 0.0
    contention: Annotated[
        bool,
        _rare(
            "--contention",
            help="Let jobs on the same uplinks slow each other (default: each has its bandwidth).",
        ),
    ] = False
    layers: Annotated[
        Path | None,
        _rare(
            "--layers",
            metavar="FILE",
            help="CSV file of layer profiles for the network model (default: shipped models).",
        ),
    ] = None
    models: Annotated[
        Path | None,
        _rare("--models", metavar="DIR", help="Folder of your own model files (default: shipped models)."),
    ] = None
    failures: Annotated[
        str | None,
        _rare(
            "--failures",
            metavar="BETWEEN:REPAIR",
            help="Mean time between node failures and mean time to repair, as 30d:2h (default: no failures).",
        ),
    ] = None
    checkpoint: Annotated[
        str,
        _rare(
            "--checkpoint",
            metavar="SECONDS",
            help="Seconds of work between checkpoints, which a failure of its node can cost a job.",
        ),
    ] = "3600"
    resize_restarts: Annotated[
        bool,
        _rare(
            "--resize-restarts", help="Restart a job when its CPU or memory changes (default: it runs on)."
        ),
    ] = False
    release_seconds: Annotated[
        str,
        _rare(
            "--release-seconds-per-gpu",
            metavar="S",
            help="Seconds each GPU stays unavailable after a job releases it.",
        ),
    ] = "0"
    certify: Annotated[bool, _rare("--certify", help="Record the optimality gap of each decision.")] = False

    def inputs(self, errors: flags.ErrorCollector, trace: Path, cluster: str) -> Inputs:
        """The inputs of a run. Mistakes are in `errors`: settle it before anything is run."""
        from muster.cli.runs import known_layers, known_models
        from muster.cluster.shipped import parse_cluster
        from muster.workload.trace import read_trace
        from muster.workload.traces.mapped import parse_mapping

        models = errors.of(known_models, self.models)
        columns = errors.of(parse_mapping, self.columns) if self.columns else None
        named = {"cluster": cluster, "map": self.columns, "models": self.models, "layers": self.layers}
        return Inputs(
            named={what: str(name) for what, name in named.items() if name is not None},
            options=errors.of(self.options),
            cluster=errors.of(parse_cluster, cluster),
            settings=errors.of(flags.parse_settings, self.settings or []),
            models=models,
            layers=errors.of(known_layers, self.layers),
            trace=errors.of(read_trace, trace, mapping=columns, models=models),
        )

    def options(self) -> Options:
        """The settings of the simulation from the text of the flags."""
        from muster.simulation import Options, rules_named

        errors = flags.ErrorCollector()
        given: dict[str, Any] = {
            "round_seconds": self.round_seconds
            and errors.of(flags.seconds_of, "--round", self.round_seconds),
            "round_origin": errors.of(_origin, self.round_origin),
            "restart_cost_seconds": self.restart_cost
            and errors.of(flags.seconds_of, "--restart-cost", self.restart_cost),
            "release_seconds_per_gpu": errors.of(
                flags.seconds_of, "--release-seconds-per-gpu", self.release_seconds
            ),
            "measure": self.measure and errors.of(_range, self.measure),
            "rules": errors.of(rules_named, self.rules),
            "failures": self.failures and errors.of(_failures, self.failures),
            "checkpoint_seconds": errors.of(flags.seconds_of, "--checkpoint", self.checkpoint),
        }
        # What was refused above keeps its default here, so that the rest is checked as well.
        understood = {name: value for name, value in given.items() if value is not None}
        options = errors.of(
            Options,
            **understood,
            resize_restarts=self.resize_restarts,
            knowledge=self.knowledge,
            network=self.network,
            congestion=self.congestion,
            contention=self.contention,
            skip_impossible=self.skip_impossible,
            certify=self.certify,
            seed=self.seed,
        )
        errors.settle()
        return options


@dataclass(frozen=True)
class Inputs:
    """What a run goes by, apart from its scheduler."""

    named: Mapping[str, str]
    """The cluster and the files as they were typed."""
    options: Options
    cluster: Cluster
    settings: Mapping[str, str]
    models: Mapping[str, Model]
    layers: Mapping[str, NetworkModel] | None
    trace: Trace

    def on(self, errors: flags.ErrorCollector, cluster: str) -> Inputs:
        """The same inputs on another cluster; `errors` collects the errors."""
        from muster.cluster.shipped import parse_cluster

        named = {**self.named, "cluster": cluster}
        return replace(self, named=named, cluster=errors.of(parse_cluster, cluster))

    def scheduler(self, name: str) -> Scheduler:
        """The scheduler of a name with what the rules impose on it and the user's settings."""
        from muster.schedulers.registry import build

        # Inputs that are not settled yet may lack what was refused.
        imposed = self.options.rules.settings_for(name) if self.options else {}
        return build(name, {**imposed, **(self.settings or {})})

    def run(self, scheduler: Scheduler, progress: Callable[[Progress], None]) -> Run:
        """Simulates; the record also says what was typed, so that a report can give the command again."""
        from muster.simulation import simulate

        run = simulate(self.trace, self.cluster, scheduler, self.options, progress, self.models, self.layers)
        return replace(run, record=replace(run.record, run={**run.record.run, "named": dict(self.named)}))

    def print_notes(self) -> None:
        """Says on stderr what was cleaned in the trace."""
        for note in self.trace.notes:
            print(f"{self.trace.source}: {note}", file=sys.stderr)


def _origin(text: str) -> float | str:
    from muster.simulation.options import FIRST_ARRIVAL

    if text == FIRST_ARRIVAL:
        return text
    try:
        return flags.seconds_of("--round-origin", text)
    except InputError:
        what = f"allowed: {FIRST_ARRIVAL} or a number of seconds from 0 on"
        raise InputError(Problem("--round-origin", what, found=text)) from None


def _range(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not (colon and first.strip().isdecimal() and last.strip().isdecimal()):
        raise InputError(
            Problem("--measure", "allowed: FIRST:LAST with two job ids, as 4000:4999", found=text)
        )
    return int(first), int(last)


def _failures(text: str) -> Failures:
    from muster.simulation import Failures

    between, colon, repair = text.partition(":")
    if not colon:
        what = "allowed: BETWEEN:REPAIR with two times, as 30d:2h"
        raise InputError(Problem("--failures", what, found=text))
    return Failures(flags.seconds_of("--failures", between), flags.seconds_of("--failures", repair))
