"""Which schedulers have a compiled form, and how it is made: a composed one all of whose parts are compiled."""

from __future__ import annotations

from math import inf

import numpy as np

from muster.cluster.ledger_arrays import MICRO, WHOLE
from muster.schedulers.admission.quota import Quota
from muster.schedulers.composed import Composed, IndependentAllocator
from muster.schedulers.composed_core import CompiledScheduler
from muster.schedulers.contract import Ints, Scheduler, Snapshot
from muster.schedulers.parts import DURATIONS, Part
from muster.schedulers.phases import phases_are_logged
from muster.schedulers.placement.job_columns import PROPORTIONAL
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
    if type(scheduler) is not Composed or not _parts_are_compiled(scheduler) or phases_are_logged():
        return None
    table, nodes = snapshot.table, snapshot.ledger.books.nodes
    share = nodes["share"][nodes["gpus"] > 0].min(axis=0)
    if (table.asked["gpus"] == 0).any() or (snapshot.jobs.requested_per_gpu > share).any():
        return None
    unknown = np.isnan(table.asked["believed"])
    if unknown.any() and not unknown.all():
        return None
    order = scheduler.order
    queues: tuple[float, ...] = getattr(order, "queues", ())
    takes_turns = order.time_slices or (DURATIONS in order.needs and bool(unknown.any()))
    settings = {
        "order": _ATTAINED_IN_QUEUES if queues else _form(order),
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
    columns = (*_kinds(scheduler, snapshot), table.node_allowed, queues)
    if not scheduler.selections and scheduler.promote_after_seconds == inf:
        return CompiledScheduler(settings, *columns)
    quota = next(iter(scheduler.selections), None)
    assert quota is None or isinstance(quota, Quota)
    per_tenant = None if quota is None else quota.per_tenant(table.tenants)
    settings["weighted"] = quota is not None and bool(quota.weights)
    return WholeQueueScheduler(settings, *columns, per_tenant)


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


def _kinds(scheduler: Composed, snapshot: Snapshot) -> tuple[Ints, Ints, Ints]:
    """The kind of each job, and of each kind its GPUs in all in millionths and what one needs, by resource.

    Jobs of a kind have the same demand, needs and constraint: where one has a place, so has another.
    """
    assert isinstance(scheduler.allocator, IndependentAllocator)
    asked = snapshot.table.asked
    needs = scheduler.allocator.allocation.resource_options(snapshot, snapshot.jobs)[:, 0]
    if (needs == PROPORTIONAL).all():
        needs = needs[:1]
    columns = [asked["gpus"], asked["milli"], asked["constraint"], *needs.T]
    kind_of = np.zeros(len(asked), np.int64)
    for column in columns:
        if column.min() < column.max():
            values, number = np.unique(column, return_inverse=True)
            _, kind_of = np.unique(kind_of * len(values) + number, return_inverse=True)
    _, first = np.unique(kind_of, return_index=True)
    kinds = np.column_stack([np.broadcast_to(column, len(asked))[first] for column in columns])
    demands = kinds[:, 0] * kinds[:, 1] * (MICRO // WHOLE)
    return kind_of, demands, np.ascontiguousarray(kinds[:, 3:])
