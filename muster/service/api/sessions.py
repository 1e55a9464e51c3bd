"""Sessions of people in browsers, and who the caller is."""

from __future__ import annotations

from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from muster.service.api import answers
from muster.service.api.failures import Refused, may_answer
from muster.service.api.service import (
    DESCRIBED,
    SESSION_COOKIE,
    CallerHere,
    Service,
    ServiceHere,
    check_same_site,
)
from muster.service.callers import UnknownCaller, token_row
from muster.service.sessions import CODE_SECONDS, SESSION_SECONDS, close_session, open_session
from muster.service.store.rows import Caller

_LONGEST = 500

log = structlog.get_logger()
router = APIRouter(prefix="/v1", tags=["sessions"], responses=may_answer(403))


class Login(BaseModel):
    """What opens a session: one of the two."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[str | None, Field(max_length=_LONGEST)] = None
    code: Annotated[str | None, Field(max_length=_LONGEST)] = None


@router.get("/whoami", response_model=answers.WhoAmI, dependencies=[DESCRIBED])
async def whoami(caller: CallerHere) -> dict[str, Any]:
    """Who the daemon takes the caller for."""
    return _as_answer(caller)


@router.post(
    "/login-codes",
    status_code=201,
    response_model=answers.LoginCode,
    dependencies=[DESCRIBED],
)
async def login_code(request: Request, service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """Issue a code that opens one session of the caller within a minute, and say where the page is.

    A daemon that does not listen on TCP listens on a port of loopback from then on.
    """
    if caller.in_session:
        raise Refused(403, "a session opens no other session; use a token or an account")
    url = await request.app.state.page_url()
    return {"code": service.login_codes.issue(caller), "seconds": CODE_SECONDS, "url": url}


@router.post("/session", status_code=201, response_model=answers.WhoAmI, responses=may_answer(400, 403, 413))
async def log_in(login: Login, request: Request, response: Response, service: ServiceHere) -> dict[str, Any]:
    """Open a session by a token or a code; its secret comes as a cookie that no script can read."""
    check_same_site(request)
    caller = await run_in_threadpool(_opened_by, login, service)
    secret = await run_in_threadpool(open_session, service.store, caller)
    response.set_cookie(
        SESSION_COOKIE,
        secret,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    log.info("session opened", user=caller.user, token=caller.token)
    return _as_answer(caller)


@router.delete("/session", status_code=204)
async def log_out(request: Request, response: Response, service: ServiceHere) -> None:
    """End the session whose cookie is sent."""
    check_same_site(request)
    if secret := request.cookies.get(SESSION_COOKIE):
        await run_in_threadpool(close_session, service.store, secret)
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")


def _opened_by(login: Login, service: Service) -> Caller:
    """The user that a token or a code stands for."""
    if login.code is not None:
        caller = service.login_codes.redeem(login.code)
        if caller is None:
            raise UnknownCaller(
                "this login code is unknown, used or older than a minute. Hint: muster dashboard makes a new one"
            )
        return caller
    if login.token is None:
        raise Refused(422, "allowed: token or code")
    row = token_row(login.token.strip(), service.tokens.read())
    return Caller(row.user, row.operator, row.id)


def _as_answer(caller: Caller) -> dict[str, Any]:
    return {"user": caller.user, "role": "operator" if caller.operator else "user"}
