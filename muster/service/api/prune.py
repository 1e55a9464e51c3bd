"""Forgetting what ended long ago."""

from __future__ import annotations

from typing import Annotated, Any

import structlog
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from muster.service import prune as pruning
from muster.service.api.failures import may_answer
from muster.service.api.service import DESCRIBED, OperatorHere, ServiceHere

log = structlog.get_logger()
router = APIRouter(prefix="/v1", tags=["record"], dependencies=[DESCRIBED], responses=may_answer(403))


class PruneRequest(BaseModel):
    """Which jobs may be removed."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    before: float
    """Unix seconds: jobs that ended before then."""
    after: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    """The answer before said it; 0 at first."""
    dry_run: bool = False
    """List what would be removed, and remove nothing."""


class KeptJob(BaseModel):
    """A job that stays, as its folder could not be removed."""

    job_id: int
    message: str


class PruneAnswer(BaseModel):
    """A piece of the work; `next` is the `after` of the next one, null at the end."""

    jobs: int
    bytes: int
    kept: list[KeptJob]
    next: int | None


@router.post("/jobs:prune", response_model=PruneAnswer, responses=may_answer(400, 413))
def prune(request: PruneRequest, service: ServiceHere, caller: OperatorHere) -> dict[str, Any]:
    """Remove jobs that ended before a moment, with their histories and folders; a piece of some seconds."""
    store = service.store
    before = store.at(request.before)
    done = pruning.prune(store, service.home, before, request.after, dry_run=request.dry_run)
    if not request.dry_run:
        log.info("pruned", user=caller.user, jobs=done.jobs, bytes=done.bytes, kept=len(done.kept))
    kept = [{"job_id": job, "message": message} for job, message in done.kept.items()]
    return {"jobs": done.jobs, "bytes": done.bytes, "kept": kept, "next": done.next}
