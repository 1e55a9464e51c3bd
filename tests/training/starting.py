"""Starts of real jobs: what a scheduler does, in a few lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from muster.training.run_folder import begin_start

HERE = Path(__file__).parent


def variables(run_dir: Path, epoch: int, **more: str) -> dict[str, str]:
    """Environment of a start that saves after every step."""
    reply = {"MUSTER_RUN_DIR": str(run_dir), "MUSTER_EPOCH": str(epoch), "MUSTER_CHECKPOINT_SECONDS": "0"}
    return {**os.environ, "OMP_NUM_THREADS": "1", **reply, **more}


def alone() -> dict[str, str]:
    """Environment of a job that no scheduler started."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    return {**kept, "OMP_NUM_THREADS": "1"}


def start(job: str, *arguments: object, env: dict[str, str]) -> subprocess.Popen[str]:
    """A job's process in a session of its own, its output line by line."""
    command = [sys.executable, "-u", str(HERE / job), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def let_step(process: subprocess.Popen[str]) -> None:
    """Lets a gated job end one step."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def next_step(process: subprocess.Popen[str]) -> int:
    """The number of steps done at the job's next line."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def outcome(process: subprocess.Popen[str], *, status: int = 0) -> str:
    """The last line of a job that ends with this status."""
    output, errors = process.communicate(timeout=120)
    assert process.returncode == status, errors
    return output.splitlines()[-1] if output else ""


def run(job: str, *arguments: object, env: dict[str, str], status: int = 0) -> str:
    return outcome(start(job, *arguments, env=env), status=status)


def begin(run_dir: Path, epoch: int, **more: str) -> dict[str, str]:
    """A new start's environment, older starts being stale from here on."""
    begin_start(run_dir, epoch)
    return variables(run_dir, epoch, **more)
