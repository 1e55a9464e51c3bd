"""The files of a start on the shared disk: what Slurm runs on each node, and what that finds there."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence

from muster.files import write_aside
from muster.service.engines.identity import identity_of, owner_environment
from muster.service.engines.interface import Launch
from muster.service.engines.job_folder import make_folder, make_job_folder
from muster.service.engines.parts import SIGNALS, meeting_folder, start_file
from muster.training.slurm_job import start_of_slurm_job

_START = "start.json"
_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Variables in which Slurm says which GPUs a task has."""


def passed_on(config: str) -> tuple[str, ...]:
    """Return the signals that the launcher passes on to its ranks, from `scontrol show config`.

    By control groups Slurm signals only the processes that it has begun itself, otherwise all of a task: then its ranks
    would get the signal twice, and the second one in the midst of their saving.
    """
    return SIGNALS if re.search(r"^ProctrackType\s*=\s*proctrack/cgroup", config, re.MULTILINE) else ()


def write_start(launch: Launch, addresses: Mapping[str, str], passes_on: Sequence[str]) -> None:
    """Write what the launcher reads on each node. OSError if the disk is full or away."""
    identity = identity_of(launch.user)
    make_job_folder(launch, identity, owner_writes_output=True)
    if len(launch.allocations) > 1:
        meeting = meeting_folder(launch)
        make_folder(meeting.parent, 0o711, None)
        make_folder(meeting, 0o700, identity)
    reached = [addresses.get(here.node, here.node) for here in launch.allocations]
    environment = {**owner_environment(launch, identity), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    content = start_file(launch, reached, environment, inherited=_GPUS, passes_on=passes_on)
    path = launch.run_dir.parent / _START
    with write_aside(path) as aside:
        aside.write_text(json.dumps(content))
        aside.chmod(0o600)
        if identity is not None:
            os.chown(aside, identity["uid"], identity["gid"])


def write_submitted_start(launch: Launch, slurm_job: int, restarts: int) -> None:
    """Write what `muster.training` finds in a job that its owner submitted to Slurm, by its number there."""
    make_job_folder(launch, identity_of(launch.user), owner_writes_output=True)
    found = start_of_slurm_job(launch.run_dir.parent.parent, slurm_job)
    make_folder(found.parent, 0o711, None)
    variables = {name: value for name, value in launch.environment.items() if name.startswith("MUSTER_")}
    variables |= {"MUSTER_RUN_DIR": str(launch.run_dir), "MUSTER_EPOCH": str(launch.epoch)}
    with write_aside(found) as aside:
        aside.write_text(json.dumps({"restarts": restarts, "environment": variables}))
        aside.chmod(0o644)


def batch_script(launch: Launch) -> str:
    """Return the script of a job, the same for all its starts: one launcher on each node."""
    launcher = [sys.executable, "-m", "muster.launcher", str(launch.run_dir.parent / _START)]
    command = ["srun", "--mpi=none", *launcher, "--part-variable", "SLURM_NODEID"]
    return f"#!/bin/sh\nexec {shlex.join(command)}\n"
