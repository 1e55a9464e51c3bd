"""What the API answers. Times are unix seconds; GPUs, CPU cores, GB, GB/s, steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from muster.service.daemon_status import DaemonStatus
from muster.service.interval_ends import IntervalEnd
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import AllocationInterval, JobRow, Phase, State, StateRequest, TokenRow
from muster.service.tokens import MadeToken
from muster.service.waiting import describe_reason, describe_refusal, drained_nodes
from muster.service.what_if import WhatIfState


class Answer(BaseModel):
    """What all answers share: the OpenAPI description has the docstrings of their fields."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Submitted(Answer):
    """A job is on the disk and will run."""

    job_id: int


class SubmittedAll(Answer):
    """So are these, in the order of the request."""

    job_ids: list[int]


class Held(Answer):
    """What a job has on one node."""

    node: str
    gpu_ids: list[int]
    """Numbered on that node."""
    gpus: float
    """How many; a share of one counts as that share."""
    cpus: float
    memory_gb: float
    storage_gb_per_s: float
    resources: dict[str, float]
    """Of the resources that installed packages describe, by name."""
    since: float


class Job(Answer):
    """A job in a list."""

    job_id: int
    user: str
    name: str
    state: State
    state_request: StateRequest | None
    phase: Phase
    gpus: int
    min_gpus: int
    """Fewest GPUs that the scheduler may give it."""
    max_gpus: int
    """Most GPUs that the scheduler may give it."""
    gpu_share: float
    model: str | None
    priority: float
    submitted: float
    first_start: float | None
    last_start: float | None
    last_stop: float | None
    finished: float | None
    steps: int | None
    steps_done: float
    steps_per_second: float
    run_seconds: float
    attained_gpu_seconds: float
    restart_seconds: float
    """Of its running time: start-ups, stops and work that was lost."""
    start_up_seconds: float | None
    """From a launch to its first step, as last measured."""
    stop_seconds: float | None
    """From a request to stop until its GPUs were free, as last measured."""
    uses_muster_training: bool
    """It has reported through `muster.training`, so it saves its work when it is stopped."""
    preemptible: bool
    """It may be stopped to make room for other jobs."""
    starts: int
    preemptions: int
    moves: int
    reason: str
    """Why it holds nothing."""
    reason_text: str
    reason_since: float
    refusal: str
    """What the engine answers instead of starting it, and how often it was tried; empty: nothing of the kind."""
    status: int | None
    message: str
    failed_rank: int | None
    """The process whose end failed it; null: it has not failed, or it is not known which."""
    holds: list[Held]


class WholeJob(Job):
    """A job with all that its owner asked for."""

    request: JobRequest


class JobPage(BaseModel):
    """A page of jobs."""

    jobs: list[Job]
    next: int | None
    """`after` of the next page; null: there is none."""
    counts: dict[State, int]
    """Of all users' jobs."""


class JobsFound(Answer):
    """A page of the jobs that were searched for."""

    jobs: list[Job]
    total: int
    """On all pages."""


class RequestedAmount(Answer):
    """What waiting jobs ask for of one resource."""

    amount: float
    jobs: int
    """Those that ask for any of it."""


class WaitingDemand(Answer):
    """What the queued jobs ask for in all; an elastic job for its usual number of GPUs."""

    gpus: RequestedAmount
    cpus: RequestedAmount
    """Of the jobs that state how many they need; the scheduler decides for the others. Memory likewise."""
    memory_gb: RequestedAmount


class Queue(Answer):
    """Running jobs and the first ones of those that wait, all as of one moment."""

    jobs: list[Job]
    more: bool
    """There are others in these states."""
    counts: dict[State, int]
    """Of all users' jobs."""
    demand: WaitingDemand
    """Of all users' queued jobs, whichever are listed."""
    notices: list[str]
    """What to know first: that nothing new starts, and why; which of the caller's jobs the engine has and Muster cannot
    take."""


class HistoryLine(Answer):
    """Something that happened to a job."""

    time: float
    kind: str
    detail: str


class History(Answer):
    """What happened to a job, in the order of time."""

    events: list[HistoryLine]


class StartInterval(Answer):
    """When a job is expected to start: seconds from now, and how many simulations say so."""

    low_seconds: float
    """In one of ten simulations it starts earlier."""
    median_seconds: float
    high_seconds: float
    """In one of ten simulations it starts later."""
    draws: int


class WhyAnswer(BaseModel):
    """Why a job waits, or runs as it does."""

    job_id: int
    state: State
    sentences: list[str]
    reason: str
    parameters: dict[str, float]
    ahead: list[int]
    """Waiting jobs that are expected to start before it: those that the caller may see."""
    ahead_count: int
    """All of them."""
    holders: list[int]
    """Jobs that hold GPUs now: those that the caller may see."""
    holders_count: int
    """All of them."""
    blocked_by: list[int]
    """Jobs that the last decision served before it on nodes that it may use: those that the caller may see."""
    blocked_by_count: int
    """All of them."""
    start: StartInterval | None
    """When it is expected to start, as `GET /v1/starts` says it; null: not known, or it does not wait."""
    start_pending: bool
    """When it starts is being computed: a later request gets the answer."""


class SimulatedQueue(Answer):
    """What simulations of the queue begin with."""

    draws: int
    """Simulations, each with other durations of the jobs of which it is not known how long they take."""
    running: int
    """Jobs of all users, as in the next two."""
    waiting: int
    ended: int
    """From which durations, and jobs to come, are drawn."""
    guessed: int
    """Jobs of which nothing says how long they take, as none has ended yet."""


class ExpectedStart(Answer):
    """When a job that waits is expected to start."""

    job_id: int
    start: StartInterval | None
    """Null: in some simulation it never starts."""


class JobStarts(SimulatedQueue):
    """When the jobs that wait are expected to start: those that the caller may see."""

    jobs: list[ExpectedStart]


class ShapeStart(Answer):
    """When a job with so many GPUs would be expected to start."""

    gpus: int
    start: StartInterval | None
    """Null: in some simulation it never starts."""


class WouldStart(SimulatedQueue):
    """When a job would be expected to start: as asked, and with fewer GPUs."""

    shapes: list[ShapeStart]


class JobStretch(Answer):
    """A time in which a job held the same."""

    since: float
    until: float | None
    """Null: it still holds it."""
    nodes: list[str]
    gpus: float
    works_from: float | None
    """When it made its first step, as well as its reports show; null: none has come."""
    steps_per_second: float | None
    """Mean between its first and its last report in this time; null: there are not two."""
    predicted_steps_per_second: float | None
    """By its model, alone on its links; null: not known, as for a job that shares a GPU or changes its size."""


class TimeShares(Answer):
    """Shares of a job's running time; they add up to 1."""

    input: float
    """Waiting for its input. This, compute and communication are as its model predicts them on what it had last."""
    compute: float
    communication: float
    """That compute does not hide."""
    restart: float
    """As measured: start-ups, stops and lost work of the starts that have ended, and the present start-up."""


class TimeSpent(Answer):
    """Where the time since a job's submission has gone, as measured."""

    waiting_seconds: float
    """In the queue or held."""
    restart_seconds: float
    """Start-ups, stops and lost work of the starts that have ended, and the present start-up."""
    working_seconds: float


class MeasuredSpeed(Answer):
    """A job's speed between two of its reports."""

    since: float
    until: float
    steps_per_second: float


class JobSeries(Answer):
    """How fast a job has been and should be on what it has had, and where its time goes."""

    starts: list[JobStretch]
    measured: list[MeasuredSpeed]
    """Reports lie at least 10 s and 1 % of the job's age apart."""
    steps_per_second: float | None
    """As last measured; null: never."""
    spent: TimeSpent
    shares: TimeShares | None
    """Null: its model is not known, or it has not run."""


class TimelineEntry(Answer):
    """What one start of a job held on one node."""

    job_id: int | None
    """Null: another user's."""
    user: str | None
    name: str | None
    model: str | None
    """Null: not stated, or another user's."""
    tenant: str | None
    """Likewise."""
    node: str
    gpu_ids: list[int]
    gpus: float
    since: float
    until: float | None
    """Null: it still holds it."""
    ended: IntervalEnd | None
    """How that ended; null: it has not, or it is another user's."""


class Timeline(Answer):
    """What was held within a time, in the order of its beginnings."""

    entries: list[TimelineEntry]
    more: bool
    """There are earlier entries within that time."""


class UsagePoint(Answer):
    """The cluster after one decision."""

    time: float
    held_gpus: float
    running: int
    """Jobs."""
    waiting: int
    """Jobs."""


class Usage(Answer):
    """The cluster over time."""

    points: list[UsagePoint]


class UseOfUser(Answer):
    """What one user's jobs have had."""

    user: str
    jobs: int
    running: int
    queued: int
    attained_gpu_seconds: float
    run_seconds: float
    restart_seconds: float


class BorrowedGpus(Answer):
    """GPUs that a tenant holds above its share."""

    lender: str | None
    """The tenant that leaves them free, empty for the jobs without one; null: they are in no tenant's share."""
    gpus: float


class UseOfTenant(Answer):
    """What one tenant's jobs have had and hold: the caller's own jobs, an operator's all."""

    tenant: str
    """Empty: the jobs without a tenant."""
    jobs: int
    running: int
    queued: int
    attained_gpu_seconds: float
    """Of the starts that have ended."""
    held_gpus: float
    share_gpus: float
    """What the scheduler guarantees; where it guarantees nothing, an equal part of all GPUs for each tenant with jobs
    that have not ended."""
    share: Literal["guaranteed", "equal"]
    """Which of the two."""
    borrows: list[BorrowedGpus]
    """What it holds above its share: first what is in no share, then of the tenant that leaves most free. Empty for
    callers who are no operators."""


class Users(Answer):
    """All users of whom there is a job, by name, and the tenants."""

    users: list[UseOfUser]
    tenants: list[UseOfTenant]
    """By name; empty where no job has a tenant and none is guaranteed GPUs."""


class WhoAmI(Answer):
    """Who the daemon takes the caller for."""

    user: str
    role: str


class LoginCode(Answer):
    """A code that opens one session."""

    code: str
    seconds: float
    """For which it is good."""
    url: str
    """Of the page, as a browser on the daemon's machine reaches it."""


class MeasuredGpuUse(BaseModel):
    """How busy a GPU is, by whatever runs on it."""

    busy: float | None
    """Share of the last second or less in which it ran anything, 0 to 1; null for a part of a GPU (MIG)."""
    memory_gb: float | None
    """Memory that is taken on it."""


class NodeState(BaseModel):
    """A node: what it has, and what of that is held."""

    name: str
    type: str
    rack: str
    gpu_type: str
    drained: bool
    away: bool
    """The engine cannot use it now: it is down, drained there or gone."""
    gpus: int
    held_gpus: float
    cpus: float
    held_cpus: float
    memory_gb: float
    held_memory_gb: float
    others_gpus: float
    """Held by jobs that are not Muster's; CPUs and memory likewise."""
    others_cpus: float
    others_memory_gb: float
    jobs: list[int]
    """Jobs there that the caller may see."""
    jobs_count: int
    """All of them."""
    gpu_jobs: list[list[int | None]]
    """Of each GPU the jobs on it; null: one that the caller may not see."""
    gpu_use: list[MeasuredGpuUse | None]
    """Of each GPU, null where its driver does not answer; empty where nothing is known, as for nodes of Slurm."""


class NodeList(BaseModel):
    """All nodes."""

    nodes: list[NodeState]
    notices: list[str] = []
    """What an administrator has to set right: clocks that differ."""


class KnownModel(Answer):
    """A model whose sensitivity is known."""

    name: str
    aliases: list[str]
    source: str


class Models(Answer):
    """All of them."""

    models: list[KnownModel]


class Token(Answer):
    """An access token, without its text."""

    id: int
    user: str
    role: str
    created: float
    revoked: float | None


class NewToken(Token):
    """A token that was just made; the only answer that has its text."""

    token: str
    warning: str
    """What its maker has to know of it; mostly empty."""


class Tokens(Answer):
    """All tokens, the revoked ones too."""

    tokens: list[Token]


class Health(Answer):
    """How the daemon is."""

    ready: bool
    condition: str
    """What keeps the daemon from its work; empty if nothing does."""
    scheduler: str
    engine: str
    enforces: str
    limits_error: str
    """Why the limits are those of an earlier file; empty if the file was read."""


class WhatIfRun(Answer):
    """What the jobs came to in one simulation."""

    scheduler: str
    cluster: str
    mean_wait_seconds: float | None
    p90_wait_seconds: float | None
    mean_jct_seconds: float | None
    makespan_seconds: float | None
    restart_loss: float | None
    """Share of the GPU time that restarts took."""
    preemptions: int


class WhatIfAnswer(Answer):
    """A question and its answer, as far as there is one."""

    number: int
    user: str
    asked: float
    scheduler: str
    add_nodes: str
    days: float
    jobs: int
    """That were submitted in those days and completed: the answer rests on them."""
    state: WhatIfState
    message: str
    """Why it failed."""
    parts_done: int
    """Of three: the simulation as it is, that of what was asked for, and the report."""
    runs: list[WhatIfRun]
    """With what this daemon has, and with what was asked for; empty until they are done."""
    report: str | None
    """Where the page with charts is."""


class WhatIfList(Answer):
    """The last questions, newest first."""

    what_ifs: list[WhatIfAnswer]


def jobs_of(
    rows: Iterable[JobRow], intervals: Iterable[AllocationInterval], store: Store, status: DaemonStatus
) -> list[dict[str, Any]]:
    """Jobs with what they hold, as `Job`."""
    drained = drained_nodes(store, status.cluster)
    held: dict[int, list[dict[str, Any]]] = {}
    for interval in intervals:
        here = interval.allocation
        entry = {name: getattr(here, name) for name in Held.model_fields.keys() - {"since", "resources"}}
        entry["resources"] = here.further_by_name
        held.setdefault(interval.job, []).append(entry | {"since": store.origin + interval.since})
    now = store.now()
    return [
        _job(row, held.get(row.id, []), store.origin)
        | {"reason_text": describe_reason(row, now, drained, status.last_decision)}
        | {"refusal": describe_refusal(row, status, now)}
        for row in rows
    ]


def _job(row: JobRow, holds: list[dict[str, Any]], origin: float) -> dict[str, Any]:
    return {
        "job_id": row.id,
        "user": row.user,
        "name": row.request.name,
        "state": row.state,
        "state_request": row.state_request,
        "phase": row.phase,
        "gpus": row.usual_gpus,
        "min_gpus": row.gpu_bounds[0],
        "max_gpus": row.gpu_bounds[1],
        "gpu_share": row.request.gpu_share,
        "model": row.request.model,
        "priority": row.request.priority,
        "submitted": origin + row.submitted,
        "first_start": _at(origin, row.first_start),
        "last_start": _at(origin, row.last_start),
        "last_stop": _at(origin, row.last_stop),
        "finished": _at(origin, row.finished),
        "steps": row.request.steps,
        "steps_done": row.steps_done,
        "steps_per_second": row.steps_per_second,
        "run_seconds": row.run_seconds,
        "attained_gpu_seconds": row.attained_gpu_seconds,
        "restart_seconds": row.restart_seconds,
        "start_up_seconds": row.start_up_seconds,
        "stop_seconds": row.stop_seconds,
        "uses_muster_training": row.joined,
        "preemptible": row.preemptible,
        "starts": row.epoch,
        "preemptions": row.preemptions,
        "moves": row.moves,
        "reason": row.reason,
        "reason_since": origin + row.reason_since,
        "status": row.status,
        "message": row.message,
        "failed_rank": row.failed_rank,
        "holds": holds,
        "request": row.request,
    }


def _at(origin: float, seconds: float | None) -> float | None:
    return None if seconds is None else origin + seconds


def new_token_of(made: MadeToken, origin: float) -> dict[str, Any]:
    """A new token, as `NewToken`."""
    return token_of(made.row, origin) | {"token": made.text, "warning": made.warning}


def token_of(row: TokenRow, origin: float) -> dict[str, Any]:
    """A token, as `Token`."""
    return {
        "id": row.id,
        "user": row.user,
        "role": "operator" if row.operator else "user",
        "created": origin + row.created,
        "revoked": _at(origin, row.revoked),
    }
