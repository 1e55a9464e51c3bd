"""`muster cancel`, `hold`, `release` and `priority`: requests about jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli import flags
from muster.cli.service_view import JobIds, for_each


def cancel(jobs: JobIds, as_json: flags.Json = False) -> None:
    """End jobs for good, waiting or running.

    Example: muster cancel 17 18
    """
    for_each(jobs, "cancel", lambda job: f"Job {job['job_id']} is being cancelled.", as_json)


def hold(jobs: JobIds, as_json: flags.Json = False) -> None:
    """Let jobs wait until they are released; running ones save and stop.

    Example: muster hold 17
    """
    for_each(jobs, "hold", lambda job: f"Job {job['job_id']} will be held.", as_json)


def release(jobs: JobIds, as_json: flags.Json = False) -> None:
    """Let held jobs compete again.

    Example: muster release 17
    """
    for_each(jobs, "release", lambda job: f"Job {job['job_id']} competes again.", as_json)


def priority(
    value: Annotated[
        float,
        typer.Argument(
            metavar="PRIORITY", min=-1e9, max=1e9, help="Priority from now on; larger is served first."
        ),
    ],
    jobs: JobIds,
    as_json: flags.Json = False,
) -> None:
    """Change the priority of jobs, waiting or running, under a scheduler that takes it into account.

    Example: muster priority 10 17 18
    """
    for_each(
        jobs,
        "priority",
        lambda job: f"Job {job['job_id']} has priority {job['priority']:g}.",
        as_json,
        {"priority": value},
    )
