"""What squeue says of jobs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from muster.cluster.slurm_nodes import expand_hosts
from muster.slurm_commands import SlurmCommands, SlurmError

_SEPARATOR = "\x1f"
_WIDTH = 256
_WIDER = {"NodeList": 4096, "Name": 1024, "Command": 4096, "WorkDir": 4096, "Comment": 4096}
_COLUMNS = (
    "JobID",
    "JobArrayID",
    "Partition",
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
    "tres-per-socket",
    "mem-per-tres",
    "cpus-per-tres",
    "tres-alloc",
    "Feature",
    "NodeList",
    "ReqNodes",
    "UserName",
    "Dependency",
    "HetJobID",
    "Name",
    "Command",
    "WorkDir",
    "Comment",
)
EXCLUDED = "ExcNodes"
"""Of jobs from `with_excluded` alone: squeue says it in its older form only."""
_WIDTHS = {column: _WIDER.get(column, _WIDTH) for column in _COLUMNS}
"""In bytes; squeue cuts longer texts and fills up shorter ones."""
_MARK_WIDTHS = {"JobID": 16, "Partition": 256, "State": 16, "Comment": 256}
"""Muster's own comments are shorter."""
_CONFIG = re.compile(r"Configuration data as of (\d+)")
_JOB = re.compile(r"^JobId=(\d+) ", re.MULTILINE)
_ON_NODES = re.compile(r" Nodes=(\S+) CPU_IDs=(\S*) Mem=(\d+) GRES=(?:gpu[^( ]*\(IDX:([0-9,-]+)\))?")
_RUNS = re.compile(r" JobState=RUNNING ")
_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
_UNKNOWN = "Invalid job id"
"""What squeue says where it knows none of the jobs that are asked for."""
_NOTHING = frozenset({"", "(null)", "N/A", "NONE", "None", "Unknown"})


@dataclass(frozen=True)
class SlurmJob:
    """One row of squeue: a job, or the tasks of an array that are not split off yet."""

    number: int
    values: Mapping[str, str]
    """By column; "" where Slurm has nothing to say."""

    @property
    def is_whole(self) -> bool:
        """No array with tasks still to be split off."""
        return "[" not in self.values["JobArrayID"]

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
        """Unix seconds; 0: not yet. Of a job that waits: before which it does not begin, if that is later than now."""
        return float(self.values["StartTime"] or 0)

    @property
    def ended(self) -> float:
        """Unix seconds; 0: not yet."""
        return float(self.values["EndTime"] or 0)

    @property
    def last_end(self) -> float:
        """Unix seconds of the end of its last run, for a job with no run now; a requeue submits it then. 0: none."""
        if self.state != "PENDING":
            return self.ended
        return self.submitted if self.restarts else 0.0

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
    def launch_failed(self) -> bool:
        """Slurm has held it by itself, as a node of it could not begin it."""
        return self.reason.replace("_", " ").startswith("launch failed requeued")

    @property
    def comment(self) -> str:
        """Free text of its owner."""
        return self.values["Comment"]


def read_jobs(commands: SlurmCommands, partition: str) -> list[SlurmJob]:
    """Return all jobs of a partition that Slurm still knows, by number: one process."""
    return _read(commands, _WIDTHS, f"--partition={partition}")


def with_excluded(commands: SlurmCommands, partition: str, jobs: Collection[SlurmJob]) -> list[SlurmJob]:
    """Return these jobs that wait with the nodes that their owners exclude; a process if there are any."""
    if not jobs:
        return []
    asked = ["squeue", "--noheader", "--all", "--states=PENDING", f"--partition={partition}"]
    printed = commands.ask([*asked, "--format=%i %x"]).splitlines()
    found = (line.strip().partition(" ") for line in printed)
    excluded = {number: "" if names.strip() in _NOTHING else names.strip() for number, _, names in found}
    return [replace(job, values={**job.values, EXCLUDED: excluded.get(str(job.number), "")}) for job in jobs]


def read_marks(commands: SlurmCommands) -> list[SlurmJob]:
    """Return the jobs of all partitions that Slurm still knows, with partition, state and comment alone.

    There may be very many of them.
    """
    return _read(commands, _MARK_WIDTHS)


def read_numbered(commands: SlurmCommands, numbers: Collection[int]) -> list[SlurmJob]:
    """Return the jobs of these numbers that Slurm still knows, whatever their partition; a process if there are any."""
    if not numbers:
        return []
    try:
        return _read(commands, _WIDTHS, f"--jobs={','.join(map(str, sorted(numbers)))}")
    except SlurmError as error:
        if _UNKNOWN in str(error):
            return []
        raise


def _read(commands: SlurmCommands, widths: Mapping[str, int], *which: str) -> list[SlurmJob]:
    form = ",".join(f"{column}:{width}{_SEPARATOR}" for column, width in widths.items())
    asked = ["squeue", "--noheader", "--all", "--states=all", *which, f"--Format={form}"]
    jobs = (_job(widths, values) for values in _rows(commands.ask_bytes(asked), widths))
    return sorted(jobs, key=lambda job: job.number)


@dataclass(frozen=True)
class HeldOnNode:
    """What Slurm has given a job on one node."""

    gpu_ids: list[int]
    cpus: int
    memory_mib: int
    shows_gpus: bool
    """It still runs: of an ended job Slurm does not say which GPUs it had."""


def read_details(commands: SlurmCommands) -> dict[int, dict[str, HeldOnNode]]:
    """Return what Slurm has given jobs, by job and node: one process for all jobs."""
    printed = commands.ask(["scontrol", "--oneliner", "--details", "show", "job"])
    _, *parts = _JOB.split(printed)  # Not by lines: a job's name may hold newlines.
    return {int(number): _held(text) for number, text in zip(parts[::2], parts[1::2], strict=True)}


def mib(text: str) -> float:
    """Return an amount of memory that Slurm prints, as 125000M or 4G."""
    found = re.match(r"([\d.]+)([KMGT]?)", text)
    return float(found[1]) * _MIB[found[2] or "M"] if found else 0.0


def time_of_config(printed: str) -> float | None:
    """Return the second in which slurmctld has answered `scontrol show config`; None if it does not say so."""
    found = _CONFIG.match(printed)
    return float(found[1]) if found else None


def _held(text: str) -> dict[str, HeldOnNode]:
    found: dict[str, HeldOnNode] = {}
    runs = _RUNS.search(text) is not None
    for nodes, cpus, memory, gpus in _ON_NODES.findall(text):
        here = HeldOnNode(_numbers(gpus), len(_numbers(cpus)), int(memory), runs)
        found |= dict.fromkeys(expand_hosts(nodes), here)
    return found


def _numbers(ranges: str) -> list[int]:
    return [int(number) for number in expand_hosts(f"[{ranges}]")] if ranges else []


def _rows(printed: bytes, widths: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield the values of each row, cut by the widths of the columns: any of them may hold separators and newlines."""
    ends = list(accumulate(width + 1 for width in widths.values()))
    length = ends[-1] + 1
    for row in (printed[begin : begin + length] for begin in range(0, len(printed), length)):
        if len(row) != length or any(row[end - 1] != ord(_SEPARATOR) for end in ends):
            shown = row[:80].decode("utf-8", "replace").strip()
            raise SlurmError(f"squeue: found other columns than those that were asked for: {shown!r}")
        cut = (row[begin : end - 1] for begin, end in pairwise([0, *ends]))
        yield [value.decode("utf-8", "replace").strip() for value in cut]


def _job(columns: Iterable[str], values: Sequence[str]) -> SlurmJob:
    named = dict(zip(columns, ("" if value in _NOTHING else value for value in values), strict=True))
    return SlurmJob(int(named["JobID"]), named)
