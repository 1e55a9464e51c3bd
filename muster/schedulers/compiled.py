"""Which schedulers have a compiled form, and how it is made: a composed one all of whose parts are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from muster.cluster.ledger_arrays import MICRO, WHOLE
from muster.schedulers.allocation.proportional import Proportional
from muster.schedulers.allocation.requested import Requested
from muster.schedulers.composed import Composed, IndependentAllocator
from muster.schedulers.composed_core import CompiledScheduler
from muster.schedulers.contract import Ints, Scheduler, Snapshot
from muster.schedulers.parts import DURATIONS, Allocation, Order, Placement
from muster.schedulers.placement.job_columns import PROPORTIONAL
from muster.schedulers.placement.rules import Consolidate, FirstFit, Pack, Spread, Yarn
from muster.schedulers.queue_order.edf import EarliestDeadline
from muster.schedulers.queue_order.fifo import Fifo, FifoStrict
from muster.schedulers.queue_order.las import Las
from muster.schedulers.queue_order.priority import Priority
from muster.schedulers.queue_order.smallest import Smallest
from muster.schedulers.queue_order.srtf import Sjf, Srsf, Srtf

_ORDERS: Mapping[type[Order], int] = {
    Fifo: 0,
    FifoStrict: 0,
    Sjf: 1,
    Smallest: 2,
    Priority: 3,
    EarliestDeadline: 4,
    Srtf: 5,
    Srsf: 6,
    Las: 7,
}
_LAS_IN_QUEUES = 8
_ALLOCATIONS: tuple[type[Allocation], ...] = (Proportional, Requested)
_PLACEMENTS: tuple[type[Placement], ...] = (Pack, FirstFit, Consolidate, Spread, Yarn)


def compiled_form(scheduler: Scheduler, snapshot: Snapshot) -> CompiledScheduler | None:
    """The compiled form of a scheduler for all jobs of a snapshot; None if a part of it is written in Python.

    A class derived from a shipped part is another part.
    """
    if type(scheduler) is not Composed or not _parts_are_compiled(scheduler):
        return None
    table, nodes = snapshot.table, snapshot.ledger.books.nodes
    share = nodes["share"][nodes["gpus"] > 0].min(axis=0)
    if (table.asked["gpus"] == 0).any() or (snapshot.jobs.requested_per_gpu > share).any():
        return None
    unknown = np.isnan(table.asked["believed"])
    if unknown.any() and not unknown.all():
        return None
    order = scheduler.order
    takes_turns = order.time_slices or (DURATIONS in order.needs and bool(unknown.any()))
    settings = {
        "order": _LAS_IN_QUEUES if isinstance(order, Las) and order.queues else _ORDERS[type(order)],
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
    }
    queues = order.queues if isinstance(order, Las) else ()
    kind_of, demands, needs = _kinds(scheduler, snapshot)
    return CompiledScheduler(settings, kind_of, demands, needs, table.node_allowed, queues)


def _parts_are_compiled(scheduler: Composed) -> bool:
    allocator = scheduler.allocator
    return (
        type(allocator) is IndependentAllocator
        and type(scheduler.order) in _ORDERS
        and type(allocator.allocation) in _ALLOCATIONS
        and type(allocator.placement) in _PLACEMENTS
        and not scheduler.selections
        and not scheduler.migrate
        and scheduler.lease_seconds == inf
        and scheduler.promote_after_seconds == inf
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
