"""What the scheduler passes to a job at its start, in environment variables."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.problems import InputError, Problem
from muster.training.run_folder import make_older_starts_stale
from muster.training.slurm_job import variables_of_slurm_job

CHECKPOINT_SECONDS = 600.0


@dataclass(frozen=True)
class Environment:
    """The variables named MUSTER_*; `run_dir` is None where the job runs alone."""

    run_dir: Path | None
    epoch: int
    """Which start of the job this is, from 1 on: a later start makes this one stale."""
    cache_gb: float
    """Memory for this process's cached samples."""
    checkpoint_seconds: float
    """Seconds between periodic checkpoints; 0: after every step."""
    cached_only: bool
    """For a profile: cached data sets give only samples that the cache keeps, as if it kept all of them."""
    profiled: bool
    """For a profile: reports come where a round of the loader's workers ends."""
    profiled_share: int
    """For a profile: batches are shared among so many workers more than there are; 0: they are not.

    The first batch comes again and again then, but with `cached_only`.
    """


def read_environment() -> Environment:
    """The variables; all wrong ones are raised together."""
    problems: list[Problem] = []
    of_slurm_job = {} if "MUSTER_RUN_DIR" in os.environ else variables_of_slurm_job()
    environment = {**os.environ, **of_slurm_job}
    folder = environment.get("MUSTER_RUN_DIR")
    cache_gb = _number(environment, "MUSTER_CACHE_GB", 0.0, problems)
    checkpoint_seconds = _number(environment, "MUSTER_CHECKPOINT_SECONDS", CHECKPOINT_SECONDS, problems)
    epoch = 0
    if folder is not None:
        if not Path(folder).is_dir():
            problems.append(Problem("MUSTER_RUN_DIR", "allowed: an existing folder", found=folder))
        text = environment.get("MUSTER_EPOCH", "")
        if text.isascii() and text.isdigit() and int(text) > 0:
            epoch = int(text)
        else:
            problems.append(Problem("MUSTER_EPOCH", "allowed: a whole number from 1 on", found=text))
    cached_only = environment.get("MUSTER_CACHED_ONLY", "0")
    if cached_only not in ("0", "1"):
        problems.append(Problem("MUSTER_CACHED_ONLY", "allowed: 0 or 1", found=cached_only))
    profiled_share = _number(environment, "MUSTER_PROFILED_SHARE", 0.0, problems, whole=True)
    if problems:
        raise InputError(*problems)
    run_dir = None if folder is None else Path(folder)
    if run_dir is not None and of_slurm_job:  # no launcher has done it
        make_older_starts_stale(run_dir, epoch)
    return Environment(
        run_dir=run_dir,
        epoch=epoch,
        cache_gb=cache_gb,
        checkpoint_seconds=checkpoint_seconds,
        cached_only=cached_only == "1",
        profiled="MUSTER_PROFILED_SHARE" in environment,
        profiled_share=int(profiled_share),
    )


def _number(
    environment: Mapping[str, str], name: str, default: float, problems: list[Problem], *, whole: bool = False
) -> float:
    text = environment.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0 and (not whole or value.is_integer())):
        kind = "whole number" if whole else "number"
        problems.append(Problem(name, f"allowed: a {kind} from 0 on", found=text))
    return value
