"""Asking the scheduler: its answer is either good in every respect, or an exception."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from muster.cluster import books as b
from muster.schedulers.contract import Ints, Plan, Rows, Scheduler, State, View
from muster.schedulers.reasons import reason
from muster.service.conductor.memory import to_bytes
from muster.world import bookkeeping as keep


@dataclass(frozen=True)
class Decided:
    """What a scheduler wants from now on; its draft is in the ledger."""

    plan: Plan
    state: State
    memory: bytes
    """The state, for the store."""
    touched: Ints
    """Numbers of the jobs that its draft speaks of, ascending."""
    seconds: float
    """It took."""


def decided(scheduler: Scheduler, view: View, state: State, asked: Rows) -> Decided:
    """What it decides. Whatever is raised, nothing but the draft in the view's ledger has changed."""
    began = time.perf_counter()
    plan, after = scheduler.decide(view, state)
    books = view.ledger.books
    touched = np.unique(books.journal["job"][: books.totals[b.ENTRIES]])
    _check_answer(plan, view)
    _check_draft(touched, view, asked)
    return Decided(plan, after, to_bytes(after, scheduler.name), touched, time.perf_counter() - began)


def _check_answer(plan: Plan, view: View) -> None:
    """What a plan says beside its draft."""
    count = len(view.jobs)
    kinds = {"reasons": np.integer, "reason_a": np.floating, "reason_b": np.floating}
    for name, kind in kinds.items():
        column = np.asarray(getattr(plan, name))
        if column.shape != (count,) or not np.issubdtype(column.dtype, kind):
            said = f"{column.dtype} of shape {column.shape}"
            raise ValueError(
                f"{name}: {kind.__name__} numbers are needed, one for each of {count} jobs, not {said}"
            )
    for code in np.unique(plan.reasons).tolist():
        if code < 0:
            raise ValueError(f"there is no reason {code}")
        reason(code)
    strangers = plan.lease_ends.keys() - set(view.jobs.index.tolist() if plan.lease_ends else ())
    if strangers:
        raise ValueError(f"a lease for jobs that it was not asked about: {sorted(strangers)}")
    moments = [plan.next_wake, *plan.lease_ends.values()]
    if any(math.isnan(moment) for moment in moments):
        raise ValueError("next_wake and the ends of leases have to be numbers")
    if not all(
        isinstance(figure, int | float | np.number) for figure in (plan.value, plan.bound, plan.wake_on)
    ):
        raise ValueError("value, bound and wake_on have to be numbers")
    if not all(isinstance(note, str) for note in plan.notes):
        raise ValueError("notes have to be sentences")


def _check_draft(touched: Ints, view: View, asked: Rows) -> None:
    """Who would hold what."""
    books = view.ledger.books
    strangers = np.setdiff1d(touched, view.jobs.index)
    if len(strangers):
        raise ValueError(f"its draft has jobs that it was not asked about: {strangers.tolist()}")
    broken = int(keep.broken_gang(books, asked))
    if broken >= 0:
        raise ValueError(
            f"job {broken} would hold other than the GPUs it asked for; a gang is whole or absent"
        )
    rows = books.heads[touched]
    if (books.rows["group"][rows[rows >= 0]] >= 0).any():
        raise ValueError("jobs would take turns on a GPU by time slices, which no engine can do yet")
