"""`muster cancel`, `hold` and `release`: requests about jobs."""

from __future__ import annotations

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
