"""Submitting, seeing and steering jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Path, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from muster.patterns import TEXT
from muster.problems import InputError, Problem
from muster.service.accounts import cannot_run
from muster.service.api import answers
from muster.service.api.failures import Refused, may_answer
from muster.service.api.service import DESCRIBED, CallerHere, Service, ServiceHere, job_of, no_job
from muster.service.engines import OutputRequest
from muster.service.fitting import misfits
from muster.service.home import job_folder
from muster.service.honoured import without_effect
from muster.service.known_models import unknown_model
from muster.service.limits import Limits, exceeded, priority_exceeded
from muster.service.request import JobRequest
from muster.service.series import series_of
from muster.service.store.rows import Caller, JobOrder, JobRow, JobSearch, State, StateRequest, Submission
from muster.service.waiting import nothing_starts, untaken_jobs

MOST_IN_A_BATCH = 10_000
_LARGEST_NUMBER = 2**63 - 1
_LARGEST_PIECE = 4 * 2**20
_MOST_RUNNING = 1000
_WAIT_SECONDS = 5.0
"""Until it is known when a job starts; else the answer says that it is being computed."""
_LIVING = (State.RUNNING, State.QUEUED, State.HELD)

JobId = Annotated[int, Path(ge=1, le=_LARGEST_NUMBER)]
Filter = Annotated[str | None, Query(max_length=200, pattern=TEXT)]

log = structlog.get_logger()
router = APIRouter(prefix="/v1", tags=["jobs"], dependencies=[DESCRIBED], responses=may_answer())


class NewPriority(BaseModel):
    """Another priority for a job, within what a request may ask for."""

    model_config = ConfigDict(extra="forbid")

    priority: Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]


class JobBatch(BaseModel):
    """Several jobs: all are taken or none."""

    model_config = ConfigDict(extra="forbid")

    jobs: Annotated[list[JobRequest], Field(max_length=MOST_IN_A_BATCH)]


class JobSearchQuery(BaseModel):
    """What to search for, and how to sort it."""

    text: Annotated[
        str,
        Field(max_length=200, pattern=TEXT, description="Part of a name or a user, or a number."),
    ] = ""
    state: Annotated[list[State], Field(description="Only jobs in one of these states; none: in any.")] = []
    user: Filter = None
    since: Annotated[float | None, Field(allow_inf_nan=False, description="Submitted then or later.")] = None
    until: Annotated[float | None, Field(allow_inf_nan=False, description="Submitted before.")] = None
    order: JobOrder = JobOrder.ID
    descending: bool = True
    offset: Annotated[int, Field(ge=0, le=_LARGEST_NUMBER)] = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 100

    def as_search(self, user: str | None, origin: float) -> JobSearch:
        """The same for the store, whose seconds begin at `origin`; jobs of this user only, unless it is None."""
        return JobSearch(
            text=self.text,
            states=frozenset(self.state) or None,
            user=user,
            submitted_since=None if self.since is None else self.since - origin,
            submitted_until=None if self.until is None else self.until - origin,
            order=self.order,
            descending=self.descending,
            offset=self.offset,
            limit=self.limit,
        )


@router.post("/jobs", status_code=201, response_model=answers.Submitted, responses=may_answer(400, 403, 413))
async def submit(request: JobRequest, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """Submit a job. Once this is answered it is on the disk."""
    check_requests(service, caller, [request])
    return {"job_id": (await _submit(service, caller, [request]))[0]}


@router.post(
    "/jobs:batch", status_code=201, response_model=answers.SubmittedAll, responses=may_answer(400, 403, 413)
)
async def submit_batch(batch: JobBatch, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """Submit several jobs, all or none."""
    await run_in_threadpool(check_requests, service, caller, batch.jobs)
    return {"job_ids": await _submit(service, caller, batch.jobs)}


@router.get("/jobs", response_model=answers.JobPage)
def jobs(
    service: ServiceHere,
    caller: CallerHere,
    state: Annotated[list[State] | None, Query(description="Only jobs in one of these states.")] = None,
    user: Filter = None,
    name: Filter = None,
    after: Annotated[int, Query(ge=0, le=_LARGEST_NUMBER, description="The page before said it.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """List jobs by id; a user's own, an operator's all."""
    with service.store.together():
        page, more = _chosen(service, caller, state, user, name, after, limit)
        return {
            "jobs": _with_allocations(service, page),
            "next": page[-1].id if more else None,
            "counts": service.store.counts(),
        }


@router.get("/jobs:search", response_model=answers.JobsFound)
def search(
    service: ServiceHere, caller: CallerHere, wanted: Annotated[JobSearchQuery, Query()]
) -> dict[str, Any]:
    """Search and sort jobs, newest first by default; a user's own, an operator's all."""
    own = wanted.user if caller.operator else caller.user
    if wanted.user not in (None, own):
        return {"jobs": [], "total": 0}
    with service.store.together():
        found, total = service.store.search(wanted.as_search(own, service.store.origin))
        return {"jobs": _with_allocations(service, found), "total": total}


@router.get("/queue", response_model=answers.Queue)
def queue(
    service: ServiceHere,
    caller: CallerHere,
    state: Annotated[
        list[State] | None, Query(description="Jobs in these states, in their order; else the living ones.")
    ] = None,
    user: Filter = None,
    name: Filter = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Jobs of each state but running.")] = 50,
) -> dict[str, Any]:
    """The queue as it is at one moment: 1,000 running jobs and the first ones of each other state."""
    jobs: list[dict[str, Any]] = []
    cut = False
    with service.store.together():
        for one in dict.fromkeys(state or _LIVING):
            most = _MOST_RUNNING if one is State.RUNNING else limit
            page, more = _chosen(service, caller, [one], user, name, 0, most)
            jobs += _with_allocations(service, page)
            cut |= more
        counts, demand = service.store.counts(), waiting_demand(service)
    notices = nothing_starts(service.status, caller, service.store.now())
    notices += untaken_jobs(service.status, caller)
    return {"jobs": jobs, "more": cut, "counts": counts, "demand": demand, "notices": notices}


def waiting_demand(service: Service) -> dict[str, dict[str, Any]]:
    """What the queued jobs of all users ask for, as `WaitingDemand`."""
    return {name: demand._asdict() for name, demand in service.store.waiting_demand().items()}


@router.get("/jobs/{job_id}", response_model=answers.WholeJob, responses=may_answer(404))
def job(job_id: JobId, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """One job, with what was asked and what it holds."""
    with service.store.together():
        return _whole(service, job_of(service, caller, job_id))


@router.post("/jobs/{job_id}/cancel", response_model=answers.WholeJob, responses=may_answer(404, 409))
def cancel(job_id: JobId, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """End a job for good, wherever it is."""
    return _request_state(service, caller, job_id, StateRequest.CANCEL)


@router.post("/jobs/{job_id}/hold", response_model=answers.WholeJob, responses=may_answer(404, 409))
def hold(job_id: JobId, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """Let a job wait until it is released; a running one saves and stops first."""
    return _request_state(service, caller, job_id, StateRequest.HOLD)


@router.post("/jobs/{job_id}/release", response_model=answers.WholeJob, responses=may_answer(404, 409))
def release(job_id: JobId, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """Let a held job compete again."""
    return _request_state(service, caller, job_id, StateRequest.RELEASE)


@router.post(
    "/jobs/{job_id}/priority", response_model=answers.WholeJob, responses=may_answer(400, 403, 404, 409, 413)
)
def set_priority(
    job_id: JobId, wanted: NewPriority, service: ServiceHere, caller: CallerHere
) -> dict[str, Any]:
    """Change a job's priority, a user's own within their limits; it counts from the next decision on."""
    row = job_of(service, caller, job_id)
    asked = row.request.model_copy(update={"priority": wanted.priority})
    changed = [
        problem for problem in without_effect(asked, service.status.policy) if problem.column == "priority"
    ]
    if changed:
        raise InputError(*changed)
    if not caller.operator and (
        problems := list(priority_exceeded(service.limits.current, caller.user, asked))
    ):
        raise Refused(403, "\n".join(map(str, problems)), problems)
    try:
        found = service.store.set_priority(job_id, wanted.priority, caller.user)
    except InputError as bad:
        raise Refused(409, str(bad), bad.problems) from None
    if found is None:  # It was removed just now.
        raise no_job(job_id)
    service.status.wake()
    log.info("priority", user=caller.user, job=job_id, priority=wanted.priority)
    return _whole(service, found)


@router.post(
    "/jobs/{job_id}/resubmit",
    status_code=201,
    response_model=answers.Submitted,
    responses=may_answer(403, 404),
)
async def resubmit(job_id: JobId, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """Submit a job of the caller again, as it was asked for."""
    row = await run_in_threadpool(job_of, service, caller, job_id)
    if row.user != caller.user:
        raise Refused(403, f"job {job_id} is {row.user}'s; only its owner submits it again")
    check_requests(service, caller, [row.request])
    return {"job_id": (await _submit(service, caller, [row.request]))[0]}


@router.get("/jobs/{job_id}/events", response_model=answers.History, responses=may_answer(404))
def events(job_id: JobId, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """What happened to a job."""
    job_of(service, caller, job_id)
    origin = service.store.origin
    return {
        "events": [
            {"time": origin + event.time, "kind": event.kind, "detail": event.detail}
            for event in service.store.events(job_id)
        ]
    }


@router.get("/jobs/{job_id}/series", response_model=answers.JobSeries, responses=may_answer(404))
def series(job_id: JobId, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """What a job has had over time, with the speed that its model predicts, and where its time goes."""
    with service.store.together():
        return series_of(job_of(service, caller, job_id), service.store, service.status)


@router.get("/jobs/{job_id}/why", response_model=answers.WhyAnswer, responses=may_answer(404))
async def why(job_id: JobId, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """Why a job waits, which are ahead of it, when it may start; or why it has what it has."""
    return await reasons_of(job_id, service, caller, _WAIT_SECONDS)


async def reasons_of(job_id: int, service: Service, caller: Caller, wait: float) -> dict[str, Any]:
    """The same; for so many seconds it waits until it is known when the job starts."""
    from muster.service.why import waits, why_not_waiting, why_waiting

    row = await run_in_threadpool(job_of, service, caller, job_id)
    if not waits(row):
        return (
            await run_in_threadpool(why_not_waiting, row, service.store, service.status, caller)
        ).to_dict()
    estimate = await service.intervals.with_job(job_id, wait)
    return why_waiting(row, estimate, service.status, caller, service.store.now()).to_dict()


@router.get(
    "/jobs/{job_id}/logs",
    response_class=Response,
    responses=may_answer(404)
    | {
        200: {
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            "headers": {
                "Muster-Next-Offset": {"schema": {"type": "integer"}},
                "Muster-Job-State": {"schema": {"type": "string"}},
            },
        }
    },
)
async def logs(
    job_id: JobId,
    service: ServiceHere,
    caller: CallerHere,
    rank: Annotated[int, Query(ge=0, le=100_000, description="Which process.")] = 0,
    offset: Annotated[
        int,
        Query(
            ge=-_LARGEST_NUMBER,
            le=_LARGEST_NUMBER,
            description="The answer before said it. A negative one counts from the end of what is written.",
        ),
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=_LARGEST_PIECE)] = 2**20,
) -> Response:
    """A piece of what a job has written, of all its starts; empty where it has not written so much yet."""
    row = await run_in_threadpool(job_of, service, caller, job_id)
    folder = job_folder(service.home, row.id) / "output"
    request = OutputRequest(row.id, folder, row.user, row.whose, rank, offset, limit)
    try:
        piece = await service.output.read(request)
    except TimeoutError:
        raise Refused(503, "the disk of the jobs' folders does not answer; ask again later") from None
    except OSError as error:
        raise Refused(503, f"the output cannot be read now: {error.strerror or error}") from None
    headers = {"Muster-Next-Offset": str(piece.next_offset), "Muster-Job-State": row.state.value}
    return Response(piece.data, media_type="application/octet-stream", headers=headers)


@router.get("/models", response_model=answers.Models)
def models(service: ServiceHere, _: CallerHere) -> dict[str, Any]:
    """The models whose sensitivity is known."""
    known = {entry.name: entry for entry in service.status.models().values()}
    return {"models": [vars(known[name]) for name in sorted(known)]}


def check_requests(service: Service, caller: Caller, requests: list[JobRequest]) -> None:
    """InputError if a job could never run here."""
    problems: list[Problem] = []
    if why := cannot_run(caller.user, service.status.engine_capabilities, service.home):
        problems.append(Problem("request", why, found=caller.user))
    facts = service.status.engine_capabilities
    # Whether there are new files of models is only looked up where a job names one.
    known = service.status.models() if any(request.model for request in requests) else {}
    for at, request in enumerate(requests, start=1):
        where = "request" if len(requests) == 1 else f"request, job {at}"
        problems += misfits(
            request,
            service.status.cluster,
            where,
            nodes_together=facts.spans_nodes,
            even_gangs=facts.same_amounts_on_each_node,
        )
        if request.gpu_share < 1 and not facts.shares_gpus:
            what = (
                f"engine {service.status.engine} gives whole GPUs only; leave gpu_share out, or set it to 1"
            )
            problems.append(Problem(where, what, column="gpu_share", found=request.gpu_share))
        problems += without_effect(request, service.status.policy, where)
        problems += unknown_model(request, known, where)
    if problems:
        raise InputError(*problems)


async def _submit(service: Service, caller: Caller, requests: list[JobRequest]) -> list[int]:
    if caller.operator or service.limits.current == Limits():
        return await _submit_now(service, caller, requests)
    async with service.one_at_a_time:
        await run_in_threadpool(check_limits, service, caller, requests)
        return await _submit_now(service, caller, requests)


def check_limits(service: Service, caller: Caller, requests: list[JobRequest]) -> None:
    """Refused where the caller would have more than their limits allow."""
    if problems := list(exceeded(service.limits.current, caller.user, requests, service.store)):
        raise Refused(403, "\n".join(map(str, problems)), problems)


async def _submit_now(service: Service, caller: Caller, requests: list[JobRequest]) -> list[int]:
    ids = await service.submissions.add([Submission(caller.user, request) for request in requests])
    service.status.wake()
    if ids:
        log.info("submitted", user=caller.user, first=ids[0], jobs=len(ids))
    return ids


def _request_state(service: Service, caller: Caller, job: int, requested: StateRequest) -> dict[str, Any]:
    job_of(service, caller, job)
    try:
        row = service.store.request_state(job, requested, caller.user)
    except InputError as bad:
        raise Refused(409, str(bad), bad.problems) from None
    if row is None:  # It was removed just now.
        raise no_job(job)
    service.status.wake()
    log.info("requested", user=caller.user, job=job, state_request=requested.value)
    return _whole(service, row)


def _chosen(
    service: Service,
    caller: Caller,
    states: Collection[State] | None,
    user: str | None,
    name: str | None,
    after: int,
    limit: int,
) -> tuple[list[JobRow], bool]:
    """Jobs that a caller may see, and whether there are more of them."""
    own = user if caller.operator else caller.user
    if user not in (None, own):
        return [], False
    rows = service.store.jobs(states, own, name, after, limit + 1)
    return rows[:limit], len(rows) > limit


def _with_allocations(service: Service, rows: Sequence[JobRow]) -> list[dict[str, Any]]:
    running = [row.id for row in rows if row.state is State.RUNNING]
    held = service.store.allocation_intervals(running, open_only=True) if running else []
    return answers.jobs_of(rows, held, service.store, service.status)


def _whole(service: Service, row: JobRow) -> dict[str, Any]:
    held = service.store.allocation_intervals(row.id, open_only=True)
    return answers.jobs_of([row], held, service.store, service.status)[0]
