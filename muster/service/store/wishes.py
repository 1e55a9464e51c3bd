"""Which wishes make sense for a job, as it is and as it will be once it got what was wished before."""

from __future__ import annotations

from muster.problems import InputError, Problem
from muster.service.store.rows import ENDED, JobRow, State, Wish


def checked_wish(row: JobRow, wish: Wish) -> Wish:
    """The wish, if there is a sense in it; InputError says why not."""
    if row.state in ENDED:
        raise _senseless(row, f"it has ended ({row.state}), and nothing can be wished of it any more")
    if row.wish == wish:
        return wish
    if row.wish == Wish.CANCEL:
        raise _senseless(row, f"it is being cancelled; it is too late to {wish} it")
    held = row.state == State.HELD if row.wish is None else row.wish == Wish.HOLD
    if wish == Wish.HOLD and held:
        raise _senseless(row, "it is held already")
    if wish == Wish.RELEASE and not held:
        raise _senseless(row, f"it is not held ({row.state}), so there is nothing to release")
    return wish


def _senseless(row: JobRow, what: str) -> InputError:
    return InputError(Problem(f"job {row.id}", what))
