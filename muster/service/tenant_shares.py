"""How many GPUs a tenant may count on and may hold, and who borrows from whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

LEAST_GPUS = 0.0005
"""They have a thousand parts; a smaller difference is one of rounding."""


@dataclass(frozen=True)
class Loan:
    """GPUs above a tenant's share that it holds."""

    lender: str | None
    """The tenant that leaves them free; None: they are in no tenant's share."""
    gpus: float


@dataclass(frozen=True)
class TenantShare:
    """The share of one tenant, and what it holds above it."""

    share_gpus: float
    loans: tuple[Loan, ...]


def guaranteed_gpus(scheduler: Mapping[str, Any]) -> Mapping[str, float]:
    """The GPUs that the part `quota` of a scheduler guarantees to tenants, by its description; empty: to none."""
    return _set_for_quota(scheduler, "guaranteed")


def gpu_limits(scheduler: Mapping[str, Any]) -> Mapping[str, float]:
    """The most GPUs that tenants may hold under the part `quota`, likewise; empty: none has a limit."""
    return _set_for_quota(scheduler, "limits")


def _set_for_quota(scheduler: Mapping[str, Any], name: str) -> Mapping[str, float]:
    settings = scheduler.get("settings")
    quota = settings.get("quota") if isinstance(settings, Mapping) else None
    found = quota.get(name) if isinstance(quota, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def tenant_shares(
    held: Mapping[str, float], living: Collection[str], guaranteed: Mapping[str, float], total_gpus: float
) -> dict[str, TenantShare]:
    """The share of each tenant in `held`, and from whom it borrows what it holds above that.

    A share is what is guaranteed. Where nothing is, the `living` tenants, those with jobs that have not ended, have
    equal parts of all GPUs. Tenants above their shares borrow first what is in no share, then from the tenant that
    leaves most of its share free.
    """
    equal = total_gpus / len(living) if living else 0.0
    shares = {
        tenant: guaranteed.get(tenant, 0.0) if guaranteed else equal if tenant in living else 0.0
        for tenant in held
    }
    free: dict[str | None, float] = {None: max(total_gpus - sum(shares.values()), 0.0)}
    left = {tenant: share - held[tenant] for tenant, share in shares.items()}
    free |= {tenant: left[tenant] for tenant in sorted(left, key=lambda one: (-left[one], one))}
    return {
        tenant: TenantShare(share, _borrowed(held[tenant] - share, free))
        for tenant, share in sorted(shares.items())
    }


def _borrowed(above: float, free: dict[str | None, float]) -> tuple[Loan, ...]:
    """Take so many GPUs out of what is free, in its order."""
    loans = []
    for lender, there in free.items():
        taken = min(above, there)
        if taken >= LEAST_GPUS:
            loans.append(Loan(lender, taken))
            free[lender] -= taken
            above -= taken
    return tuple(loans)
