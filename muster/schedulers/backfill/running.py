"""What running jobs hold and when their time limits end, as arrays for compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.held_rows import held_rows
from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.contract import Snapshot
from muster.workload.jobs import RUNNING


class Holdings(NamedTuple):
    """The jobs that hold something, by number. The rows of the one at `i` are from `first[i]` to `first[i + 1]`."""

    jobs: Ints
    started: Floats
    """Its last start; now for a job that this decision starts."""
    limits: Floats
    first: Ints
    nodes: Ints
    amounts: Ints


def holdings(snapshot: Snapshot) -> Holdings | None:
    """What all jobs of a snapshot hold, those included that this decision has started; None if nothing is held."""
    books, table = snapshot.ledger.books, snapshot.table
    chains = [row for _, row in held_rows(books, snapshot.jobs.index)]
    if not chains:
        return None
    rows = np.concatenate(chains)
    held = books.rows[rows[np.argsort(books.rows["job"][rows], kind="stable")]]
    owner = held["job"]
    first = np.concatenate([[0], np.flatnonzero(owner[1:] != owner[:-1]) + 1, [len(owner)]])
    owners = owner[first[:-1]]
    facts = table.facts
    return Holdings(
        owners.astype(np.int64),
        np.where(facts["state"][owners] == RUNNING, facts["last_start"][owners], snapshot.now),
        table.asked["time_limit"][owners],
        first,
        np.ascontiguousarray(held["node"]),
        np.ascontiguousarray(held["amount"]),
    )
