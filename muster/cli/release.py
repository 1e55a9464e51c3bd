"""`muster release`: let held jobs compete again."""

from __future__ import annotations

from muster.cli import flags
from muster.cli.service_view import JobIds


def release(jobs: JobIds, as_json: flags.Json = False) -> None:
    """Let held jobs compete again.

    Example: muster release 17
    """
    from muster.cli.service_view import for_each

    for_each(jobs, "release", lambda job: f"Job {job['job_id']} competes again.", as_json)
