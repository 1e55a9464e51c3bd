"""How a job that its owner submitted to Slurm finds what the scheduler passes to it: by its number there.

MUSTER_JOBS names the folder of all jobs. Muster writes the variables of each start to a file there, before Slurm starts
the job.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def start_of_slurm_job(jobs: Path, slurm_job: int) -> Path:
    """Return the file with the variables of the present start of a job of Slurm."""
    return jobs / "slurm" / f"{slurm_job}.json"


def variables_of_slurm_job() -> Mapping[str, str]:
    """Return the variables of this start; none outside Slurm, or in a job that Muster did not start."""
    jobs, slurm_job = os.environ.get("MUSTER_JOBS"), os.environ.get("SLURM_JOB_ID", "")
    if jobs is None or not slurm_job.isdecimal():
        return {}
    try:
        content = json.loads(start_of_slurm_job(Path(jobs), int(slurm_job)).read_text())
    except FileNotFoundError:
        return {}
    if content["restarts"] != int(os.environ.get("SLURM_RESTART_COUNT") or 0):
        return {}
    found: Mapping[str, str] = content["environment"]
    return found
