"""When jobs start, as intervals: as tables, and asked of the running daemon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.problems import InputError, Problem

_NOW_SECONDS = 1.0
"""A start before this is one now: a simulation begins a moment after the present."""

if TYPE_CHECKING:
    from muster.service.client import Client

Start = Mapping[str, Any]
"""Seconds from now: low, median and high, and the simulations that say so."""


def starts_of_queue(client: Client, draws: int | None) -> dict[str, Any]:
    """When the jobs that wait are expected to start, and what simulations of the queue begin with."""
    client.waiting_for = _simulates(draws)
    found: dict[str, Any] = client.get("/v1/starts", draws=draws)
    return found


def would_start_live(request: Mapping[str, Any], draws: int | None) -> dict[str, Any]:
    """When a job that is not submitted would start in the running service, as asked and with fewer GPUs."""
    from muster.service.client import Client, Refusal

    asked = {"name": "would", "command": ["true"], "directory": "/", **request}
    with Client.of_environment() as client:
        client.waiting_for = _simulates(draws)
        try:
            found: dict[str, Any] = client.post("/v1/would", {"request": asked, "draws": draws})
        except Refusal as refusal:
            if not refusal.problems:
                raise
            problems = [_at_its_flag(problem) for problem in refusal.problems]
            raise Refusal(refusal.http_status, str(InputError(*problems)), problems) from None
    return found


def print_shapes(rows: Sequence[tuple[int, Start | None]]) -> None:
    """The starts of a job with each number of GPUs; the first one is what was asked for."""
    from muster.formatting import counted

    print(f"{'GPUs':>6}{'starts in':>14}{'80 % of draws':>28}")
    for gpus, start in rows:
        if start is None:
            print(f"{gpus:>6}{'never':>14}")
            continue
        print(f"{gpus:>6}{moment_of(start['median_seconds']):>14}{interval_of(start):>28}")
    asked, own = rows[0]
    sooner = [
        gpus for gpus, start in rows[1:] if start and own and start["high_seconds"] < own["median_seconds"]
    ]
    if sooner:
        print(f"With {counted(max(sooner), 'GPU')} it is likely to start sooner than with {asked}.")


def interval_of(start: Start) -> str:
    """`2.0 min to 12 min`, and only one of them where they are the same."""
    low, high = moment_of(start["low_seconds"]), moment_of(start["high_seconds"])
    return low if low == high else f"{low} to {high}"


def moment_of(seconds: float) -> str:
    """`now`, or how long until then: `12 min`."""
    from muster.formatting import duration

    return "now" if seconds < _NOW_SECONDS else duration(seconds)


def basis_of(found: Mapping[str, Any]) -> str:
    """What the simulations begin with, as a sentence."""
    from muster.formatting import counted

    jobs = f"{counted(found['running'], 'job')} running, {found['waiting']:,} waiting"
    if not (found["running"] or found["waiting"] or found["ended"]):
        return "No job runs or waits, and none has ended."
    if found["ended"]:
        return f"{jobs}; durations are drawn from {counted(found['ended'], 'job')} that ended."
    if found["guessed"]:
        guessed, count = counted(found["guessed"], "job"), "counts" if found["guessed"] == 1 else "count"
        return f"{jobs}; none has ended: {guessed} of unknown length {count} as 1 h more."
    return f"{jobs}; none has ended, so each takes as long as its steps or its time limit say."


def _at_its_flag(problem: Problem) -> Problem:
    flags = {"memory_gb": "--memory", "time_limit_seconds": "--time-limit", "tenant": "--account"}
    field = (problem.column or "").removeprefix("request.").partition(".")[0]
    flag = flags.get(field, f"--{field.replace('_', '-')}") if field else "job"
    return Problem(flag, problem.what, found=problem.found)


def _simulates(draws: int | None) -> str:
    times = "up to 40" if draws is None else f"{draws:,}"
    turn = "at most 2 minutes, after at most 2 minutes for questions asked before"
    return f"The daemon simulates the queue {times} times for each answer: {turn}."
