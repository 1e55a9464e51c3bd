"""Network sensitivity (Dally §Priority): who has lost most to its placements so far goes first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.compiling import njit
from muster.schedulers.contract import Floats, Ints, Snapshot, State
from muster.schedulers.parts import Order
from muster.workload.jobs import RUNNING, AskedArray, FactArray, work_now

_DIGITS = 9
"""Of the sensitivity, so that jobs that lost nothing are equal and not ordered by rounding."""


@dataclass(frozen=True)
class NetworkSensitivity(Order):
    """Smallest ideal time of the work done over time spent running first; jobs that never ran before all others.

    Rules that state the sensitivity themselves have it compared in full; ties then go by id.
    """

    name: ClassVar[str] = "network-sensitivity"

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Rank by Nw_sens in (0, 1], 0 where nothing ran yet; ties by the moment the job last lost its GPUs."""
        facts, index = snapshot.table.facts, snapshot.jobs.index
        if len(index) and not np.isnan(facts["sensitivity"][index[0]]):
            ties = snapshot.table.id_ranks[index], facts["last_stop"][index]
            order = np.lexsort((*ties, facts["sensitivity"][index]))
        else:
            sensitivity, since = _sensitivity(snapshot.table.asked, facts, index, snapshot.now)
            order = np.lexsort((since, sensitivity))
        ranks = np.empty(len(index))
        ranks[order] = np.arange(len(index))
        return ranks, state


@njit(cache=True)
def _sensitivity(asked: AskedArray, facts: FactArray, index: Ints, now: float) -> tuple[Floats, Floats]:
    """Nw_sens of each job, and since when it is without GPUs: now for those that hold some."""
    sensitivity = np.zeros(len(index))
    since = np.full(len(index), now)
    done = work_now(facts, index, now)
    for at in range(len(index)):
        ask, fact = asked[index[at]], facts[index[at]]
        ran: float = fact["run"]
        if fact["state"] == RUNNING:
            ran += now - fact["settled"]
        else:
            since[at] = fact["last_stop"]
        if ran > 0:
            sensitivity[at] = done[at] * (ask["ideal"] / ask["iterations"]) / ran
    return np.round(sensitivity, _DIGITS), since
