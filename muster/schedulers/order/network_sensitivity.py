"""Network sensitivity (Dally §Priority): who has lost most to its placements so far goes first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Floats, State, View
from muster.schedulers.parts import Order

_DIGITS = 9
"""Of the sensitivity, so that jobs that lost nothing are equal and not ordered by rounding."""


@dataclass(frozen=True)
class NetworkSensitivity(Order):
    """Smallest ideal time of the work done over time spent running first; whoever never ran before all others."""

    name: ClassVar[str] = "network-sensitivity"

    def keys(self, view: View, state: State) -> tuple[Floats, State]:
        """Rank by Nw_sens in (0, 1], 0 where nothing ran yet; ties by the moment the job last lost its GPUs."""
        jobs = view.jobs
        asked = view.table.asked
        ideal = jobs.work_done * (asked["ideal"] / asked["iterations"])[jobs.index]
        ran = jobs.run_seconds
        sensitivity = np.round(np.divide(ideal, ran, out=np.zeros_like(ran), where=ran > 0), _DIGITS)
        without_gpus_since = np.where(jobs.running, view.now, jobs.last_stop)
        ranks = np.empty(len(jobs))
        ranks[np.lexsort((without_gpus_since, sensitivity))] = np.arange(len(jobs))
        return ranks, state
