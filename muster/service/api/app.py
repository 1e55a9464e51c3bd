"""The application: its routes on a store, a status and a home."""

from __future__ import annotations

from pathlib import Path

from fastapi import Depends, FastAPI

import muster
from muster.service.api import health, history, jobs, nodes, prune, record, sessions, starts, tokens, what_if
from muster.service.api.body import check_body
from muster.service.api.changes import ChangeStream
from muster.service.api.failures import handle_failures
from muster.service.api.group_commit import GroupCommit
from muster.service.api.limits import BodyLimit
from muster.service.api.query import check_query
from muster.service.api.safe_headers import SafeHeaders
from muster.service.api.service import Service
from muster.service.daemon_status import DaemonStatus
from muster.service.engines.output_reader import OutputReader
from muster.service.live_limits import LiveLimits
from muster.service.sessions import LoginCodes
from muster.service.start_intervals import StartIntervals
from muster.service.store import Store
from muster.service.tokens import LivingTokens
from muster.service.what_if import WhatIfs


def create_app(
    store: Store, status: DaemonStatus, home: Path, limits: LiveLimits, output: OutputReader
) -> FastAPI:
    """The API of one daemon."""
    app = FastAPI(
        title="Muster",
        version=muster.__version__,
        summary="When each training job on a shared GPU cluster runs, how much it gets and where it runs.",
        openapi_url="/v1/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        # Of all routes, those of the pages too.
        dependencies=[Depends(check_query), Depends(check_body)],
    )
    what_ifs = WhatIfs(home)
    app.state.service = Service(
        store,
        LivingTokens(store),
        status,
        home,
        output,
        GroupCommit(store.submit),
        StartIntervals(store, status),
        limits,
        LoginCodes(store),
        ChangeStream(
            store,
            lambda: (
                status.failing,
                status.condition,
                status.refusals,
                status.untaken,
                limits.error,
                what_ifs.version,
            ),
        ),
        what_ifs,
    )
    handle_failures(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(SafeHeaders)
    for part in (jobs, starts, nodes, history, sessions, tokens, record, prune, what_if, health):
        app.include_router(part.router)
    return app
