"""What happens and what has happened: a stream of events, and what was held by whom within a time."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from muster.service.api import answers
from muster.service.api.changes import Position
from muster.service.api.failures import may_answer
from muster.service.api.service import DESCRIBED, CallerHere, Service, ServiceHere
from muster.service.interval_ends import KINDS, interval_ends
from muster.service.store.rows import Caller, NumberedEvent, TenantUse
from muster.service.tenant_shares import guaranteed_gpus, tenant_shares

_HEARTBEAT_SECONDS = 15.0
_MOST_INTERVALS = 20_000
_POINTS = 600
_OF_TENANT = ("tenant", "jobs", "running", "queued", "attained_gpu_seconds", "held_gpus")

router = APIRouter(prefix="/v1", tags=["history"], dependencies=[DESCRIBED], responses=may_answer())


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def follow(
    service: ServiceHere,
    caller: CallerHere,
    last_event_id: Annotated[
        str | None,
        Header(max_length=100, description="The last id that was read; the stream goes on after it."),
    ] = None,
) -> StreamingResponse:
    """Follow what happens as server-sent events named `change`; those of other users' jobs have no data.

    An event named `state`, without data, says that something else has changed, as how far jobs are or what is drained.
    """
    after = None if last_event_id is None else Position.parse(last_event_id)
    return StreamingResponse(
        _stream(service, caller, after), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


@router.get("/timeline", response_model=answers.Timeline)
def timeline(
    service: ServiceHere,
    caller: CallerHere,
    since: Annotated[float, Query(allow_inf_nan=False, description="Unix seconds.")],
    until: Annotated[float, Query(allow_inf_nan=False, description="Unix seconds.")],
) -> dict[str, Any]:
    """List what was held on which GPUs within a time and how that ended, the newest 20,000 entries of it."""
    store = service.store
    with store.together():
        found = store.held_between(since - store.origin, until - store.origin, _MOST_INTERVALS + 1)
        more, found = len(found) > _MOST_INTERVALS, found[-_MOST_INTERVALS:]
        labels = store.labels_of({interval.job for interval in found})
        seen = {job for job, one in labels.items() if caller.operator or one.user == caller.user}
        first = min((interval.since for interval in found), default=0.0)
        ends = interval_ends(found, labels, store.events_of(seen, KINDS, first))
    entries = []
    for interval, ended in zip(found, ends, strict=True):
        label = labels[interval.job] if interval.job in seen else None
        entries.append(
            {
                "job_id": None if label is None else interval.job,
                "user": None if label is None else label.user,
                "name": None if label is None else label.name,
                "model": None if label is None else label.model,
                "tenant": None if label is None else label.tenant,
                "node": interval.allocation.node,
                "gpu_ids": list(interval.allocation.gpu_ids),
                "gpus": interval.allocation.gpus,
                "since": store.origin + interval.since,
                "until": None if interval.until is None else store.origin + interval.until,
                "ended": None if label is None else ended,
            }
        )
    return {"entries": entries, "more": more}


@router.get("/usage", response_model=answers.Usage)
def usage(
    service: ServiceHere,
    _: CallerHere,
    since: Annotated[float, Query(allow_inf_nan=False, description="Unix seconds.")],
) -> dict[str, Any]:
    """List how many GPUs were held and how many jobs waited, from then on whenever that changed, at most 600 points."""
    store = service.store
    with store.together():
        found = store.some_decisions(since - store.origin, _POINTS)
        served = store.served_gpus() or [(0.0, service.status.cluster.total_gpus)]
    points = [
        {
            "time": store.origin + float(row["time_seconds"] or 0.0),
            "held_gpus": _gpus_at(row["time_seconds"] or 0.0, served) - float(row["free_gpus"] or 0.0),
            "running": int(row["running"] or 0),
            "waiting": int(row["waiting"] or 0),
        }
        for row in found
    ]
    return {"points": points}


def _gpus_at(moment: float, served: Sequence[tuple[float, int]]) -> int:
    """GPUs of the cluster that was served then."""
    at = bisect_right(served, moment, key=lambda one: one[0])
    return served[max(at - 1, 0)][1]


@router.get("/users", response_model=answers.Users)
def users(service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """List what each user's and each tenant's jobs have had; a user's own, an operator's all."""
    with service.store.together():
        return {"users": use_of_users(service, caller), "tenants": _use_of_tenants(service, caller)}


def use_of_users(service: Service, caller: Caller) -> list[dict[str, Any]]:
    """What the jobs of the users whom the caller may see have had, as `UseOfUser`."""
    found = service.store.use_by_user()
    return [vars(row) for row in found if caller.operator or row.user == caller.user]


def _use_of_tenants(service: Service, caller: Caller) -> list[dict[str, Any]]:
    """What the jobs of tenants that the caller may see have had and hold, as `UseOfTenant`."""
    uses = {use.tenant: use for use in service.store.use_by_tenant(None)}
    guaranteed = guaranteed_gpus(service.status.policy.describe())
    uses = {tenant: TenantUse(tenant, 0, 0, 0, 0, 0.0) for tenant in guaranteed} | uses
    if not any(uses):
        return []
    shares = tenant_shares(
        {tenant: use.held_gpus for tenant, use in uses.items()},
        [tenant for tenant, use in uses.items() if use.running or use.queued or use.held],
        guaranteed,
        service.status.cluster.total_gpus,
    )
    seen = uses if caller.operator else {use.tenant: use for use in service.store.use_by_tenant(caller.user)}
    return [
        {name: getattr(seen[tenant], name) for name in _OF_TENANT}
        | {
            "share_gpus": share.share_gpus,
            "share": "guaranteed" if guaranteed else "equal",
            "borrows": [vars(loan) for loan in share.loans] if caller.operator else [],
        }
        for tenant, share in shares.items()
        if tenant in seen
    ]


async def _stream(service: Service, caller: Caller, after: Position | None) -> AsyncIterator[str]:
    first = True
    async for batch in service.changes.follow(after, _HEARTBEAT_SECONDS):
        if batch is None:
            yield ": nothing new\n\n"
            continue
        yield f"id: {batch.until}\n: position\n\n"
        if not batch.events and not first:
            yield "event: state\ndata: {}\n\n"
        first = False
        for entry in batch.events:
            data = _data(entry, service.store.origin) if _sees(caller, entry) else {}
            yield f"event: change\ndata: {json.dumps(data)}\n\n"


def _sees(caller: Caller, entry: NumberedEvent) -> bool:
    return caller.operator or entry.user == caller.user


def _data(entry: NumberedEvent, origin: float) -> dict[str, Any]:
    event = entry.event
    return {
        "job_id": event.job,
        "user": entry.user,
        "time": origin + event.time,
        "kind": event.kind,
        "detail": event.detail,
    }
