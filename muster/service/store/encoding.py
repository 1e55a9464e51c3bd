"""Rows of the database as the values of `rows`, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Row

from muster.cluster.ledger import NodeAllocation
from muster.cluster.resources import FURTHER
from muster.service.request import JobRequest
from muster.service.store.rows import (
    AllocationInterval,
    JobRow,
    PendingInterval,
    Phase,
    SizeSteps,
    State,
    StateRequest,
    Submission,
    TokenRow,
)
from muster.service.store.tables import JOBS

_JOB_COLUMNS = JOBS.c.keys()
_CHANGEABLE = frozenset(_JOB_COLUMNS) - {"id", "user", "name", "request", "submitted", "state_request"}
_REQUEST_FIELDS = frozenset(JobRequest.model_fields)
_UNSTATED = JobRequest.model_construct()
"""A request with the defaults of what an earlier version did not ask."""
_AMOUNTS = ("node", "milli", "cpus", "memory_gb", "storage_gb_per_s")


def of_submission(job: int, submission: Submission, now: float) -> dict[str, Any]:
    """A new job's columns."""
    request = submission.request
    state = State.HELD if request.held else State.QUEUED
    row = JobRow(
        job, submission.user, request, now, state=state, reason_since=now, engine_key=submission.engine_key
    )
    fields = {name: getattr(row, name) for name in _CHANGEABLE}
    return {
        "id": job,
        "user": submission.user,
        "name": request.name,
        "request": request.model_dump_json(),
        "submitted": now,
        "state_request": None,
        **of_job_fields(fields),
    }


def of_job_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """New values of some fields as columns."""
    if unknown := sorted(fields.keys() - _CHANGEABLE):
        raise ValueError(f"a job's {', '.join(unknown)} cannot be changed by a commit")
    values = dict(fields)
    if "reason_parameters" in values:
        values["reason_parameters"] = json.dumps(dict(values["reason_parameters"]))
    for name in ("size_steps", "fixed_nodes"):
        if name in values:
            values[name] = json.dumps(values[name])
    return values


def job_row(row: Row[Any]) -> JobRow:
    """A row of `jobs`."""
    fields = dict(zip(_JOB_COLUMNS, row, strict=True))
    del fields["name"]
    fields["request"] = _request(fields["request"])
    fields["state"] = State(fields["state"])
    if fields["state_request"] is not None:
        fields["state_request"] = StateRequest(fields["state_request"])
    fields["phase"] = Phase(fields["phase"])
    fields["reason_parameters"] = json.loads(fields["reason_parameters"])
    fields["size_steps"] = _size_steps(fields["size_steps"])
    fields["fixed_nodes"] = _fixed_nodes(fields["fixed_nodes"])
    return JobRow.of_all_fields(fields)


def _request(text: str) -> JobRequest:
    """As it was taken. It was checked then: today's rules may refuse it, and it is a job all the same."""
    fields = json.loads(text)
    fields["command"] = tuple(fields["command"])
    for unknown in fields.keys() - _REQUEST_FIELDS:
        del fields[unknown]
    # Half the time of `model_construct`, which each row of a long history would take.
    return _UNSTATED.model_copy(update=fields)


@lru_cache(maxsize=1000)
def _size_steps(text: str) -> tuple[SizeSteps, ...]:
    return tuple(SizeSteps(*size) for size in json.loads(text))


@lru_cache(maxsize=1000)
def _fixed_nodes(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def of_allocation_interval(interval: AllocationInterval) -> dict[str, Any]:
    """An interval's columns. Engines run workers that share no GPU by turns, so role and group are not kept."""
    here = interval.allocation
    amounts = {name: getattr(here, name) for name in _AMOUNTS}
    times = {"since": interval.since, "until": interval.until}
    texts = {"gpu_ids": json.dumps(here.gpu_ids), "resources": json.dumps(here.further_by_name)}
    return {"job": interval.job, "epoch": interval.epoch} | texts | amounts | times


def allocation_interval(row: Row[Any]) -> AllocationInterval:
    """A row of `allocation_intervals`."""
    allocation: NodeAllocation[str] = NodeAllocation(
        node=row.node,
        gpu_ids=_gpu_ids(row.gpu_ids),
        cpus=row.cpus,
        memory_gb=row.memory_gb,
        storage_gb_per_s=row.storage_gb_per_s,
        milli=row.milli,
        further=_further(row.resources),
    )
    return AllocationInterval(row.job, row.epoch, allocation, row.since, row.until)


@lru_cache(maxsize=10_000)
def _gpu_ids(text: str) -> tuple[int, ...]:
    """The GPUs that a row names; most rows of a cluster name one of a few sets."""
    return tuple(json.loads(text))


@lru_cache(maxsize=1000)
def _further(text: str) -> tuple[float, ...]:
    held = json.loads(text)
    return tuple(held.get(one.name, 0.0) for one in FURTHER)


def of_pending_interval(interval: PendingInterval) -> dict[str, Any]:
    """A stretch of waiting as columns."""
    return vars(interval) | {"parameters": json.dumps(dict(interval.parameters))}


def pending_interval(row: Row[Any]) -> PendingInterval:
    """A row of `pending_intervals`."""
    return PendingInterval(row.job, row.reason, json.loads(row.parameters), row.since, row.until)


def token(row: Row[Any]) -> TokenRow:
    """A row of `tokens`."""
    return TokenRow(row.id, row.user, row.operator, row.hash, row.created, row.revoked)
