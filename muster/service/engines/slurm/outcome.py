"""From what Slurm says of an ended job to how a start ended."""

from __future__ import annotations

import signal

from muster.service.engines.interface import Exit
from muster.service.engines.slurm.records import StartRecord
from muster.service.engines.slurm.status import SlurmJob
from muster.training.run_folder import EXIT_STOPPED

LIVING = frozenset(
    {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"}
)
_LOST = {
    "NODE_FAIL": "a node failed",
    "BOOT_FAIL": "a node could not be booted",
    "LAUNCH_FAILED": "Slurm could not launch it",
    "PREEMPTED": "Slurm preempted it for another job",
}
_KILLED = {
    "TIMEOUT": "ended by its time limit in Slurm",
    "DEADLINE": "ended by its deadline in Slurm",
    "OUT_OF_MEMORY": "killed by its memory limit",
}
_OUTPUT_MISSING = 53
"""Signal that Slurm reports where a job's output folder is missing."""


def outcome(row: SlurmJob, record: StartRecord) -> tuple[Exit, int | None, str]:
    """Return how the start ended, its status, and a message for people."""
    status = row.exit_status
    if row.state == "CANCELLED":
        if record.killed or record.stopping:
            return Exit.STOPPED, status, ""
        return Exit.KILLED, status, "cancelled in Slurm, not by Muster"
    if row.state in _LOST:
        return Exit.LOST, status, _LOST[row.state]
    if row.state in _KILLED:
        return Exit.KILLED, status, _KILLED[row.state]
    if status == 0:
        return Exit.COMPLETED, 0, ""
    if status == EXIT_STOPPED or _was_sent(status, record):
        return Exit.STOPPED, status, ""
    if status == -_OUTPUT_MISSING:
        return Exit.LOST, status, "Slurm could not write its output"
    if status < 0:
        return Exit.KILLED, status, f"a rank was ended by {_name(-status)}"
    return Exit.FAILED, status, f"a rank ended with status {status}"


def _was_sent(status: int, record: StartRecord) -> bool:
    """Whether it is the status of a process, or of a shell around it, that ended by what it was sent."""
    numbers = {signal.Signals[name].value for name in record.sent}
    if record.killed:
        numbers.add(signal.SIGKILL.value)
    return (-status if status < 0 else status - 128) in numbers


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
