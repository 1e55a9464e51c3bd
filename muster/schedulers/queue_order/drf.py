"""Dominant resource fairness (NSDI'11) over the users who share a cluster."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import MICRO
from muster.cluster.resources import BUILT_IN_COUNT, RESOURCE_COUNT
from muster.schedulers.contract import Floats, Snapshot, State
from muster.schedulers.parts import Order


@dataclass(frozen=True)
class Drf(Order):
    """Smallest dominant share first: each user's jobs in turn, by what they take of the scarcest resource."""

    name: ClassVar[str] = "drf"
    static_priority: ClassVar[bool] = True

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """The owner's dominant share once this job and its earlier ones are served (progressive filling).

        Owners are users, where there are none tenants, where there are none the jobs themselves.
        """
        jobs, cluster = snapshot.jobs, snapshot.cluster
        gpus = jobs.requested_gpus / cluster.total_gpus
        shares = [gpus]
        requested, total = jobs.requested, snapshot.ledger.books.nodes["capacity"].sum(axis=0)
        for resource in range(1, RESOURCE_COUNT):
            # Nothing stated: the GPU-proportional share, which is as large a part as the GPUs are.
            unstated = gpus if resource < BUILT_IN_COUNT else 0.0
            part = requested[:, resource] / max(float(total[resource]), MICRO)
            shares.append(np.where(requested[:, resource] >= 0, part, unstated))
        owner = jobs.user if len(snapshot.table.users) > 1 else jobs.tenant
        if len(snapshot.table.users) == 1 and len(snapshot.table.tenants) == 1:
            owner = np.arange(len(jobs))
        by_owner = np.argsort(owner, kind="stable")
        starts = np.flatnonzero(np.diff(owner[by_owner], prepend=-1))
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(jobs))))
        dominant = np.zeros(len(jobs))
        for share in shares:
            summed = np.cumsum(share[by_owner])
            before = np.append(0.0, summed)[starts]
            dominant[by_owner] = np.maximum(dominant[by_owner], summed - before[group])
        return np.round(dominant, 12), state
