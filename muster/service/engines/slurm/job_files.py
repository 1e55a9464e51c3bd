"""The files of a start on the shared disk: what Slurm runs on each node, and what that finds there."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping

from muster.files import write_aside
from muster.service.engines.identity import identity_of, owner_environment
from muster.service.engines.interface import Launch
from muster.service.engines.job_folder import make_folder, make_job_folder
from muster.service.engines.parts import meeting_folder, start_file

_START = "start.json"
_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Variables in which Slurm says which GPUs a task has."""


def write_start(launch: Launch, addresses: Mapping[str, str]) -> None:
    """Write what the launcher reads on each node. OSError if the disk is full or away."""
    identity = identity_of(launch.user)
    make_job_folder(launch, identity, owner_writes_output=True)
    if len(launch.allocations) > 1:
        meeting = meeting_folder(launch)
        make_folder(meeting.parent, 0o711, None)
        make_folder(meeting, 0o700, identity)
    reached = [addresses.get(here.node, here.node) for here in launch.allocations]
    environment = {**owner_environment(launch, identity), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    content = start_file(launch, reached, environment, inherited=_GPUS)
    path = launch.run_dir.parent / _START
    with write_aside(path) as aside:
        aside.write_text(json.dumps(content))
        aside.chmod(0o600)
        if identity is not None:
            os.chown(aside, identity["uid"], identity["gid"])


def batch_script(launch: Launch) -> str:
    """Return the script of a job, the same for all its starts: one launcher on each node."""
    launcher = [sys.executable, "-m", "muster.launcher", str(launch.run_dir.parent / _START)]
    command = ["srun", "--mpi=none", *launcher, "--part-variable", "SLURM_NODEID"]
    return f"#!/bin/sh\nexec {shlex.join(command)}\n"
