"""The record of what really happened, as one archive, and the last decision with all that it went by."""

from __future__ import annotations

import tarfile
import tempfile
from functools import partial
from pathlib import Path

from fastapi import APIRouter, BackgroundTasks
from fastapi.responses import Response, StreamingResponse

from muster.problems import InputError
from muster.service.api.failures import Refused, may_answer
from muster.service.api.service import DESCRIBED, OperatorHere, ServiceHere

_PIECE = 2**20

router = APIRouter(prefix="/v1", tags=["record"], dependencies=[DESCRIBED], responses=may_answer(403))


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}},
    },
)
def export(service: ServiceHere, _: OperatorHere) -> StreamingResponse:
    """A tar of the record, in the simulator's format, of what ran as a trace, and of the cluster as a file."""
    from muster.cluster.cluster_file import write_cluster_file
    from muster.service.export import CLUSTER, TRACE, record_and_trace

    with tempfile.TemporaryDirectory(prefix="muster-export-") as folder:
        record, trace = record_and_trace(service.store, service.status)
        record.write(Path(folder))
        trace.write_csv(Path(folder, TRACE))
        write_cluster_file(service.status.cluster, Path(folder, CLUSTER))
        archive = tempfile.TemporaryFile()  # noqa: SIM115 - read while it is sent
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for file in sorted(Path(folder).iterdir()):
                tar.add(file, file.name)
    archive.seek(0)
    pieces = iter(partial(archive.read, _PIECE), b"")
    # Closed also where the client hangs up before the end.
    then = BackgroundTasks()
    then.add_task(archive.close)
    return StreamingResponse(pieces, media_type="application/x-tar", background=then)


@router.get(
    "/snapshot",
    response_class=Response,
    responses={
        200: {"content": {"application/json": {"schema": {"type": "object"}}}},
        **may_answer(404, 409),
    },
)
def snapshot(service: ServiceHere, _: OperatorHere) -> Response:
    """The whole input of the last decision, and the decision; muster replay decides it again."""
    last = service.status.last_decision
    if last is None:
        raise Refused(404, "there has been no decision since this daemon began")
    try:
        file = last.taken.file(service.status.policy, last.decision, "service")
    except InputError as bad:
        raise Refused(409, str(bad)) from None
    return Response(file.text(), media_type="application/json")
