"""The addresses of the pages. Who is not logged in is led to the login."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from muster.service.api.failures import Refused
from muster.service.api.jobs import JobId, JobSearchQuery, why
from muster.service.api.service import ServiceHere, caller_of
from muster.service.callers import UnknownCaller
from muster.service.pages import views
from muster.service.pages.rendering import page, static_file
from muster.service.store.rows import Caller

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
    app.include_router(router)
    app.add_exception_handler(_NotLoggedIn, _to_login)
    return app


@router.get("/")
def overview(service: ServiceHere, viewer: ViewerHere) -> Response:
    """The first page."""
    return _page("overview.html.j2", viewer, service, views.overview(service, viewer))


@router.get("/nodes")
def machine_map(
    service: ServiceHere, viewer: ViewerHere, by: Literal["job", "user", "model", "name"] = "job"
) -> Response:
    """The nodes and their GPUs."""
    return _page("nodes.html.j2", viewer, service, views.machine_map(service, viewer, by))


@router.get("/jobs")
def job_list(
    service: ServiceHere, viewer: ViewerHere, wanted: Annotated[JobSearchQuery, Query()]
) -> Response:
    """Jobs, searched and sorted."""
    return _page("jobs.html.j2", viewer, service, views.job_list(service, viewer, wanted))


@router.get("/jobs/{job_id}")
def job_story(job_id: JobId, service: ServiceHere, viewer: ViewerHere) -> Response:
    """One job."""
    try:
        shown = views.job_story(service, viewer, job_id)
    except Refused as refused:
        return _page("missing.html.j2", viewer, service, {"message": str(refused)}, refused.status)
    return _page("job.html.j2", viewer, service, shown)


@router.get("/jobs/{job_id}/why")
async def job_reasons(job_id: JobId, service: ServiceHere, viewer: ViewerHere) -> Response:
    """Why a job waits or has what it has, as a part of its page."""
    found = await why(job_id, service, viewer)
    return await run_in_threadpool(page, "why.html.j2", {"why": found})


@router.get("/timeline")
def timeline(service: ServiceHere, viewer: ViewerHere) -> Response:
    """GPUs over time."""
    cluster = service.status.cluster
    gpus = [{"node": node.name, "gpus": node.gpus} for node in cluster.nodes]
    return _page("timeline.html.j2", viewer, service, {"rows": gpus})


@router.get("/users")
def user_list(service: ServiceHere, viewer: ViewerHere) -> Response:
    """Users and what they have had."""
    return _page("users.html.j2", viewer, service, views.user_list(service, viewer))


@router.get("/login")
def login() -> Response:
    """The form for a token, which a script sends; a code in the address is sent at once."""
    return page("login.html.j2", {})


@router.get("/static/{name}")
def static(name: str) -> Response:
    """A script or a style sheet."""
    found = static_file(name)
    if found is None:
        raise Refused(404, f"there is no file {name}")
    return found


async def _to_login(request: Request, _: Exception) -> Response:
    where = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?to={quote(where, safe='')}", 303)


def _page(
    template: str, viewer: Caller, service: ServiceHere, shown: dict[str, Any], status: int = 200
) -> Response:
    frame = {"viewer": viewer, "scheduler": service.status.scheduler, "cluster": service.status.cluster.name}
    return page(template, shown | frame, status)
