"""Which state requests a job accepts, as it is and as it will be once an earlier request is carried out."""

from __future__ import annotations

from muster.problems import InputError, Problem
from muster.service.store.rows import ENDED, JobRow, State, StateRequest


def checked_state_request(row: JobRow, requested: StateRequest) -> StateRequest:
    """The request, if the job accepts it; InputError says why not."""
    check_living(row)
    if row.state_request == requested:
        return requested
    if row.state_request == StateRequest.CANCEL:
        raise _rejected(row, f"it is being cancelled; it is too late to {requested} it")
    held = row.state == State.HELD if row.state_request is None else row.state_request == StateRequest.HOLD
    if requested == StateRequest.HOLD and held:
        raise _rejected(row, "it is held already")
    if requested == StateRequest.HOLD and row.runs_once:
        raise _rejected(
            row, "it runs and may not start again (--no-requeue), so a hold would end it; cancel does"
        )
    if requested == StateRequest.RELEASE and not held:
        raise _rejected(row, f"it is not held ({row.state}), so there is nothing to release")
    return requested


def check_living(row: JobRow) -> None:
    """InputError if the job has ended."""
    if row.state in ENDED:
        raise _rejected(row, f"it has ended ({row.state}), and accepts no request any more")


def _rejected(row: JobRow, what: str) -> InputError:
    return InputError(Problem(f"job {row.id}", what))
