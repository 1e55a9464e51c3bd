"""When jobs start: those that wait, and one that is not submitted. Asking changes nothing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from muster.problems import InputError, Problem
from muster.service.api import answers
from muster.service.api.failures import Refused, may_answer
from muster.service.api.jobs import check_limits, check_requests
from muster.service.api.service import DESCRIBED, CallerHere, Service, ServiceHere
from muster.service.limits import Limits
from muster.service.request import JobRequest
from muster.service.simulated_queue import NoEstimate
from muster.service.start_intervals import ENOUGH_SECONDS
from muster.service.start_question import ASKED, shapes_of
from muster.service.store.rows import Caller
from muster.simulation.start_estimates import DRAWS, FEWEST_DRAWS, FEWEST_OF_INTERVAL

MOST_DRAWS = 1000
_DRAWS = (
    f"Simulations; left out: {DRAWS}, or fewer where these take more than {ENOUGH_SECONDS:g} s, but at least "
    f"{FEWEST_OF_INTERVAL}."
)

router = APIRouter(prefix="/v1", tags=["starts"], dependencies=[DESCRIBED], responses=may_answer(409))


class JobNotSubmitted(BaseModel):
    """A job that is asked about."""

    model_config = ConfigDict(extra="forbid")

    request: JobRequest
    draws: Annotated[int, Field(ge=FEWEST_DRAWS, le=MOST_DRAWS)] | None = None
    """Simulations; null: as many as in `GET /v1/starts`, in all of its shapes together."""


@router.get("/starts", response_model=answers.JobStarts)
async def starts(
    service: ServiceHere,
    caller: CallerHere,
    draws: Annotated[int | None, Query(ge=FEWEST_DRAWS, le=MOST_DRAWS, description=_DRAWS)] = None,
) -> dict[str, Any]:
    """When the jobs that wait are expected to start, as intervals; a user's own, an operator's all."""
    try:
        answer = await service.intervals.of_queue(draws)
    except NoEstimate as no:
        raise _refused(no) from None
    seen = await run_in_threadpool(_seen, service, caller)
    now = service.store.now()
    jobs = [
        {"job_id": job, "start": answer.start(job, now)}
        for job in map(int, answer.question.state.waiting["job_id"].to_list())
        if job in seen
    ]
    return {**answer.counts(), "jobs": [_start(one) for one in jobs]}


@router.post("/would", response_model=answers.WouldStart, responses=may_answer(400, 403, 413))
async def would(asked: JobNotSubmitted, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """When a job would be expected to start, and with fewer GPUs. Nothing is submitted."""
    await run_in_threadpool(_check, service, caller, asked.request)
    shapes = shapes_of(asked.request, caller.user, service.store.now())
    try:
        answer = await service.intervals.of_shapes(shapes, asked.draws)
    except NoEstimate as no:
        raise _refused(no) from None
    rows = [
        {"gpus": shape.request.gpus, "start": found.starts.get(str(ASKED))}
        for shape, found in zip(shapes, answer.found, strict=True)
    ]
    return {**answer.counts(), "shapes": [_start(one) for one in rows]}


def _check(service: Service, caller: Caller, request: JobRequest) -> None:
    """What a submission is refused for is refused here too, and a job that would not compete."""
    if request.held:
        what = "allowed: false; a job that is held starts after its release only"
        raise InputError(Problem("request", what, column="held", found=True))
    check_requests(service, caller, [request])
    if not caller.operator and service.limits.current != Limits():
        check_limits(service, caller, [request])


def _seen(service: Service, caller: Caller) -> set[int]:
    return {row.id for row in service.store.living() if caller.operator or row.user == caller.user}


def _start(row: dict[str, Any]) -> dict[str, Any]:
    start = row["start"]
    return row | {"start": None if start is None else start.to_dict()}


def _refused(no: NoEstimate) -> Refused:
    return Refused(409, f"when jobs start cannot be estimated: {no}")
