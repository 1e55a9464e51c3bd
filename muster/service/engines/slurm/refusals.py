"""Why Slurm does not take or begin a job, for its owner: Slurm's own words, and what they mean."""

from __future__ import annotations

import re

from muster.service.engines.interface import StartRefused
from muster.slurm_commands import SlurmError

_MEANINGS = {
    "BadConstraints": "the nodes that it was given do not have what it requests",
    "BeginTime": "it begins later; it waits longer if the clock of slurmctld is behind: muster nodes",
    "PartitionDown": "the partition starts no jobs",
    "PartitionInactive": "the partition takes no jobs",
    "PartitionNodeLimit": "the partition does not allow so many nodes",
    "PartitionTimeLimit": "the partition does not allow such a long time limit",
    "InvalidAccount": "its account does not exist or may not be used here",
    "InvalidQOS": "its QOS does not exist or may not be used here",
    "JobHeldUser": "its owner holds it in Slurm",
    "JobHeldAdmin": "it is held in Slurm",
    "Resources": "its nodes do not have this free",
    "Priority": "Slurm serves other jobs first",
    "ReqNodeNotAvail": "a node that it was given cannot be used",
    "Reservation": "its reservation has not begun",
    "Licenses": "it waits for licences",
}
"""Of reasons as squeue prints them; what follows a comma or a bracket says more."""
_LIMITS = re.compile(r"(Assoc|QOS)[A-Z]\w*")
_PREFIX = re.compile(r"\b(?:sbatch|scontrol): (?:error: )?")


def waiting_words(reason: str) -> str:
    """Return why Slurm does not begin a job, from the reason that squeue prints."""
    name = re.split(r"[,( ]", reason, maxsplit=1)[0]
    meaning = _MEANINGS.get(name, "")
    if not meaning and _LIMITS.fullmatch(name):
        meaning = "a limit of its account or QOS is reached"
    return f"{reason} ({meaning})" if meaning else reason


def refusal(message: str) -> OSError:
    """Return the error of a start that Slurm does not take: the job's own, unless Slurm refuses all of them."""
    error = SlurmError(message)
    return error if error.is_known else StartRefused(_PREFIX.sub("", message))
