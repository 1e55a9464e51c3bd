"""Slurm's commands, run as processes: also those that change something, for the engine alone."""

from __future__ import annotations

import subprocess
from collections.abc import Container, Sequence
from dataclasses import dataclass

from muster.slurm_queries import SlurmError, SlurmQueries, explained

__all__ = ["SlurmCommands", "SlurmError", "explained"]


@dataclass(frozen=True)
class SlurmCommands(SlurmQueries):
    """Runs any command of one cluster, each for a limited time."""

    def done(
        self,
        command: Sequence[str],
        text: str = "",
        errors: int = subprocess.PIPE,
        passed_on: Container[str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Return a command that has ended, whatever its status. SlurmError if it is not installed or takes too long.

        `passed_on` are the variables that it sees beside those of Slurm; all by default.
        """
        done = self._done(command, text, errors, passed_on)
        printed, said = ((part or b"").decode("utf-8", "replace") for part in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, printed, said)
