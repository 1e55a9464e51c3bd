"""What terminal and pages show of a job alike, from the API's answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAMES_A_RANK = re.compile(r"rank (\d{1,6}) ")


def state_since(job: Mapping[str, Any]) -> float:
    """Unix seconds of its present state's beginning."""
    if job["state"] == "running":
        return float(job["last_start"] or job["submitted"])
    return float(job["finished"] or job["last_stop"] or job["submitted"])


def gpus_of(job: Mapping[str, Any]) -> float:
    """GPUs that a job asks for; those that it holds, if the scheduler chooses how many."""
    held = sum(here["gpus"] for here in job["holds"]) if job["min_gpus"] < job["max_gpus"] else 0.0
    return float(held or job["gpus"] * job["gpu_share"])


def rank_to_read(message: str) -> int:
    """The process whose output says why a job ended: the one that the message names, else the first."""
    found = _NAMES_A_RANK.match(message)
    return int(found[1]) if found else 0
