"""What another scheduler or more nodes would have brought; read-only, and for operators: it counts all jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import structlog
from fastapi import APIRouter
from fastapi import Path as InAddress
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from muster.formatting import counted
from muster.service.api import answers
from muster.service.api.failures import Refused, may_answer
from muster.service.api.service import DESCRIBED, OperatorHere, Service, ServiceHere
from muster.service.export import trace_of_what_ran
from muster.service.what_if import Busy, Question, WhatIf

_DAY = 86400.0
_OF_A_REPORT = {
    # Its own policy lets its own script in, and nothing else; this one keeps it away from sessions and the API.
    "Content-Security-Policy": "sandbox allow-scripts allow-downloads; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}

log = structlog.get_logger()
router = APIRouter(prefix="/v1", tags=["what-if"], dependencies=[DESCRIBED], responses=may_answer(403))


class WhatIfRequest(BaseModel):
    """What is to be different, for the jobs that were submitted in the last days and completed."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    scheduler: Annotated[str, Field(max_length=200)] = ""
    """A combination of parts or a preset; empty: as this daemon's."""
    add_nodes: Annotated[str, Field(max_length=200)] = ""
    """As in one line that describes a cluster, `2x8gpu,96cpu,1tb`; empty: none."""
    days: Annotated[float, Field(gt=0, le=3650)] = 7.0


Number = Annotated[int, InAddress(ge=1, le=2**31 - 1)]


@router.post(
    "/what-if", status_code=202, response_model=answers.WhatIfAnswer, responses=may_answer(400, 403, 409, 413)
)
def ask(request: WhatIfRequest, service: ServiceHere, caller: OperatorHere) -> dict[str, Any]:
    """Simulate what ran here with another scheduler or more nodes, and beside it with what there is."""
    if not request.scheduler and not request.add_nodes:
        raise Refused(422, "nothing is different: name another scheduler, nodes to add, or both")
    store = service.store
    trace = trace_of_what_ran(store, store.now() - request.days * _DAY)
    if not trace.height:
        raise Refused(
            409, f"no job that was submitted in the last {counted(request.days, 'day')} has completed"
        )
    question = Question(request.scheduler, request.add_nodes, request.days)
    try:
        found = service.what_ifs.ask(question, caller.user, service.status, trace)
    except Busy:
        raise Refused(409, "another question is being answered; one at a time") from None
    log.info("what-if", user=caller.user, number=found.number, **vars(question))
    return _described(service, found)


@router.get("/what-if", response_model=answers.WhatIfList, responses=may_answer(403))
def what_ifs(service: ServiceHere, _: OperatorHere) -> dict[str, Any]:
    """The last questions and their answers, newest first; they are forgotten when the daemon ends."""
    return {"what_ifs": [_described(service, one) for one in service.what_ifs.all()]}


@router.get("/what-if/{number}", response_model=answers.WhatIfAnswer, responses=may_answer(403, 404))
def what_if(number: Number, service: ServiceHere, _: OperatorHere) -> dict[str, Any]:
    """One question and its answer, as far as there is one."""
    return _described(service, _one(service, number))


@router.delete("/what-if/{number}", status_code=204, responses=may_answer(403, 404), response_class=Response)
def forget(number: Number, service: ServiceHere, _: OperatorHere) -> None:
    """Forget a question; one that is being answered is given up."""
    service.what_ifs.remove(_one(service, number).number)


@router.get(
    "/what-if/{number}/report",
    response_class=FileResponse,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **may_answer(403, 404)},
)
def report(number: Number, service: ServiceHere, _: OperatorHere) -> FileResponse:
    """The answer as a page with charts."""
    return FileResponse(_report(service, number), media_type="text/html", headers=_OF_A_REPORT)


def _report(service: Service, number: int) -> Path:
    found = service.what_ifs.report(_one(service, number).number)
    if found is None:
        raise Refused(404, f"question {number} has no report")
    return found


def _one(service: Service, number: int) -> WhatIf:
    found = service.what_ifs.one(number)
    if found is None:
        raise Refused(404, f"there is no question {number}")
    return found


def _described(service: Service, one: WhatIf) -> dict[str, Any]:
    has_report = service.what_ifs.report(one.number) is not None
    return {
        **vars(one),
        **vars(one.question),
        "scheduler": one.question.scheduler or service.status.scheduler,
        "runs": [vars(run) for run in one.runs],
        "report": f"/v1/what-if/{one.number}/report" if has_report else None,
    }
