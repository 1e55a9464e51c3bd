"""What users and tenants may ask of a daemon: a TOML file (`live_limits.py`: when it is read).

    [default]                  # users without a table of their own
    max_priority = 0
    max_jobs = 100             # jobs that have not ended: queued, running and held

    [users.ann]
    max_priority = 10
    tenants = ["vision"]       # of which ann names one for each job

    [tenants.vision]           # all users together
    max_jobs = 500

What is left out is not limited. A user's own table replaces the default as a whole. Operators are not limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from muster.checked_toml import parse_toml
from muster.files import read_text
from muster.formatting import counted
from muster.patterns import WORD
from muster.problems import Problem
from muster.service.request import JobRequest
from muster.service.store import Store

LIMITS = "limits.toml"
"""Its name in the home, where no other file is named."""
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=WORD)]


class Limit(BaseModel):
    """Of a user or a tenant; None: not limited."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_priority: float | None = Field(default=None, allow_inf_nan=False, strict=True)
    max_jobs: int | None = Field(default=None, ge=0, strict=True)


class UserLimit(Limit):
    """Of a user."""

    tenants: tuple[Name, ...] | None = None


class Limits(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    default: UserLimit = UserLimit()
    users: dict[Name, UserLimit] = {}
    tenants: dict[Name, Limit] = {}

    def of_user(self, user: str) -> UserLimit:
        """A user's own limits, or the default ones."""
        return self.users.get(user, self.default)


def read_limits(named: Path | None, home: Path) -> Limits:
    """The limits of the named file, else of the home's, else none; InputError names what is wrong with it."""
    path = named or home / LIMITS
    if named is None and not path.exists():
        return Limits()
    return parse_toml(read_text(path), str(path), Limits)


def exceeded(limits: Limits, user: str, requests: Sequence[JobRequest], store: Store) -> Iterator[Problem]:
    """Each limit that a user would exceed by submitting these jobs together."""
    own = limits.of_user(user)
    for at, request in enumerate(requests, start=1):
        where = "request" if len(requests) == 1 else f"request, job {at}"
        yield from _not_for_tenant(user, own, request.tenant, where)
        yield from priority_exceeded(limits, user, request, where)
    if own.max_jobs is not None:
        yield from _too_many(user, own.max_jobs, store.count_living(user=user), len(requests))
    for tenant, more in Counter(request.tenant for request in requests if request.tenant).items():
        limit = limits.tenants.get(tenant)
        if limit is not None and limit.max_jobs is not None:
            yield from _too_many(f"tenant {tenant}", limit.max_jobs, store.count_living(tenant=tenant), more)


def _not_for_tenant(user: str, own: UserLimit, tenant: str | None, where: str) -> Iterator[Problem]:
    """That a user of certain tenants names another one, or none, which would pass by their limits."""
    allowed = own.tenants
    if allowed is None or tenant in allowed or (tenant is None and not allowed):
        return
    if tenant is None:
        yield Problem(where, f"{user} has to name a tenant; allowed: {', '.join(allowed)}", column="tenant")
    else:
        named = ", ".join(allowed) or "none"
        yield Problem(
            where, f"{user} may not use this tenant; allowed: {named}", column="tenant", found=tenant
        )


def priority_exceeded(
    limits: Limits, user: str, request: JobRequest, where: str = "request"
) -> Iterator[Problem]:
    """The limits of a user and of a tenant that the priority of a request is above."""
    of_tenant = limits.tenants.get(request.tenant or "")
    for name, limit in ((user, limits.of_user(user)), (f"tenant {request.tenant}", of_tenant)):
        if limit is not None and limit.max_priority is not None and request.priority > limit.max_priority:
            what = f"{name} may ask for {limit.max_priority:g} at most"
            yield Problem(where, what, column="priority", found=request.priority)


def _too_many(name: str, most: int, there: int, more: int) -> Iterator[Problem]:
    if there + more > most:
        jobs = f"{counted(most, 'job')} that {'has' if most == 1 else 'have'} not ended"
        what = f"{name} may have {jobs}, has {there}, and this submits {more}"
        yield Problem("request", what)
