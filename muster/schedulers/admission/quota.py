"""Tenants: hard limits, guaranteed GPUs, borrowing by weight, and reclaim."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import NONE
from muster.schedulers.admission.quota_core import quota_keys
from muster.schedulers.contract import Bools, Floats, Ints, Snapshot
from muster.schedulers.gpu_limits import GpuLimits
from muster.schedulers.parts import AdmissionFilter, Ranking, setting
from muster.schedulers.reasons import OVER_LIMIT


@dataclass(frozen=True)
class Quota(AdmissionFilter):
    """Tenants hold at most their limit; guaranteed GPUs go first, the rest is borrowed by weight.

    With a preemptive order (or `preemptive=true`) a tenant takes its guaranteed GPUs back from borrowers.
    """

    name: ClassVar[str] = "quota"

    limits: dict[str, float] = setting({}, "most GPUs a tenant may hold, as a:64,b:32; none for the others")
    guaranteed: dict[str, float] = setting(
        {}, "GPUs that are a tenant's first, as a:64,b:32; 0 for the others"
    )
    weights: dict[str, float] = setting({}, "shares in which tenants borrow, as a:2,b:1; 1 for the others")

    def per_tenant(self, tenants: Sequence[str]) -> tuple[Floats, Floats, Floats]:
        """The limit, the guarantee and the weight of each tenant."""
        limits, guaranteed, weights = (
            np.array([given.get(tenant, default) for tenant in tenants], np.float64)
            for given, default in ((self.limits, inf), (self.guaranteed, 0.0), (self.weights, 1.0))
        )
        return limits, guaranteed, weights

    def select(self, snapshot: Snapshot, ranked: Ints, pinned: Bools) -> Ranking:
        """Guaranteed jobs in their order, then borrowers by (GPUs held with this job / weight)."""
        jobs, tenants = snapshot.jobs, snapshot.table.tenants
        per_tenant = self.per_tenant(tenants)
        running = jobs.running
        fixed = pinned | running
        fixed[ranked] = pinned[ranked]
        used = np.bincount(jobs.tenant[fixed], jobs.held_gpus[fixed], minlength=len(tenants)).astype(
            np.float64
        )
        candidates = ranked[~fixed[ranked]]
        demand = snapshot.counted_gpus
        rank_keys, over = quota_keys(candidates, jobs.tenant, demand, used, per_tenant)
        kept = np.flatnonzero(~over)
        if not self.weights:
            rank_keys = np.minimum(rank_keys, 1.0)
        excluded = candidates[over]
        return Ranking(
            ranked=np.concatenate(
                [ranked[fixed[ranked]], candidates[kept][np.argsort(rank_keys[kept], kind="stable")]]
            ),
            excluded=excluded,
            code=OVER_LIMIT,
            a=per_tenant[0][jobs.tenant[excluded]],
            b=demand[excluded],
            limits=GpuLimits(
                group=np.where(np.isfinite(per_tenant[0]), np.arange(len(tenants)), NONE)[jobs.tenant],
                counted=np.where(fixed, jobs.held_gpus, demand),
                left=np.maximum(per_tenant[0] - used, 0.0),
            )
            if self.limits
            else None,
        )
