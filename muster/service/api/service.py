"""The objects that routes use, and the caller of a request."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer

from muster.service.api.changes import ChangeStream
from muster.service.api.failures import Refused
from muster.service.api.group_commit import GroupCommit
from muster.service.callers import UnknownCaller, by_account, by_token
from muster.service.daemon_status import DaemonStatus
from muster.service.engines.output_reader import OutputReader
from muster.service.live_limits import LiveLimits
from muster.service.sessions import LoginCodes, by_session
from muster.service.start_intervals import StartIntervals
from muster.service.store import Store
from muster.service.store.rows import Caller, JobRow, Submission
from muster.service.tokens import LivingTokens
from muster.service.what_if import WhatIfs

SESSION_COOKIE = "muster_session"
_HARMLESS = ("GET", "HEAD")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@dataclass(frozen=True)
class Service:
    """All that the daemon has."""

    store: Store
    tokens: LivingTokens
    status: DaemonStatus
    home: Path
    output: OutputReader
    submissions: GroupCommit[Submission, int]
    intervals: StartIntervals
    limits: LiveLimits
    login_codes: LoginCodes
    changes: ChangeStream
    what_ifs: WhatIfs
    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from counting a user's jobs until the new ones are in the store."""


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


# What does not wait is asynchronous: a dependency that is not costs a change of threads.
ServiceHere = Annotated[Service, Depends(_service)]


async def caller_of(request: Request, service: ServiceHere) -> Caller:
    """By the token or the session that was sent; without one by the account, unless a proxy at the socket sends it
    for others."""
    headers, uid = request.headers, getattr(request.state, "peer_uid", None)
    authorization = headers.get("authorization")
    if uid is not None and authorization is None and not any(name in headers for name in _FORWARDED):
        return by_account(uid)
    if authorization is None and (secret := request.cookies.get(SESSION_COOKIE)):
        check_same_site(request)
        caller = await run_in_threadpool(by_session, service.store, secret)
        if caller is None:
            raise UnknownCaller("this session is over; log in again")
        return caller
    tokens = service.tokens.known()
    if tokens is not None:
        with suppress(UnknownCaller):  # Another process may have made this token just now.
            return by_token(authorization, tokens)
    return by_token(authorization, await run_in_threadpool(service.tokens.read))


def check_same_site(request: Request) -> None:
    """Refused if a page of another site has made a browser send a request that changes something."""
    if request.method in _HARMLESS:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    same = site == "same-origin" if site else _is_host(origin, request.headers.get("host"))
    if not same:
        raise Refused(403, "this request comes from a page of another site")


def _is_host(origin: str | None, host: str | None) -> bool:
    return origin is not None and host is not None and urlsplit(origin).netloc == host


CallerHere = Annotated[Caller, Depends(caller_of)]

DESCRIBED = Security(HTTPBearer(auto_error=False, description="Needed over TCP."))
"""Puts the token into the description; `caller_of` checks it."""


def check_operator(caller: Caller) -> None:
    """Refused unless the caller is an operator."""
    if not caller.operator:
        raise Refused(403, f"this is for operators, and {caller.user} is none")


async def _operator(caller: CallerHere) -> Caller:
    check_operator(caller)
    return caller


OperatorHere = Annotated[Caller, Depends(_operator)]


def job_of(service: Service, caller: Caller, job: int) -> JobRow:
    """A job that a caller may see; another user's job is answered as if it did not exist."""
    row = service.store.job(job)
    if row is None or not (caller.operator or row.user == caller.user):
        raise no_job(job)
    return row


def no_job(job: int) -> Refused:
    """The answer where a job is not there, or not any more."""
    return Refused(404, f"there is no job {job}")
