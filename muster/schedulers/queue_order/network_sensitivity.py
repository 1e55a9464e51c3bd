"""Network sensitivity (Dally §Priority): the job that has lost most to its placements goes first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Floats, Snapshot, State
from muster.schedulers.parts import Order
from muster.schedulers.queue_order.keys import network_sensitivity


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
            sensitivity, since = network_sensitivity(snapshot.table.asked, facts, index, snapshot.now)
            order = np.lexsort((since, sensitivity))
        ranks = np.empty(len(index))
        ranks[order] = np.arange(len(index))
        return ranks, state
