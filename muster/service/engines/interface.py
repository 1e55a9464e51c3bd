"""The interface of engines: all that the controller needs of them.

A *start* is one attempt at running a job, identified by (job, epoch); epochs of a job count up. Every call may be
repeated after a crash: launching a start that was launched, stopping what has stopped, forgetting what is forgotten
changes nothing. No call waits for a process: `observe` reports what became of it. An engine remembers its starts
outside the daemon (files, Slurm's job names, Kubernetes' labels), so that a new daemon finds them by `observe`.

A call raises OSError if it cannot be carried out now (a full disk, a refusal of the kernel): nothing has happened,
ask again later. What can never be carried out (no such user, a stale epoch) is reported as the end of the start. One
thread uses an engine.

A start at which the engine cannot look now (its agent or its controller is away) is reported as it was known last,
never left out: what is missing in `observe` counts as gone, and its job is started again. If nothing is known at all,
`observe` raises OSError and everything waits. A node that is away is missing in `nodes`, so nothing more is placed
there; its starts stay as they were until the engine gives them up as `Exit.LOST`. They may live on unseen: the fence
of the run folder keeps them from publishing once the next start has begun.

Checked on paper against the engines to come (details: docs/explanation/engines.md):

| | launch | signal | resize | observe | nodes |
|---|---|---|---|---|---|
| Slurm | release a held job, rewritten | scancel --signal | never (`can_resize`) | squeue, sacct | sinfo |
| Ray | call of the node's agent | call of the agent | affinity by the agent | call of the agents | list of nodes |
| Kubernetes | unsuspend a Job, rewritten | delete with grace: SIGTERM only | pods/resize | watch of pods | watch |

Notices to a job that uses `muster.training` go through its run folder on a shared disk, whatever the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from pathlib import Path
from typing import Protocol

from muster.cluster import Node
from muster.cluster.ledger import NodeAllocation


@dataclass(frozen=True)
class Launch:
    """All that an engine needs to know to run one start of a job."""

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
    """Of each file of its output; a start that writes more has failed."""


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
    """None: starting or running."""
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


@dataclass(frozen=True)
class EngineCapabilities:
    """What an engine can do, on every machine. Code that depends on the engine reads these, never its name."""

    can_resize: bool
    """CPU and memory of a running start can change. If not, `resize` is never called: a job that gets other amounts
    is stopped and started again."""
    runs_as_users: bool
    """Jobs are processes of this machine's accounts: of their owner's where the daemon is root, else of the daemon's.
    If not, owners need no account here, and their jobs do not use this machine's files."""


class Engine(Protocol):
    """Processes on nodes."""

    @property
    def capabilities(self) -> EngineCapabilities:
        """The capabilities of its factory."""
        ...

    @property
    def enforces(self) -> str:
        """How CPU and memory limits are enforced here, for people: `cgroup v1: CPU quota, memory limit`."""
        ...

    def nodes(self) -> Sequence[Node]:
        """The machines that can be used now: asked at every turn, so it must cost little."""
        ...

    def launch(self, launch: Launch) -> None:
        """Begin a start; before its first process runs, every older one of the job is stale and can publish nothing.

        Returns as soon as the start cannot be lost any more; its processes come up by themselves. OSError while an
        older start of the job is there.
        """
        ...

    def resize(self, job: int, epoch: int, allocations: Sequence[NodeAllocation[str]]) -> None:
        """Other CPUs, memory and storage bandwidth for a running start, on the nodes and GPUs that it has.

        Less memory is enforced once the start uses no more than that: its notice asks it to give back.
        """
        ...

    def signal(self, job: int, epoch: int, name: str) -> None:
        """Send a signal to every process of a start, so that it saves and ends; without processes yet it gets none.

        Each signal once, however often this is called: a second one would come into the midst of the saving.
        """
        ...

    def kill(self, job: int, epoch: int) -> None:
        """End every process of a start at once."""
        ...

    def observe(self) -> Sequence[Observed]:
        """Every start that is not forgotten, those that cannot be looked at now as they were known last."""
        ...

    def forget(self, job: int, epoch: int) -> None:
        """A start that has ended and whose end is on record; OSError while it lives."""
        ...
