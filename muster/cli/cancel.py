"""`muster cancel`: end jobs for good."""

from __future__ import annotations

from muster.cli import flags
from muster.cli.service_view import JobIds


def cancel(jobs: JobIds, as_json: flags.Json = False) -> None:
    """End jobs for good, waiting or running.

    Example: muster cancel 17 18
    """
    from muster.cli.service_view import for_each

    for_each(jobs, "cancel", lambda job: f"Job {job['job_id']} is being cancelled.", as_json)
