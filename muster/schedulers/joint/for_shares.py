"""Room for shares of a GPU: they are served from what a plan leaves, and other jobs may leave nothing.

For one that comes before them a running job stops that is worth less, or jobs do not start that come after it. The plan
is then made beside the share.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import WHOLE, Bools, Floats, Ints
from muster.schedulers.allocation.placement_draft import serve
from muster.schedulers.contract import Proposal, Snapshot
from muster.schedulers.joint.within_limits import goes_on, within_limits
from muster.schedulers.reasons import PLACED


def waiting_shares(snapshot: Snapshot, proposal: Proposal, first: Ints) -> Ints:
    """Return those of these jobs that ask for a share of a GPU, hold none, and are within their limits."""
    jobs = snapshot.jobs
    waits = (jobs.gpu_milli < WHOLE) & jobs.waiting & (snapshot.ledger.books.heads[jobs.index] < 0)
    found = first[waits[first]]
    return within_limits(jobs, found, proposal.limits, goes_on(snapshot))[0] if len(found) else found


def serve_passed(snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools, mark: int) -> bool:
    """Place the chosen shares that wait while a whole job starts which comes after them; whether there are any.

    What came after the mark is undone then.
    """
    jobs, shares = snapshot.jobs, waiting_shares(snapshot, proposal, ranked[chosen[ranked]])
    starts = jobs.waiting & (jobs.gpu_milli == WHOLE) & (proposal.reasons == PLACED)
    last = np.flatnonzero(starts[ranked]).max(initial=-1)
    passed: Ints = shares[np.isin(shares, ranked[: last + 1])]
    if len(passed):
        proposal.transaction.undo(mark)
        serve(snapshot, proposal.transaction, passed, chosen)
    return len(passed) > 0


def serve_by_stopping(
    snapshot: Snapshot, proposal: Proposal, shares: Ints, others: Ints, weight: Floats
) -> None:
    """Place shares; where one has no room, the first of the others stops that is worth less and then leaves room."""
    for share in shares.tolist():
        if not _is_served(snapshot, proposal, share):
            worth_less = others[weight[others] < weight[share]].tolist()
            any(_makes_room(snapshot, proposal, share, other) for other in worth_less)


def _makes_room(snapshot: Snapshot, proposal: Proposal, share: int, other: int) -> bool:
    """Stop a job and serve a share in its place; nothing changes where that does not do."""
    jobs, transaction = snapshot.jobs, proposal.transaction
    number = int(jobs.index[other])
    head = int(snapshot.ledger.books.heads[number])
    nodes = [] if head < 0 else [held.node for held in snapshot.ledger.shares(head)]
    if not snapshot.table.node_allowed[jobs.constraint[share], nodes].any():
        return False
    mark = transaction.mark()
    transaction.release(number)
    served = _is_served(snapshot, proposal, share)
    if not served:
        transaction.undo(mark)
    return served


def _is_served(snapshot: Snapshot, proposal: Proposal, share: int) -> bool:
    """Serve a share if there is room for it."""
    serve(snapshot, proposal.transaction, np.array([share]), np.ones(len(snapshot.jobs), np.bool_))
    return bool(snapshot.ledger.books.heads[snapshot.jobs.index[share]] >= 0)
