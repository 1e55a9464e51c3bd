"""Tenants: hard limits, guaranteed GPUs, borrowing by weight, and reclaim."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import GPU, MICRO, NONE, WHOLE
from muster.schedulers.admission.quota_core import quota_keys
from muster.schedulers.contract import Bools, Floats, Ints, Jobs, Snapshot
from muster.schedulers.gpu_limits import GpuLimits
from muster.schedulers.parts import AdmissionFilter, Ranking, setting
from muster.schedulers.reasons import OVER_LIMIT

_NOTHING = 1e-9
"""GPUs; fewer are a matter of rounding."""


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

    def __post_init__(self) -> None:
        for name, given in (("limits", self.limits), ("guaranteed", self.guaranteed)):
            if min(given.values(), default=0.0) < 0:
                raise ValueError(f"{name}: allowed: numbers from 0 on")
        for tenant, least in self.guaranteed.items():
            if least > (most := self.limits.get(tenant, inf)):
                raise ValueError(f"guaranteed: allowed: for {tenant} at most its limit, {most:g}")
        if min(self.weights.values(), default=1.0) <= 0:
            raise ValueError("weights: allowed: numbers above 0")

    def per_tenant(self, tenants: Sequence[str]) -> tuple[Floats, Floats, Floats]:
        """The limit, the guarantee and the weight of each tenant."""
        limits, guaranteed, weights = (
            np.array([given.get(tenant, default) for tenant in tenants], np.float64)
            for given, default in ((self.limits, inf), (self.guaranteed, 0.0), (self.weights, 1.0))
        )
        return limits, guaranteed, weights

    def select(self, snapshot: Snapshot, ranked: Ints, pinned: Bools) -> Ranking:
        """Guaranteed jobs in their order, then borrowers by (GPUs held with this job / weight), pinned ones first.

        Without weights borrowers are in their order, pinned ones too.
        """
        jobs, tenants = snapshot.jobs, snapshot.table.tenants
        per_tenant = self.per_tenant(tenants)
        running = jobs.running
        fixed = pinned | running
        fixed[ranked] = pinned[ranked]
        counted = snapshot.counted_gpus
        used = np.bincount(jobs.tenant[fixed], counted[fixed], minlength=len(tenants)).astype(np.float64)
        guaranteed = fixed & (used <= per_tenant[1])[jobs.tenant]
        candidates = ranked[~fixed[ranked]]
        rank_keys, over = quota_keys(candidates, jobs.tenant, counted, used, per_tenant)
        kept = np.flatnonzero(~over)
        if not self.weights:
            rank_keys = np.minimum(rank_keys, 1.0)
        guaranteed[candidates[kept[rank_keys[kept] == 0]]] = True
        excluded = candidates[over]
        keys = np.where(guaranteed, 0.0, 1.0)
        keys[candidates] = rank_keys
        admitted = ranked[~np.isin(ranked, excluded)]
        ranked = admitted[np.argsort(keys[admitted], kind="stable")]
        return Ranking(
            ranked=ranked,
            excluded=excluded,
            code=OVER_LIMIT,
            a=per_tenant[0][jobs.tenant[excluded]],
            b=counted[excluded],
            limits=_limits_beyond(
                jobs, np.isfinite(per_tenant[0])[jobs.tenant], counted, per_tenant[0] - used
            )
            if self.limits
            else None,
            assured=_assured(snapshot, ranked, guaranteed, counted, per_tenant[1] - used)
            if self.guaranteed
            else None,
            shares=_shares(snapshot, np.union1d(ranked, np.flatnonzero(fixed)), per_tenant)
            if self.weights and snapshot.sizes_chosen
            else None,
        )

    def counted_in_vain(self, snapshot: Snapshot, ranking: Ranking, placed: Bools, free: int) -> Ints:
        """Waiting jobs without a place, of tenants that could hold another job's GPUs beside what they hold."""
        jobs, counted, out = snapshot.jobs, snapshot.counted_gpus, ranking.excluded
        if not len(out):
            return out
        held = np.bincount(jobs.tenant[placed], counted[placed], minlength=len(snapshot.table.tenants))
        fits = (counted[out] * MICRO <= free) & (held[jobs.tenant[out]] + counted[out] <= ranking.a)
        waiting = ranking.ranked[(jobs.waiting & ~placed)[ranking.ranked]]
        in_vain: Ints = waiting[np.isin(jobs.tenant[waiting], jobs.tenant[out[fits]])]
        return in_vain


def _limits_beyond(jobs: Jobs, limited: Bools, counted: Floats, left: Floats) -> GpuLimits:
    """Return what some jobs may have beyond what each counts, from what is left to each tenant."""
    return GpuLimits(np.where(limited, jobs.tenant, NONE), counted, np.maximum(left, 0.0))


def _shares(snapshot: Snapshot, served: Ints, per_tenant: tuple[Floats, Floats, Floats]) -> GpuLimits:
    """Return the parts of all GPUs that tenants have by their weights, the guaranteed ones first.

    A tenant has no more than its jobs can use and its limit allows; the others have the rest.
    """
    jobs, nodes = snapshot.jobs, snapshot.ledger.books.nodes
    limits, guaranteed, weights = per_tenant
    most = (jobs.max_gpus * (jobs.gpu_milli / WHOLE))[served]
    wanted = np.minimum(np.bincount(jobs.tenant[served], most, len(weights)), limits)
    share = np.minimum(guaranteed, wanted)
    left = float((nodes["capacity"] - nodes["unavailable"])[:, GPU].sum()) / MICRO - share.sum()
    while left > _NOTHING and (wants := share < wanted).any():
        more = np.minimum(left * weights * wants / weights[wants].sum(), wanted - share)
        share += more
        left -= more.sum()
    return GpuLimits(jobs.tenant, np.zeros(len(jobs)), share)


def _assured(snapshot: Snapshot, order: Ints, guaranteed: Bools, counted: Floats, left: Floats) -> Floats:
    """Return the GPUs that the guaranteed jobs have before all others: those counted, and what is left in an order."""
    jobs = snapshot.jobs
    wanted = jobs.max_gpus * (jobs.gpu_milli / WHOLE) if snapshot.sizes_chosen else counted
    most = _limits_beyond(jobs, guaranteed, counted, left).most_gpus(order, wanted)
    return np.where(guaranteed, most, 0.0)
