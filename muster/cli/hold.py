"""`muster hold`: let jobs wait."""

from __future__ import annotations

from muster.cli import flags
from muster.cli.service_view import JobIds


def hold(jobs: JobIds, as_json: flags.Json = False) -> None:
    """Let jobs wait until they are released; running ones save and stop.

    Example: muster hold 17
    """
    from muster.cli.service_view import for_each

    for_each(jobs, "hold", lambda job: f"Job {job['job_id']} will be held.", as_json)
