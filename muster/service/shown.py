"""What terminal and pages show of a job alike, from the API's answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def state_since(job: Mapping[str, Any]) -> float:
    """Unix seconds of its present state's beginning."""
    if job["state"] == "running":
        return float(job["last_start"] or job["submitted"])
    return float(job["finished"] or job["last_stop"] or job["submitted"])


def gpus_of(job: Mapping[str, Any]) -> float:
    """GPUs that a job asks for; those that it holds, if the scheduler chooses how many."""
    held = sum(here["gpus"] for here in job["holds"]) if job["min_gpus"] < job["max_gpus"] else 0.0
    return float(held or job["gpus"] * job["gpu_share"])
