"""Rows of the database as the values of `rows`, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from muster.service.request import JobRequest
from muster.service.store.rows import (
    Explained,
    Holding,
    JobRow,
    Phase,
    State,
    Submission,
    TokenRow,
    Wish,
)
from muster.service.store.tables import JOBS

_CHANGEABLE = frozenset(JOBS.c.keys()) - {"id", "user", "name", "request", "submitted", "wish"}


def of_submission(job: int, submission: Submission, now: float) -> dict[str, Any]:
    """A new job's columns."""
    request = submission.request
    state = State.HELD if request.held else State.QUEUED
    row = JobRow(job, submission.user, request, now, state=state, reason_since=now)
    fields = {name: getattr(row, name) for name in _CHANGEABLE}
    return {
        "id": job,
        "user": submission.user,
        "name": request.name,
        "request": request.model_dump_json(),
        "submitted": now,
        "wish": None,
        **of_job_fields(fields),
    }


def of_job_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """New values of some fields as columns."""
    if unknown := sorted(fields.keys() - _CHANGEABLE):
        raise ValueError(f"a job's {', '.join(unknown)} cannot be changed by a commit")
    values = dict(fields)
    if "reason_parameters" in values:
        values["reason_parameters"] = json.dumps(dict(values["reason_parameters"]))
    return values


def job_row(row: Row[Any]) -> JobRow:
    """A row of `jobs`."""
    fields = dict(row._mapping)
    del fields["name"]
    return JobRow(
        **fields
        | {
            "request": _request(row.request),
            "state": State(row.state),
            "wish": None if row.wish is None else Wish(row.wish),
            "phase": Phase(row.phase),
            "reason_parameters": json.loads(row.reason_parameters),
        }
    )


def _request(text: str) -> JobRequest:
    """As it was taken. It was checked then: today's rules may refuse it, and it is a job all the same."""
    fields = json.loads(text)
    return JobRequest.model_construct(**fields | {"command": tuple(fields["command"])})


def of_holding(holding: Holding) -> dict[str, Any]:
    """A holding's columns."""
    return asdict(holding) | {"gpus": json.dumps(holding.gpus)}


def holding(row: Row[Any]) -> Holding:
    """A row of `holdings`."""
    fields = dict(row._mapping)
    del fields["id"]
    return Holding(**fields | {"gpus": tuple(json.loads(row.gpus))})


def of_explained(explained: Explained) -> dict[str, Any]:
    """A stretch of waiting as columns."""
    return vars(explained) | {"parameters": json.dumps(dict(explained.parameters))}


def explained(row: Row[Any]) -> Explained:
    """A row of `explained`."""
    return Explained(row.job, row.reason, json.loads(row.parameters), row.since, row.until)


def token(row: Row[Any]) -> TokenRow:
    """A row of `tokens`."""
    return TokenRow(row.id, row.user, row.operator, row.hash, row.created, row.revoked)
