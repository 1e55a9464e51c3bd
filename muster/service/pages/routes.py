"""The addresses of the pages. Who is not logged in is led to the login."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from pydantic import model_validator

from muster.problems import InputError
from muster.service.api.failures import Refused
from muster.service.api.jobs import JobId, JobSearchQuery, reasons_of
from muster.service.api.service import Service, ServiceHere, caller_of
from muster.service.callers import UnknownCaller
from muster.service.daemon_status import DaemonStatus
from muster.service.pages import views
from muster.service.pages.cache import PageCache
from muster.service.pages.rendering import Body, body, framed, page, refreshed, static_file
from muster.service.store import StoreUnavailable
from muster.service.store.rows import Caller

_PART = "Muster-Part"
"""With `main`, as the script of an open page sends it, a page is answered without its frame."""
_WAIT_SECONDS = 0.5
"""For when a job starts; the page asks again."""
_TITLES = {403: "Not allowed", 404: "Not found"}
_FAILED = 500
"""From this status on it is not known who asks, as what says so may be what has failed."""
_NO_PAGES = ("/v1/", "/static/")
"""Addresses that are for programs, whatever they accept."""
_SCRIPTS = {"Timeline": ("timeline.js",)}

router = APIRouter(include_in_schema=False)


class _NotLoggedIn(Exception):
    """A page was asked for without a session that is known."""


async def _viewer(request: Request, service: ServiceHere) -> Caller:
    try:
        return await caller_of(request, service)
    except UnknownCaller as error:
        raise _NotLoggedIn from error


ViewerHere = Annotated[Caller, Depends(_viewer)]


def add_pages(app: FastAPI) -> FastAPI:
    """The same application, with the pages beside the API."""
    status: DaemonStatus = app.state.service.status
    app.state.pages = PageCache(lambda: status.deciding)
    app.include_router(router)
    app.add_exception_handler(_NotLoggedIn, _to_login)
    for kind in (404, Refused, InputError, RequestValidationError, StoreUnavailable, Exception):
        app.add_exception_handler(kind, _as_page(app.exception_handlers[kind]))
    return app


@dataclass(frozen=True)
class Visit:
    """A request for a page, and who has sent it."""

    request: Request
    service: ServiceHere
    viewer: ViewerHere

    @property
    def rights(self) -> str | None:
        """The same for all who see the same jobs."""
        return None if self.viewer.operator else self.viewer.user

    async def answer(
        self, part: str, template: str, show: Callable[[], tuple[str, Mapping[str, Any]]], *of: Hashable
    ) -> Response:
        """A page of a part. `show` says its title and what it shows, the same for the same rights and `of`."""
        cache: PageCache = self.request.app.state.pages
        version = await run_in_threadpool(self._version, part)

        def render() -> Body:
            title, shown = show()
            return body(template, title, shown)

        try:
            found = await cache.body((template, self.rights, *of), version, render)
        except Refused as refused:
            return self.refusal(refused.status, str(refused))
        if self.request.headers.get(_PART) == "main":
            return refreshed(found, self.request.headers.get("if-none-match"))
        return framed(found, self._frame(part))

    def refusal(self, status: int, message: str) -> Response:
        """A page that says what was not done and why, with a way back."""
        title = _TITLES.get(status, "Not understood")
        found = body("missing.html.j2", title, {"title": title, "message": message})
        return framed(found, self._frame(""), status)

    def _version(self, part: str) -> tuple[object, ...]:
        """What differs whenever a page of this part may show something else."""
        status = self.service.status
        said = (
            status.failing,
            status.condition,
            status.refusals,
            status.untaken,
            self.service.limits.error,
            status.others,
            status.cluster,
            status.away,
            status.clocks,
            status.gpu_use if part == "Nodes" else None,
        )
        return (*said, self.service.what_ifs.version, self.service.store.version())

    def _frame(self, part: str) -> dict[str, Any]:
        status = self.service.status
        return {
            "now": time.time(),
            "part": part,
            "scripts": _SCRIPTS.get(part, ()),
            "viewer": self.viewer,
            "scheduler": status.scheduler,
            "cluster": status.cluster.name,
        }


class JobListQuery(JobSearchQuery):
    """The same as a form without a script sends it: fields that are left empty are not asked for."""

    @model_validator(mode="before")
    @classmethod
    def _without_empty_fields(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {name: value for name, value in values.items() if value not in ("", [""])}


VisitHere = Annotated[Visit, Depends()]


@router.get("/")
async def overview(visit: VisitHere) -> Response:
    """The first page."""
    return await visit.answer(
        "Overview",
        "overview.html.j2",
        lambda: ("Overview", views.overview(visit.service, visit.viewer)),
    )


@router.get("/nodes")
async def machine_map(visit: VisitHere, by: views.Colouring = "job") -> Response:
    """The nodes and their GPUs."""
    return await visit.answer(
        "Nodes",
        "nodes.html.j2",
        lambda: ("Nodes", views.machine_map(visit.service, visit.viewer, by)),
        by,
    )


@router.get("/jobs")
async def job_list(visit: VisitHere, wanted: Annotated[JobListQuery, Query()]) -> Response:
    """Jobs, searched and sorted."""
    return await visit.answer(
        "Jobs",
        "jobs.html.j2",
        lambda: ("Jobs", views.job_list(visit.service, visit.viewer, wanted)),
        wanted.model_dump_json(),
    )


@router.get("/jobs/{job_id}")
async def job_story(job_id: JobId, visit: VisitHere) -> Response:
    """One job."""

    def show() -> tuple[str, Mapping[str, Any]]:
        shown = views.job_story(visit.service, visit.viewer, job_id)
        return f"Job {job_id} {shown['job']['name']}", shown

    return await visit.answer("Jobs", "job.html.j2", show, job_id, visit.viewer.user)


@router.get("/jobs/{job_id}/why")
async def job_reasons(job_id: JobId, visit: VisitHere) -> Response:
    """Why a job waits or has what it has, as a part of its page."""
    found = await reasons_of(job_id, visit.service, visit.viewer, _WAIT_SECONDS)
    return await run_in_threadpool(page, "why.html.j2", {"why": found})


@router.get("/timeline")
async def timeline(visit: VisitHere) -> Response:
    """GPUs over time."""
    return await visit.answer(
        "Timeline", "timeline.html.j2", lambda: ("Timeline", views.timeline(visit.service, visit.viewer))
    )


@router.get("/users")
async def user_list(visit: VisitHere) -> Response:
    """Users and what they have had."""
    return await visit.answer(
        "Users", "users.html.j2", lambda: ("Users", views.user_list(visit.service, visit.viewer))
    )


@router.get("/what-if")
async def what_if_list(visit: VisitHere) -> Response:
    """What another scheduler or more nodes would have brought; for operators."""
    return await visit.answer(
        "What if", "what-if.html.j2", lambda: ("What if", views.what_if_list(visit.service, visit.viewer))
    )


@router.get("/login")
def login(to: str = "/") -> Response:  # noqa: ARG001 - the script of the page reads it
    """The form for a token, which a script sends; a code in the address is sent at once. Both lead to a page."""
    return page("login.html.j2", {})


@router.get("/static/{name}")
def static(name: str, v: str = "") -> Response:  # noqa: ARG001 - it keeps browsers from an older one
    """A script or a style sheet; with another version the address is another one."""
    found = static_file(name)
    if found is None:
        raise Refused(404, f"there is no file {name}")
    return found


def _as_page(answered: Callable[[Request, Any], Any]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """A handler of failures whose answers, to a browser that asks for a page, are pages too."""

    async def handle(request: Request, error: Exception) -> Response:
        answer: Response = answered(request, error)
        path, accepted = request.url.path, request.headers.get("accept", "")
        if request.method != "GET" or path.startswith(_NO_PAGES) or "text/html" not in accepted:
            return answer
        if answer.status_code >= _FAILED:
            return await run_in_threadpool(_failure, answer)
        service: Service = request.app.state.service
        try:
            viewer = await _viewer(request, service)
        except _NotLoggedIn as unknown:
            return await _to_login(request, unknown)
        message = str(error) if isinstance(error, Refused) else _message(answer)
        if answer.status_code == 404 and not isinstance(error, Refused):
            message = f"there is no page at {path}"
        return await run_in_threadpool(Visit(request, service, viewer).refusal, answer.status_code, message)

    return handle


def _message(answer: Response) -> str:
    message: str = json.loads(bytes(answer.body))["error"]["message"]
    return message


def _failure(answer: Response) -> Response:
    """A page that says what the daemon could not do; it is asked for again by itself where that may help."""
    retry = answer.headers.get("retry-after")
    again = page("failed.html.j2", {"message": _message(answer), "retry": retry}, answer.status_code)
    if retry is not None:
        again.headers["Retry-After"] = retry
    return again


async def _to_login(request: Request, _: Exception) -> Response:
    where = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?to={quote(where, safe='')}", 303)
