"""What every decision must be: the service checks all, the simulator those of schedulers that Muster does not ship."""

from __future__ import annotations

from math import isnan

import numpy as np

from muster.cluster.ledger import Changes
from muster.cluster.ledger_arrays import Bools, Ints
from muster.formatting import counted
from muster.schedulers.contract import Decision, Snapshot
from muster.schedulers.reasons import PLACED, REASONS

_ROUNDING = 1e-6
"""Of a value beside its bound, as a share of the larger one."""
_COLUMNS = {"reasons": np.integer, "reason_a": np.floating, "reason_b": np.floating}


def check_decision(decision: Decision, snapshot: Snapshot) -> None:
    """ValueError if a decision is none about the jobs of its snapshot; whether its changes fit is not looked at."""
    _check_columns(decision, len(snapshot.jobs))
    _check_numbers(decision)
    _check_jobs(decision, snapshot.jobs.index)
    _check_rows(decision, snapshot)
    placed = decision.reasons == PLACED
    wrong = np.flatnonzero(placed != _holding_after(decision, snapshot))
    if len(wrong):
        job = snapshot.jobs.ids[int(wrong[0])]
        if placed[wrong[0]]:
            raise ValueError(f"job {job} would wait, and its reason is PLACED; allowed: why it waits")
        raise ValueError(f"job {job} would hold an allocation, and its reason is not PLACED")
    if len(decision.ranked) and not 0 <= decision.ranked.min() <= decision.ranked.max() < len(snapshot.jobs):
        raise ValueError(
            f"ranked: allowed: positions of {counted(len(snapshot.jobs), 'job')}, each from 0 on"
        )
    if not isinstance(decision.notes, tuple) or not all(isinstance(note, str) for note in decision.notes):
        raise ValueError("notes have to be sentences")


def _check_columns(decision: Decision, count: int) -> None:
    for name, kind in _COLUMNS.items():
        column = getattr(decision, name)
        allowed = (
            f"{name}: allowed: an array of {kind.__name__} numbers, one for each of {counted(count, 'job')}"
        )
        if not isinstance(column, np.ndarray):
            raise ValueError(f"{allowed}, not {type(column).__name__}")
        if column.shape != (count,) or not np.issubdtype(column.dtype, kind):
            raise ValueError(f"{allowed}, not {column.dtype} of shape {column.shape}")
    unknown = decision.reasons[(decision.reasons < 0) | (decision.reasons >= len(REASONS))]
    if len(unknown):
        raise ValueError(f"there is no reason {unknown[0]}")
    if not isinstance(decision.changes, Changes):
        raise ValueError(f"changes: found {type(decision.changes).__name__}; allowed: those of a transaction")


def _check_numbers(decision: Decision) -> None:
    moments = {"next_wake": decision.next_wake, "stable_until": decision.stable_until}
    moments |= {f"the end of the lease of job {job}": end for job, end in decision.lease_ends.items()}
    figures = {"wake_on": decision.wake_on, "value": decision.value, "bound": decision.bound}
    for name, found in {**moments, **figures}.items():
        if not isinstance(found, int | float | np.number) or (name in moments and isnan(found)):
            raise ValueError(f"{name}: found {found!r}; allowed: a number")
    value, bound = float(decision.value), float(decision.bound)
    if value - bound > _ROUNDING * max(abs(value), abs(bound)):
        what = f"allowed: at most the bound of the decision, which is {bound:g}"
        raise ValueError(f"value: found {value:g}; {what}")


def _check_jobs(decision: Decision, asked: Ints) -> None:
    """ValueError for a job that the scheduler was not asked about."""
    known = set(asked.tolist())
    for what, jobs in (
        ("it changes", decision.changes.jobs.tolist()),
        ("a lease for", decision.lease_ends),
        ("it cancels", decision.cancelled),
    ):
        if strangers := set(jobs) - known:
            raise ValueError(f"{what} jobs that it was not asked about: {sorted(strangers)}")


def _check_rows(decision: Decision, snapshot: Snapshot) -> None:
    """ValueError for a job that comes to a node that it may not use, or has another part of each GPU than it asks for.

    Where it runs already it may stay: its node may have lost a label.
    """
    changes, table = decision.changes, snapshot.table
    jobs = np.repeat(changes.jobs, np.diff(changes.first))
    nodes, milli, asked = changes.rows["node"], changes.rows["milli"], table.asked[jobs]
    for at in np.flatnonzero(~table.node_allowed[asked["constraint"], nodes]).tolist():
        job, node = int(jobs[at]), int(nodes[at])
        if all(held.node != node for held in snapshot.ledger.holding(job)):
            name = snapshot.cluster.nodes[node].name
            raise ValueError(
                f"job {table.ids[job]} would be on node {name}; allowed: nodes of its constraint and partition"
            )
    shares = np.flatnonzero(milli != asked["milli"])
    if len(shares):
        job, at = table.ids[int(jobs[shares[0]])], int(shares[0])
        found = f"job {job} would hold {milli[at]} thousandths of each GPU"
        raise ValueError(f"{found}; allowed: {asked['milli'][at]}, as it asks for")


def _holding_after(decision: Decision, snapshot: Snapshot) -> Bools:
    """By position: whether the job holds something after the decision."""
    index, changes = snapshot.jobs.index, decision.changes
    holding: Bools = snapshot.ledger.books.heads[index] >= 0
    position = {job: at for at, job in enumerate(index.tolist())}
    for job, rows in zip(changes.jobs.tolist(), np.diff(changes.first).tolist(), strict=True):
        holding[position[job]] = rows > 0
    return holding
