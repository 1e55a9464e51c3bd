"""Flags that several commands share, and how their text becomes settings; all that is wrong is told at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, cast

import typer

from muster.problems import BadInput, Problem

if TYPE_CHECKING:
    from muster.schedulers.contract import Scheduler
    from muster.simulation import Failures, Options

TraceFile = Annotated[Path, typer.Argument(metavar="TRACE", help="CSV or Parquet; plain, gzip, xz or zst.")]
ClusterName = Annotated[
    str, typer.Option("--cluster", metavar="CLUSTER", help="philly, 16x8gpu,24cpu,500gb or a file.")
]
Round = Annotated[
    str | None, typer.Option("--round", metavar="SECONDS", help="Decide at multiples; else at events.")
]
RoundOrigin = Annotated[
    str, typer.Option("--round-origin", metavar="SECONDS", help="Where rounds start; or first-arrival.")
]
RestartCost = Annotated[
    str, typer.Option("--restart-cost", metavar="SECONDS", help="Lost by a job at a stop, move or resize.")
]
ResizeRestarts = Annotated[
    bool, typer.Option("--resize-restarts", help="A change of CPU or memory costs it too.")
]
ReleaseSeconds = Annotated[
    str,
    typer.Option("--release-seconds-per-gpu", metavar="SECONDS", help="How long freed GPUs stay unusable."),
]
Measure = Annotated[
    str | None,
    typer.Option("--measure", metavar="FIRST:LAST", help="Only these job ids count; ends with them."),
]
RulesName = Annotated[
    str, typer.Option("--rules", metavar="NAME", help="How time is counted; or synergy-published, dally-published.")
]
Knowledge = Annotated[
    str, typer.Option("--knowledge", metavar="CLASS", help="Of durations; or noisy:SIGMA, none.")
]
NodeFailures = Annotated[
    str | None,
    typer.Option("--failures", metavar="BETWEEN:REPAIR", help="Of nodes, in the mean; as 30d:2h."),
]
Checkpoint = Annotated[
    str, typer.Option("--checkpoint", metavar="SECONDS", help="A failed job loses at most so much.")
]
Network = Annotated[
    str, typer.Option("--network", metavar="MODEL", help="How links slow jobs; or physical, astra, none.")
]
Congestion = Annotated[
    float, typer.Option("--congestion", metavar="SHARE", help="Share of uplinks that others take.")
]
Contention = Annotated[bool, typer.Option("--contention", help="Jobs on the same uplinks slow each other.")]
LayerFile = Annotated[
    Path | None, typer.Option("--layers", metavar="FILE", help="CSV of layer profiles, for the network.")
]
SkipImpossible = Annotated[bool, typer.Option("--skip-impossible", help="Leave out jobs that can never fit.")]
Certify = Annotated[bool, typer.Option("--certify", help="Set every decision beside the best possible one.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Of the scheduler; repeatable.")
]
ModelFolder = Annotated[
    Path | None, typer.Option("--models", metavar="DIR", help="Models of your own, as TOML files.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of all that is random.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

P = ParamSpec("P")
T = TypeVar("T")


class Gathering:
    """Collects the problems of several inputs, so that they are told together."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def of(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `call` gives. If it refused, `settle` will say so: use no result before that."""
        try:
            return call(*args, **kwargs)
        except BadInput as bad:
            self._problems += bad.problems
            return cast(T, None)

    def settle(self) -> None:
        """Raises all problems met so far."""
        if self._problems:
            raise BadInput(*self._problems)


def simulation_options(
    *,
    round_seconds: str | None,
    round_origin: str,
    restart_cost: str,
    resize_restarts: bool,
    release_seconds: str,
    measure: str | None,
    rules: str,
    knowledge: str,
    failures: str | None,
    checkpoint: str,
    network: str,
    congestion: float,
    contention: bool,
    skip_impossible: bool,
    certify: bool,
    seed: int,
) -> Options:
    """The settings of a simulation from the text of its flags."""
    from muster.simulation import Options, rules_named

    told = Gathering()
    given: dict[str, Any] = {
        "round_seconds": round_seconds and told.of(seconds_of, "--round", round_seconds),
        "round_origin": told.of(_origin, round_origin),
        "restart_cost_seconds": told.of(seconds_of, "--restart-cost", restart_cost),
        "release_seconds_per_gpu": told.of(seconds_of, "--release-seconds-per-gpu", release_seconds),
        "measure": measure and told.of(_range, measure),
        "rules": told.of(rules_named, rules),
        "failures": failures and told.of(_failures, failures),
        "checkpoint_seconds": told.of(seconds_of, "--checkpoint", checkpoint),
    }
    # What was refused above keeps its default here, so that the rest is checked and told as well.
    understood = {name: value for name, value in given.items() if value is not None}
    options = told.of(
        Options,
        **understood,
        resize_restarts=resize_restarts,
        knowledge=knowledge,
        network=network,
        congestion=congestion,
        contention=contention,
        skip_impossible=skip_impossible,
        certify=certify,
        seed=seed,
    )
    told.settle()
    return options


def scheduler_named(name: str, options: Options | None, settings: Mapping[str, str] | None) -> Scheduler:
    """The scheduler of a name with what the rules impose on it and the user's settings."""
    from muster.schedulers.catalogue import build

    return build(name, {**(options.rules.settings if options else {}), **(settings or {})})


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """`key=value` as a mapping."""
    problems = []
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not key or not equals:
            problems.append(Problem("--set", "KEY=VALUE is needed, for example --set quantum=60", found=pair))
        elif key in settings:
            problems.append(Problem("--set", f"{key} is set twice", found=pair))
        settings[key] = value
    if problems:
        raise BadInput(*problems)
    return settings


def seconds_of(flag: str, text: str) -> float:
    """A flag's time in seconds."""
    from muster.units import parse_seconds

    try:
        return parse_seconds(text)
    except ValueError as error:
        raise BadInput(Problem(flag, str(error), found=text)) from None


def _origin(text: str) -> float | str:
    from muster.simulation.options import FIRST_ARRIVAL

    if text == FIRST_ARRIVAL:
        return text
    try:
        return seconds_of("--round-origin", text)
    except BadInput:
        what = f"{FIRST_ARRIVAL} or a number of seconds is needed"
        raise BadInput(Problem("--round-origin", what, found=text)) from None


def _range(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not (colon and first.strip().isdecimal() and last.strip().isdecimal()):
        raise BadInput(
            Problem("--measure", "FIRST:LAST with two job ids is needed, as 4000:4999", found=text)
        )
    return int(first), int(last)


def _failures(text: str) -> Failures:
    from muster.simulation import Failures

    between, colon, repair = text.partition(":")
    if not colon:
        what = "BETWEEN:REPAIR with two times is needed, as 30d:2h"
        raise BadInput(Problem("--failures", what, found=text))
    return Failures(seconds_of("--failures", between), seconds_of("--failures", repair))
