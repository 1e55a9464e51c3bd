"""The flags of a simulation, declared once for `simulate` and `compare`; each is named as in `muster.simulate`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from muster.cli import flags
from muster.cli.help import RARELY_NEEDED
from muster.problems import ErrorCollector

if TYPE_CHECKING:
    from muster.cluster import Cluster
    from muster.inputs import Inputs, RunOptions
    from muster.workload.trace import Trace


MORE_HELP = "Show more options: network, failures, restarts, own models."
"""What `--help-all` shows besides, of a command that takes `SimulationFlags`."""


def _rare(*names: str, **details: Any) -> Any:
    return typer.Option(*names, rich_help_panel=RARELY_NEEDED, **details)


@dataclass(frozen=True)
class SimulationFlags:
    """What is typed about a run beside its trace, cluster and scheduler; help shows it in this order."""

    map: flags.Columns = None
    round: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            help="Seconds between scheduling rounds (default: schedule at every event).",
        ),
    ] = None
    round_origin: Annotated[
        str, typer.Option(metavar="WHEN", help="Second of the first round, or first-arrival; needs rounds.")
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
        typer.Option(
            metavar="CLASS", help="What schedulers know of durations: oracle, limit, noisy:SIGMA or none."
        ),
    ] = "oracle"
    end_at_limit: Annotated[
        bool,
        typer.Option("--end-at-limit", help="End jobs at their time limits (default: limits only inform)."),
    ] = False
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
            help="Seconds of work between checkpoints, which a failure of its node can cost a job; needs failures.",
        ),
    ] = "3600"
    resize_restarts: Annotated[
        bool,
        _rare(
            "--resize-restarts", help="Restart a job when its CPU or memory changes (default: it runs on)."
        ),
    ] = False
    release_seconds_per_gpu: Annotated[
        str,
        _rare(
            "--release-seconds-per-gpu",
            metavar="S",
            help="Seconds each GPU stays unavailable after a job releases it.",
        ),
    ] = "0"

    def inputs(self, errors: ErrorCollector, trace: Path, cluster: str) -> Inputs:
        """The inputs of a run. Mistakes are in `errors`: settle it before anything is run."""
        from muster.inputs import inputs_of

        settings = errors.of(flags.parse_settings, self.settings or [])
        return inputs_of(errors, trace, cluster, settings, self.options())

    def typed(self) -> list[tuple[str, str]]:
        """The flags that are not as by default, each with its value, empty for one that stands alone."""
        found = []
        for one in fields(self):
            value = getattr(self, one.name)
            flag = "--set" if one.name == "settings" else f"--{one.name.replace('_', '-')}"
            if value is True:
                found.append((flag, ""))
            elif value != one.default:
                found += [(flag, str(each)) for each in (value if isinstance(value, list) else [value])]
        return found

    def options(self) -> RunOptions:
        """The options by the names that they have in Python."""
        options: Any = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "settings"}
        return cast("RunOptions", options)


@dataclass(frozen=True)
class CertifiedFlags(SimulationFlags):
    """Of commands that show certificates."""

    certify: Annotated[
        bool, _rare("--certify", help="Record the optimality gap of each decision and of the mean JCT.")
    ] = False


def print_notes(trace: Trace, cluster: Cluster | None = None) -> None:
    """Print on stderr what was cleaned in the trace, and what a cluster leaves out of its description."""
    for note in notes_of(trace, cluster):
        print(note, file=sys.stderr)


def notes_of(trace: Trace, cluster: Cluster | None = None) -> list[str]:
    """Return what was cleaned in the trace, and what a cluster leaves out of its description."""
    return [*(f"{trace.source}: {note}" for note in trace.notes), *(cluster.notes if cluster else ())]
