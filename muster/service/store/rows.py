"""Values that the store keeps. Times are seconds since the store was made (`Store.origin`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from muster.cluster.ledger import NodeAllocation
from muster.service.request import JobRequest


class State(StrEnum):
    """A job's state, as owners see it."""

    QUEUED = "queued"
    RUNNING = "running"
    HELD = "held"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    """Ended at its time limit."""


ENDED = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED, State.TIMED_OUT})


PRIORITY = "priority"
"""The kind of the line of a job's history that says that its priority was changed."""


STARTED, ASKED_TO_STOP = "started", "asked to stop"
"""Kinds of lines that say that a start began, and that it was asked to end."""


class StopReason(StrEnum):
    """Why a start was asked to stop: the detail of that line of its job's history."""

    PREEMPTED = "preempted"
    MOVE = "to move"
    HOLD = "to be held"
    CANCEL = "to be cancelled"
    TIME_LIMIT = "time limit"
    TAKEN_BACK = "taken back"
    """The engine had not begun it."""


class StateRequest(StrEnum):
    """What its owner requests for a job; on disk before it is acknowledged, carried out by the controller."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"


class Phase(StrEnum):
    """Where the present start of a job is."""

    NONE = ""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class SizeSteps(NamedTuple):
    """What a step of an elastic job took on one number of GPUs."""

    nodes: int
    gpus: int
    seconds: float
    """As its newest start of this size has measured it."""


@dataclass(frozen=True)
class JobRow:
    """One job: what was asked, and what has happened to it so far."""

    id: int
    user: str
    request: JobRequest
    submitted: float
    state: State = State.QUEUED
    state_request: StateRequest | None = None
    phase: Phase = Phase.NONE
    epoch: int = 0
    """Of its newest start; 0: never started."""
    first_start: float | None = None
    last_start: float | None = None
    last_stop: float | None = None
    finished: float | None = None
    steps_done: float = 0.0
    steps_per_second: float = 0.0
    """Measured, 0 before the first report."""
    run_seconds: float = 0.0
    attained_gpu_seconds: float = 0.0
    restart_seconds: float = 0.0
    """Of them without a step: before the first one of each start, as well as its reports show."""
    preemptions: int = 0
    moves: int = 0
    deaths: int = 0
    """In a row that were not its own doing, without progress between them."""
    reason: str = "not_considered"
    """Why it holds nothing: a name of `schedulers.reasons`; `placed` if it holds something."""
    reason_parameters: Mapping[str, float] = field(default_factory=dict)
    reason_since: float = 0.0
    status: int | None = None
    """Exit status; minus the signal's number where a signal ended it."""
    message: str = ""
    """Why it failed."""
    failed_rank: int | None = None
    """The process whose end failed it; None: it has not failed, or it is not known which."""
    lease_end: float | None = None
    """When it gives back what it holds, where its scheduler lends for a time; None: for no certain time."""
    steps_before: float = 0.0
    """Steps that were done when the present start began."""
    output_read: int = 0
    """Bytes of its output in which no progress of the present start is to be looked for any more."""
    joined: bool = False
    """One of its starts has reported through `muster.training`."""
    first_step: float | None = None
    """When the newest start made its first step; None: not seen."""
    start_up_seconds: float | None = None
    """From a launch to its first step, as last measured; None: never."""
    stop_seconds: float | None = None
    """From a request to stop until its GPUs were free, as last measured; None: never."""

    engine_key: str | None = None
    """The engine's own name of a job that was submitted to it, as by sbatch; None: submitted to Muster."""
    fixed_gpus: int | None = None
    """GPUs that it keeps, as its script has shown that it cannot go on with another number of ranks; None: not so."""
    fixed_nodes: tuple[str, ...] = ()
    """Nodes of its newest start, where its script goes on only with as many processes, one on each; (): any number."""
    size_steps: tuple[SizeSteps, ...] = ()
    """Of a job that changes its size, those that it has had."""

    @classmethod
    def of_all_fields(cls, fields: Mapping[str, Any]) -> JobRow:
        """The same as `JobRow(**fields)`, which takes ten times as long: it sets one field after another."""
        row = cls.__new__(cls)
        vars(row).update(fields)
        return row

    @property
    def usual_gpus(self) -> int:
        """GPUs that it asks for."""
        return self.request.gpus if self.fixed_gpus is None else self.fixed_gpus

    @property
    def gpu_bounds(self) -> tuple[int, int]:
        """Fewest and most GPUs that it may be given."""
        if self.fixed_gpus is not None:
            return self.fixed_gpus, self.fixed_gpus
        return self.request.fewest_gpus, self.request.most_gpus

    def on_usual_gpus(self, seconds: float) -> float:
        """Return seconds of its ended starts as on the GPUs that it asks for; those that it had do in proportion."""
        if not self.request.changes_size or self.run_seconds <= 0:
            return seconds
        return seconds * self.attained_gpu_seconds / (self.run_seconds * self.usual_gpus)

    def is_over_time(self, ran: float) -> bool:
        """Whether all starts together, so many seconds of the newest one included, have used up the time limit."""
        limit = self.request.time_limit_seconds
        return limit is not None and self.run_seconds + ran >= limit

    @property
    def saves_when_stopped(self) -> bool:
        """Whether a stop costs no work: it uses `muster.training`, or its owner has declared a stop signal."""
        return self.joined or self.request.stop_signal is not None

    @property
    def restart_cost_seconds(self) -> float | None:
        """Seconds of start-up and stop, as last measured; None: never."""
        if self.start_up_seconds is None:
            return None
        return self.start_up_seconds + (self.stop_seconds or 0.0)

    @property
    def preemptible(self) -> bool:
        """Whether it may be stopped to make room for another job: as its owner says, else if it saves its work."""
        allowed = self.request.preemptible
        return self.saves_when_stopped if allowed is None else allowed

    @property
    def runs_once(self) -> bool:
        """Whether it runs, and its owner has submitted it to the engine as a job that is not started again."""
        runs = self.state is State.RUNNING and self.phase is Phase.RUNNING
        return runs and self.engine_key is not None and self.request.preemptible is False

    @property
    def deadline(self) -> float | None:
        """The time by which it should complete; None: its owner states no deadline."""
        after = self.request.deadline_seconds
        return None if after is None else self.submitted + after

    @property
    def whose(self) -> str:
        """Distinguishes it from a job of the same number in another store, or after a backup came back."""
        return f"{self.user} {self.submitted!r}"


@dataclass(frozen=True)
class AllocationInterval:
    """What one start of a job holds, or held, on one node, and when."""

    job: int
    epoch: int
    allocation: NodeAllocation[str]
    since: float
    until: float | None = None
    """None: it still holds it."""


class Version(NamedTuple):
    """Which state a store is in."""

    event: int
    """The number of the last line of any job's history."""
    job: int
    """The newest job."""
    turn: int
    """Commits of the controller."""
    other: int
    """Nodes drained, and old jobs removed, by this process."""


class Holder(NamedTuple):
    """Whose a job is that holds something, and what it is called."""

    user: str
    name: str
    model: str | None
    tenant: str | None


class JobLabel(NamedTuple):
    """Whose a job is, what it is called, and what has become of it."""

    user: str
    name: str
    state: State
    finished: float | None
    model: str | None = None
    tenant: str | None = None


class QueuedDemand(NamedTuple):
    """What waiting jobs ask for of one resource."""

    amount: float
    """GPUs, CPU cores or GB of memory."""
    jobs: int
    """Those that ask for any of it."""


class StepsDone(NamedTuple):
    """How far one start of a job was at a moment: two of them in a row give its speed between them."""

    job: int
    epoch: int
    time: float
    steps: float


@dataclass(frozen=True)
class PendingInterval:
    """A stretch of time in which a job waited for one reason."""

    job: int
    reason: str
    parameters: Mapping[str, float]
    since: float
    until: float


@dataclass(frozen=True)
class Event:
    """One line of a job's history: `submitted`, `started`, `notice`, `killed`, `resized`, ..."""

    job: int
    time: float
    kind: str
    detail: str = ""


@dataclass
class StoreChanges:
    """What the controller writes in one transaction: all of it or nothing."""

    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Job to the fields of `JobRow` that change; of `requested` see `carried_out`."""
    carried_out: dict[int, StateRequest] = field(default_factory=dict)
    """Job to the request that is done with. If its owner has requested another state meanwhile, that stays."""
    opened: list[AllocationInterval] = field(default_factory=list)
    closed: dict[tuple[int, int], float] = field(default_factory=dict)
    """(job, epoch) whose open intervals end, and when; closed before `opened` are opened."""
    really_held: dict[tuple[int, int], tuple[NodeAllocation[str], ...]] = field(default_factory=dict)
    """(job, epoch) to what it really holds, where its open intervals name other GPUs, CPUs or memory."""
    decisions: list[Mapping[str, float | None]] = field(default_factory=list)
    """By the columns of `runtime.records.DECISIONS`."""
    pending: list[PendingInterval] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    steps: list[StepsDone] = field(default_factory=list)
    scheduler_state: bytes | None = None
    """None: unchanged."""

    def job(self, number: int, **fields: Any) -> None:
        """Note new values for some fields of a job."""
        self.jobs.setdefault(number, {}).update(fields)

    def event(self, job: int, time: float, kind: str, detail: str = "") -> None:
        """Note a line of a job's history."""
        self.events.append(Event(job, time, kind, detail))

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return self != StoreChanges()


@dataclass(frozen=True)
class NumberedEvent:
    """A line of a job's history, as all that follow the daemon see it."""

    number: int
    """In the order in which they were written."""
    user: str
    """Of the job."""
    event: Event


class JobOrder(StrEnum):
    """By what a list of jobs is sorted."""

    ID = "id"
    NAME = "name"
    USER = "user"
    STATE = "state"
    SUBMITTED = "submitted"
    GPU_SECONDS = "attained_gpu_seconds"
    RUN_SECONDS = "run_seconds"
    PREEMPTIONS = "preemptions"
    REASON = "reason"


@dataclass(frozen=True)
class JobSearch:
    """Which jobs to list, and in which order."""

    text: str = ""
    """Part of the name or of the user, or a job's number; empty: any."""
    states: frozenset[State] | None = None
    """None: all."""
    user: str | None = None
    submitted_since: float | None = None
    submitted_until: float | None = None
    order: JobOrder = JobOrder.ID
    descending: bool = True
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True)
class UserUse:
    """What one user's jobs have had so far."""

    user: str
    jobs: int
    running: int
    queued: int
    attained_gpu_seconds: float
    run_seconds: float
    restart_seconds: float


@dataclass(frozen=True)
class TenantUse:
    """What one tenant's jobs have had so far, and hold."""

    tenant: str
    """Empty: the jobs without one."""
    jobs: int
    running: int
    queued: int
    held: int
    """Jobs that their owners hold back."""
    attained_gpu_seconds: float
    held_gpus: float = 0.0


@dataclass(frozen=True)
class SessionRow:
    """A person's session in a browser, as it is kept: only the hash of its secret."""

    hash: str
    user: str
    operator: bool
    token: int | None
    """Whose text opened it, so that it ends with that; None: an account of the machine."""
    until: float


@dataclass(frozen=True)
class NodeRow:
    """A machine, as operators see it."""

    name: str
    drained: bool
    """Nothing new starts there; what runs there is moved away."""


@dataclass(frozen=True)
class Submission:
    """A request and whose it is."""

    user: str
    request: JobRequest
    engine_key: str | None = None
    """Of a job that was submitted to the engine."""


@dataclass(frozen=True)
class Caller:
    """Who sends a request, and with which rights."""

    user: str
    operator: bool
    """May see and control the jobs of all users, and drain nodes."""
    token: int | None = None
    """Id of the token that was sent, or that opened the session; None: an account of the machine."""
    in_session: bool = False


@dataclass(frozen=True)
class TokenRow:
    """An access token as it is kept: only its hash."""

    id: int
    user: str
    operator: bool
    hash: str
    created: float
    revoked: float | None = None
