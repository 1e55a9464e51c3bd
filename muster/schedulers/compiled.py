"""Which schedulers have a compiled form, and how it is made: a composed one all of whose parts are compiled."""

from __future__ import annotations

from math import inf

import numpy as np

from muster.schedulers.admission.quota import Quota
from muster.schedulers.backfill.reserving import ReservingScheduler
from muster.schedulers.composed import Composed, IndependentAllocator
from muster.schedulers.composed_core import CompiledScheduler
from muster.schedulers.contract import Scheduler, Snapshot
from muster.schedulers.job_kinds import kinds
from muster.schedulers.parts import DURATIONS, Allocation, Order, Part
from muster.schedulers.phases import phases_are_logged
from muster.schedulers.whole_queue import WholeQueueScheduler

_ATTAINED_IN_QUEUES = 8
"""The order by attained service with queues, which the plain one becomes."""


def _form(part: Part) -> int | None:
    """The number of a part's compiled form; None for a class that only inherits one."""
    number: int | None = vars(type(part)).get("compiled")
    return number


def compiled_form(scheduler: Scheduler, snapshot: Snapshot) -> CompiledScheduler | None:
    """The compiled form of a scheduler for all jobs of a snapshot; None if Python is needed.

    That is for a part written in Python, jobs that it does not know, and a log of a decision's phases. A class derived
    from a shipped part is another part.
    """
    table, nodes = snapshot.table, snapshot.ledger.books.nodes
    unknown = np.isnan(table.asked["believed"])
    if (table.asked["gpus"] == 0).any() or (unknown.any() and not unknown.all()) or phases_are_logged():
        return None
    if type(scheduler) is ReservingScheduler:
        number, queues = _order(scheduler.order)
        return None if number is None else scheduler.core(snapshot, number, queues)
    share = nodes["share"][nodes["gpus"] > 0].min(axis=0)
    if type(scheduler) is not Composed or not _parts_are_compiled(scheduler):
        return None
    if (snapshot.jobs.requested_per_gpu > share).any():
        return None
    order = scheduler.order
    number, queues = _order(order)
    takes_turns = order.time_slices or (DURATIONS in order.needs and bool(unknown.any()))
    settings = {
        "order": number,
        "most_gpus": int(nodes["gpus"].max()),
        "rule": scheduler.allocator.placement.rule,  # type: ignore[attr-defined]
        "preemptive": scheduler.preemptive,
        "strict": scheduler.strict,
        "static_priority": order.static_priority,
        "takes_turns": takes_turns and order.quantum() < inf,
        "durations_known": not unknown.any(),
        "some_protected": table.some_pinned,
        "resize_restarts": snapshot.resize_restarts,
        "quantum": order.quantum(),
        "promote_after": scheduler.promote_after_seconds,
        "promote_for_good": scheduler.promote_for_good,
    }
    allocation: Allocation = scheduler.allocator.allocation  # type: ignore[attr-defined]
    columns = (*kinds(allocation, snapshot), table.node_allowed, queues)
    counts_by_node = scheduler.preemptive and not table.node_allowed.all()
    if not scheduler.selections and scheduler.promote_after_seconds == inf and not counts_by_node:
        return CompiledScheduler(settings, *columns)
    quota = next(iter(scheduler.selections), None)
    assert quota is None or isinstance(quota, Quota)
    per_tenant = None if quota is None else quota.per_tenant(table.tenants)
    settings["weighted"] = quota is not None and bool(quota.weights)
    return WholeQueueScheduler(settings, *columns, per_tenant)


def _order(order: Order) -> tuple[int | None, tuple[float, ...]]:
    """The number of an order's compiled form, and its queues."""
    queues: tuple[float, ...] = getattr(order, "queues", ())
    return _ATTAINED_IN_QUEUES if queues and _form(order) is not None else _form(order), queues


def _parts_are_compiled(scheduler: Composed) -> bool:
    allocator = scheduler.allocator
    return (
        type(allocator) is IndependentAllocator
        and all(
            _form(part) is not None for part in (scheduler.order, allocator.allocation, allocator.placement)
        )
        and all(type(one) is Quota for one in scheduler.selections)
        and len(scheduler.selections) <= 1
        and not scheduler.migrate
        and scheduler.lease_seconds == inf
    )
