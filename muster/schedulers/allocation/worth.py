"""What a plan is worth: the speed of all its jobs, less what its changes of running jobs cost."""

from __future__ import annotations

import numpy as np

from muster.cluster.books import Books, Floats, Ints
from muster.compiling import njit
from muster.schedulers.allocation.furnishing import gang_speed, raise_gang
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.seats import Seats, is_unchanged, stays_put
from muster.schedulers.contract import View
from muster.schedulers.interruption import HORIZON_SECONDS


def worth_of(view: View, gangs: Gangs, plan: Seats) -> float:
    """Return GPUs times speed of all jobs of a plan, less the part of it that its restarts lose within the horizon.

    A plan that is worth more than another repays its changes: the rule of `interruption.repays`, over all jobs.
    Where a resize restarts nothing, gangs on several machines first get what is left there.
    """
    jobs = view.jobs
    lost = np.where(jobs.running, jobs.interruption_cost, 0.0) / HORIZON_SECONDS
    return float(_worth(view.ledger.books, jobs.index, gangs, plan, lost, view.resize_restarts))


@njit(cache=True)
def _worth(
    books: Books, index: Ints, gangs: Gangs, plan: Seats, lost: Floats, resize_restarts: bool
) -> float:
    worth = 0.0
    for at in range(len(index)):
        if plan.first[at] < 0:
            continue
        if not resize_restarts:
            raise_gang(plan, gangs, at)
        head = books.heads[index[at]]
        if resize_restarts:
            restarts = head >= 0 and not is_unchanged(books, head, plan, plan.first[at])
        else:
            restarts = head >= 0 and not stays_put(books, head, plan, plan.first[at])
        worth += gangs.gpus[at] * gang_speed(plan, gangs, at) * (1 - lost[at] * restarts)
    return worth
