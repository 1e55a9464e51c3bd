"""What squeue says of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from muster.cluster.slurm_nodes import expand_hosts
from muster.slurm_commands import SlurmCommands, SlurmError

_SEPARATOR = "\x1f"
"""No text of a job contains it."""
_WIDTH = 4096
_COLUMNS = (
    "JobID",
    "JobArrayID",
    "State",
    "Reason",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "TimeLimit",
    "RestartCnt",
    "Requeue",
    "exit_code",
    "PriorityLong",
    "NumNodes",
    "NumTasks",
    "cpus-per-task",
    "MinMemory",
    "tres-per-node",
    "tres-per-job",
    "tres-per-task",
    "NodeList",
    "UserName",
    "Dependency",
    "HetJobID",
    "Name",
    "Command",
    "WorkDir",
    "Comment",
)
_JOB = re.compile(r"JobId=(\d+) ")
_ON_NODES = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(?:gpu[^( ]*\(IDX:([0-9,-]+)\))?")
_NOTHING = frozenset({"", "(null)", "N/A", "NONE", "None", "Unknown"})


@dataclass(frozen=True)
class SlurmJob:
    """One row of squeue: a job, or the tasks of an array that are not split off yet."""

    number: int
    values: Mapping[str, str]
    """By column; "" where Slurm has nothing to say."""

    @property
    def is_whole(self) -> bool:
        """A job of its own: no part of a heterogeneous job, and no array with tasks still to be split off."""
        return not self.values["HetJobID"] and "[" not in self.values["JobArrayID"]

    @property
    def state(self) -> str:
        """As squeue says it in full: PENDING, RUNNING, COMPLETING, ..."""
        return self.values["State"]

    @property
    def reason(self) -> str:
        """Why it waits, or how it ended, in Slurm's words."""
        return self.values["Reason"]

    @property
    def submitted(self) -> float:
        """Unix seconds; of its last requeue, if it was requeued."""
        return float(self.values["SubmitTime"] or 0)

    @property
    def restarts(self) -> int:
        """How often it was requeued."""
        return int(self.values["RestartCnt"] or 0)

    @property
    def started(self) -> float:
        """Unix seconds; 0: not yet."""
        return float(self.values["StartTime"] or 0)

    @property
    def ended(self) -> float:
        """Unix seconds; 0: not yet."""
        return float(self.values["EndTime"] or 0)

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes that it has."""
        return expand_hosts(self.values["NodeList"])

    @property
    def exit_status(self) -> int:
        """Of its script, minus the signal's number where a signal ended it."""
        status, apart, number = (self.values["exit_code"] or "0").partition(":")
        if apart:  # from 23.02 on
            return -int(number) if int(number) else int(status)
        return -(int(status) & 0x7F) if int(status) & 0x7F else int(status) >> 8

    @property
    def held(self) -> bool:
        """It waits for its release."""
        return self.state == "PENDING" and self.values["PriorityLong"] == "0"

    @property
    def comment(self) -> str:
        """Free text of its owner."""
        return self.values["Comment"]


def read_jobs(commands: SlurmCommands, partition: str) -> list[SlurmJob]:
    """Return all jobs of a partition that Slurm still knows, by number: one process."""
    form = ",".join(f"{column}:{_WIDTH}{_SEPARATOR}" for column in _COLUMNS)
    asked = ["squeue", "--noheader", "--all", "--states=all", f"--partition={partition}", f"--Format={form}"]
    lines = [line for line in commands.ask(asked).split("\n") if line.strip()]
    return sorted((_job(line) for line in lines), key=lambda job: job.number)


def read_details(commands: SlurmCommands) -> dict[int, dict[str, list[int]]]:
    """Return the GPUs that Slurm has chosen, by job and node: one process for all jobs."""
    printed = commands.ask(["scontrol", "--oneliner", "--details", "show", "job"])
    return {int(found[1]): _gpu_ids(line) for line in printed.splitlines() if (found := _JOB.match(line))}


def _gpu_ids(line: str) -> dict[str, list[int]]:
    chosen: dict[str, list[int]] = {}
    for nodes, ids in _ON_NODES.findall(line):
        numbers = [int(number) for number in expand_hosts(f"[{ids}]")] if ids else []
        chosen |= dict.fromkeys(expand_hosts(nodes), numbers)
    return chosen


def _job(line: str) -> SlurmJob:
    values = [part.strip() for part in line.split(_SEPARATOR)[: len(_COLUMNS)]]
    if len(values) != len(_COLUMNS):
        raise SlurmError(f"squeue: found {len(values)} columns of {len(_COLUMNS)} in {line.strip()[:80]!r}")
    named = dict(zip(_COLUMNS, ("" if value in _NOTHING else value for value in values), strict=True))
    return SlurmJob(int(named["JobID"]), named)
