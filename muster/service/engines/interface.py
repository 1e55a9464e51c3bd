"""The interface of engines: all that the controller needs of them.

A *start* is one attempt at running a job, identified by (job, epoch); epochs of a job count up. An engine has four
calls: `carry_out` takes the commands of a turn as one batch, `poll` reports what it finds, `read_report` what a job
says of itself, `read_output` what it prints. All may take long. The first three are made by one thread of the engine's
own (`thread.py`), one after the other, and the controller never waits for them. It goes by the last poll, whose age it
knows. `read_output` is called when somebody asks for output, by other threads (`output_reader.py`).

Every command may be repeated after a crash: launching a start that was launched, stopping what has stopped, forgetting
what is forgotten changes nothing. No command waits for a process: `poll` reports what became of it. A poll that follows
a launch shows its start. An engine remembers its starts outside the daemon (files, Slurm's job names, Kubernetes'
labels), so that a new daemon finds them.

A command fails with OSError if it cannot be carried out now (a full disk, a refusal of the kernel): nothing has
happened, and it is sent again later. What can never be carried out (no such user, a stale epoch) is reported as the
end of the start. A failed command says nothing about the others of its batch.

A start at which the engine cannot look now (its agent or its controller is away) is reported as it was known last,
never left out: what is missing in a poll counts as gone, and its job is started again. If nothing is known at all,
`poll` raises OSError and everything waits. A node that is away is missing in `EngineView.nodes`, so nothing more is
placed there; its starts stay as they were until the engine gives them up as `Exit.LOST`. They may live on unseen: the
fence of the run folder keeps them from publishing once the next start has begun.

How Slurm, Ray and Kubernetes fit: docs/explanation/engines.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from pathlib import Path
from typing import Protocol, TypeAlias

from muster.cluster import Node
from muster.cluster.ledger import NodeAllocation
from muster.gpu_use import GpuUse
from muster.service.request import JobRequest
from muster.service.store.rows import StateRequest
from muster.training.unchanged import UnchangedJob


@dataclass(frozen=True)
class Launch:
    """Begin a start; before its first process runs, every older one of the job is stale and can publish nothing.

    Once it is carried out, the start cannot be lost any more; its processes come up by themselves. OSError while an
    older start of the job is there.
    """

    job: int
    epoch: int
    run_dir: Path
    """Run folder of the job (docs/how-to/training.md), the same for all its starts, in a folder of its own."""
    output_dir: Path
    """Beside it; output goes to `<rank>.log` here, appended to what earlier starts wrote."""
    command: tuple[str, ...]
    """An argument list; no shell reads it."""
    directory: Path
    environment: Mapping[str, str]
    """The owner's own and what the controller adds for `muster.training`.

    The engine adds MUSTER_RUN_DIR, MUSTER_EPOCH, the GPUs and the variables of torchrun, and where nothing is said
    PATH, HOME, USER, LOGNAME and PYTHONUNBUFFERED. Nothing of the daemon's own is handed down.
    """
    allocations: tuple[NodeAllocation[str], ...]
    """What it holds on each node. An engine that cannot choose GPUs (Slurm, Kubernetes) takes as many as there are
    ids."""
    ranks: tuple[int, ...]
    """Processes on each of these nodes."""
    user: str | None
    """Whose processes they are, where the engine may choose (the daemon is root); None: the daemon's."""
    whose: str = ""
    """Distinguishes this job from another one of the same number, in another store, whose folder is moved aside."""
    output_limit_gb: float = inf
    """Of each file of its output; the oldest part is dropped where it prints more."""
    key: str = ""
    """The engine's own name of a job that was submitted to it (`SubmittedJob`); empty: submitted to Muster."""
    stop_signal: str = "SIGTERM"
    """By which it saves and ends, where the engine stops it without being asked to."""
    part: StartPart | None = None
    """Of a start on several nodes, to an engine on one of them; its allocations and ranks are of that node alone."""


@dataclass(frozen=True)
class ResizeStart:
    """Other CPUs, memory and storage bandwidth for a running start, on the nodes and GPUs that it has.

    Less memory is enforced once the start uses no more than that: its notice asks it to give back. Never sent to an
    engine that cannot resize.
    """

    job: int
    epoch: int
    allocations: tuple[NodeAllocation[str], ...]


@dataclass(frozen=True)
class SendNotice:
    """Instructions for a running start, which replace those before. To stop, it saves and ends.

    The engine writes the notice into the run folder, where there is one. If the start is to stop and does not read
    notices, or if the notice cannot be written, every process of the start gets `stop_signal`. An engine whose nodes
    see the folder late may send the signal in any case. A start gets each signal once, however often it is sent: a
    second one would come into the midst of the saving. A start without processes yet gets none, and never begins.
    """

    job: int
    epoch: int
    run_dir: Path
    stop: bool
    cache_gb: float
    """Memory that each of its processes may fill with samples."""
    reads_notices: bool
    """It has reported through its run folder."""
    stop_signal: str = "SIGTERM"


@dataclass(frozen=True)
class KillStart:
    """End every process of a start at once."""

    job: int
    epoch: int


@dataclass(frozen=True)
class ForgetStart:
    """Remove what is remembered of a start that has ended and whose end is on record; OSError while it lives."""

    job: int
    epoch: int


@dataclass(frozen=True)
class AdoptJob:
    """A job that was submitted to the engine is Muster's job of this number from now on; the engine remembers it."""

    key: str
    job: int
    epoch: int = 0


@dataclass(frozen=True)
class CloseJob:
    """A job of which the engine keeps something has ended, or was cancelled; nothing of it will start any more."""

    key: str
    """As in `SubmittedJob`, or `ReservedJob.whose`."""
    job: int
    completed: bool
    epoch: int = 0


Command: TypeAlias = Launch | ResizeStart | SendNotice | KillStart | ForgetStart | AdoptJob | CloseJob


@dataclass(frozen=True)
class StartPart:
    """The part of a start that runs on one of its nodes (`muster.launcher`)."""

    number: int
    first_rank: int
    world_size: int
    """Ranks of all parts."""
    meeting_folder: Path
    """Of this start alone, seen by all its nodes; there the parts find and end each other."""
    address: str
    """By which the other nodes reach this one."""


class StartRefused(OSError):
    """The engine answers that it does not take this start as it is; it says nothing of others. It is sent again."""


class Exit(Enum):
    """How a start ended."""

    COMPLETED = "completed"
    """All ranks ended with 0, asked to or not: its progress shows whether the work was done."""
    STOPPED = "stopped"
    """It ended with `EXIT_STOPPED`, or by a signal that it was sent (`kill` too; also as 128 + its number, as shells
    say it), or before it had a process: start it again."""
    FAILED = "failed"
    """A rank ended with another status."""
    KILLED = "killed"
    """By a signal that this engine did not send, or by the memory limit: perhaps the job's own doing, perhaps not."""
    LOST = "lost"
    """With its node, or for want of something there (room on a disk, a control group): never the job's own doing."""


@dataclass(frozen=True)
class Observed:
    """What an engine knows of one start."""

    job: int
    epoch: int
    ended: Exit | None
    """None: pending, starting or running."""
    since: float
    """Unix seconds of its first process, or of its end: its last sign of life, if the end was not seen."""
    status: int | None = None
    """Exit status of the first rank that ended badly, minus the signal's number where a signal ended it; 0 if none
    did; None while it lives, or if it is not known."""
    message: str = ""
    """For people, if there is more to say: `killed by the memory limit of 2 GB`."""
    first_step: float | None = None
    """Unix seconds of its first step, from an engine that simulates its jobs; such a job saves its work when it gets a
    signal. None: not made yet, or the job itself reports it."""
    pending: str = ""
    """Why the engine has not given it what it asked for, for people: `Resources`. Empty: it has it."""
    place_taken: bool = False
    """The engine has looked, and what the start was given is taken by another's job, or away with its node."""
    allocations: tuple[NodeAllocation[str], ...] | None = None
    """What it really has, from an engine that chooses GPU ids itself; None: what it was given, or not known yet."""
    failed_rank: int | None = None
    """The first rank that ended badly, where that failed or killed the start; None: none did, or it is not known."""


@dataclass(frozen=True)
class EngineNode:
    """A machine that can be used now."""

    node: Node
    """With the capacity that it has now."""
    others: NodeAllocation[str] | None = None
    """What jobs that are not Muster's hold there; None: nothing. Without GPU ids of its own where the engine chooses
    them: as many as it has ids."""
    closed: bool = False
    """Nothing more starts there, and what runs goes on: others hold all that Muster's jobs do not."""


@dataclass(frozen=True)
class SubmittedJob:
    """A job that was submitted to the engine, as by sbatch, and that Muster is to run. Reported until it is closed."""

    key: str
    """The engine's own name of it, for ever: no other job will have it. Slurm: number and time of submission."""
    user: str
    request: JobRequest
    job: int | None = None
    """Its number with Muster; None: it has not been adopted yet."""
    shown: str = ""
    """As in `UntakenJob.name`; empty: the key."""


@dataclass(frozen=True)
class ReservedJob:
    """A job of Muster without a start, of which the engine keeps something for its next one."""

    job: int
    whose: str
    """As in its launches."""


@dataclass(frozen=True)
class UntakenJob:
    """A job that was submitted to the engine for Muster, and that cannot be taken as it is."""

    name: str
    """By which its owner knows it: `job 17 of Slurm`."""
    user: str
    words: str
    """Why, and what to do."""


@dataclass(frozen=True)
class OwnerRequest:
    """What a job's owner has requested through the engine, as by scancel. Reported until it is carried out."""

    key: str
    request: StateRequest


@dataclass(frozen=True)
class EngineView:
    """What a poll has found."""

    starts: Sequence[Observed]
    """Every start that is not forgotten, those that cannot be looked at now as they were known last."""
    nodes: Sequence[EngineNode]
    """The machines that can be used now. They may join, leave and change size from one poll to the next."""
    submitted: Sequence[SubmittedJob] = ()
    requests: Sequence[OwnerRequest] = ()
    untaken: Sequence[UntakenJob] = ()
    ended_alone: Sequence[Observed] = ()
    """How jobs of `submitted` ended that the engine ran without a start of ours (epoch 0), until they are closed."""
    kept: Sequence[ReservedJob] = ()
    """Reported until it is closed, or has a start again."""
    gpu_use: Mapping[str, Sequence[GpuUse | None]] = field(default_factory=dict)
    """How busy the GPUs of a node are, by its name; None where the driver does not answer. Empty: it is not known."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """By how many seconds the clock of a machine is ahead of this one's, by its name; times here are this one's."""


@dataclass(frozen=True)
class ReportRequest:
    """Where a start reports how far it is."""

    job: int
    epoch: int
    run_dir: Path
    output_dir: Path
    unchanged: UnchangedJob | None
    """It reports in its output, if at all; None: in its run folder."""
    output_read: int = 0
    """Bytes of its output in which no progress is to be looked for."""
    begins: bool = False
    """It has no process yet: what its output holds now was written by earlier starts."""


@dataclass(frozen=True)
class Report:
    """How far a job is, as it reports it; the numbers are checked."""

    step: float
    steps_per_second: float = 0.0
    """0: it does not say."""
    keeps_ranks: bool = False
    """Its script cannot go on with another number of ranks."""


@dataclass(frozen=True)
class ReportFound:
    """What was found where a start reports."""

    report: Report | None = None
    """None: nothing that was not read before."""
    uses_run_folder: bool = False
    """It has reported there."""
    output_read: int = 0
    """Bytes of its output in which no progress is to be looked for any more."""
    wrong: str = ""
    """Why a report was not understood."""


@dataclass(frozen=True)
class OutputRequest:
    """A piece of what a process of a job has printed, in all starts of the job one after the other."""

    job: int
    output_dir: Path
    """As in its launches."""
    user: str
    """The job's owner."""
    whose: str
    """As in its launches: output of another job of this number is none of its own."""
    rank: int
    offset: int
    """Bytes before the piece; a negative one counts from the end of what is there."""
    limit: int
    """Most bytes of the piece."""


@dataclass(frozen=True)
class OutputPiece:
    """A part of what a process has printed, and where the next part begins."""

    data: bytes
    """Empty: there is no more yet."""
    next_offset: int


@dataclass(frozen=True)
class EngineCapabilities:
    """What an engine can do, on every machine. Code that depends on the engine reads these, never its name."""

    can_resize: bool
    """CPU and memory of a running start can change. If not, a job that gets other amounts is stopped and started
    again."""
    runs_as_users: bool
    """Jobs are processes of this machine's accounts: of their owner's where the daemon is root, else of the daemon's.
    If not, owners need no account here, and their jobs do not use this machine's files."""
    chooses_gpu_ids: bool = False
    """The engine decides which GPUs of a node a start gets, and reports them (`Observed.allocations`)."""
    shares_gpus: bool = True
    """Several starts can run on one GPU."""
    same_amounts_on_each_node: bool = False
    """A start has the same numbers of GPUs and CPUs and the same memory on each of its nodes."""
    spans_nodes: bool = True
    """The processes of a start on several nodes reach each other."""
    poll_seconds: float = 0.2
    """Between two polls: a change is observed so much later, at most."""
    pending_limit_seconds: float = inf
    """For which a start may be pending before it is taken back. Where `Observed.place_taken`, two polls are enough."""


class Engine(Protocol):
    """Starts on nodes. One thread at a time uses it, but for `read_output`, and any call may take long."""

    @property
    def capabilities(self) -> EngineCapabilities:
        """The capabilities of its factory."""
        ...

    @property
    def enforces(self) -> str:
        """How CPU and memory limits are enforced here, for people: `cgroup v1: CPU quota, memory limit`."""
        ...

    def carry_out(self, commands: Sequence[Command]) -> Sequence[Exception | None]:
        """Carry out the commands of a turn in their order; for each of them the reason of its failure, if it failed."""
        ...

    def poll(self) -> EngineView:
        """What there is now. OSError if nothing can be known: nothing has changed then."""
        ...

    def read_report(self, request: ReportRequest) -> ReportFound:
        """How far a start is; it raises nothing, whatever a job has written."""
        ...

    def read_output(self, request: OutputRequest) -> OutputPiece:
        """What a process has printed, also before its first start and after the last; OSError if that cannot be known.

        Called by several threads at once, beside the other calls.
        """
        ...
