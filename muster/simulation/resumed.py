"""A scheduler that finds a cluster in use: some jobs hold nodes already when it decides for the first time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import DoesNotFit, NodeAllocation, Transaction
from muster.cluster.ledger_arrays import CPU, MEMORY, MICRO, WHOLE
from muster.schedulers.contract import Decision, Proposal, Scheduler, Snapshot, State, Trigger
from muster.schedulers.reasons import NOT_CONSIDERED

Place: TypeAlias = Sequence[int] | Sequence[NodeAllocation]
"""Of a job that runs: its nodes, each with an equal part of it, or what it holds on each."""
_SOON = 1e-3
"""Seconds from the moment at which the running jobs are placed to the scheduler's first decision."""


@dataclass(frozen=True)
class Resumption:
    """The state that a scheduler goes on with."""

    now: float
    """Until then all jobs wait that do not run then; from then on the scheduler decides."""
    running: Mapping[int, Place]
    """By number of the job: where it is, or nothing where that is not known; then it takes the fullest that hold it."""
    began: Mapping[int, float]
    """By number: when it is put there."""
    tick: float | None = None
    """When an order with ticks computed priorities last; from then on it sees all jobs. None: from `now` on."""

    @property
    def moments(self) -> list[float]:
        """When something is to be done before the scheduler decides, ascending."""
        ticks = [] if self.tick is None else [self.tick]
        return sorted({*self.began.values(), *ticks, self.now})


@dataclass(frozen=True)
class ResumedScheduler:
    """Lets all jobs wait until a moment, puts those that run then on their nodes, then leaves all to a scheduler."""

    scheduler: Scheduler
    resumption: Resumption

    @property
    def name(self) -> str:
        """As the scheduler that goes on."""
        return self.scheduler.name

    def __getattr__(self, name: str) -> Any:
        """What the scheduler that goes on honours and is made of."""
        return getattr(self.scheduler, name)

    def describe(self) -> dict[str, Any]:
        """As the scheduler that goes on."""
        return self.scheduler.describe()

    def initial(self, cluster: Cluster) -> State:
        """The scheduler's own state, and that nothing is placed."""
        return {"own": self.scheduler.initial(cluster), "step": 0}

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """The running jobs at their moments and nothing else before the scheduler's first decision."""
        resumption, step = self.resumption, state["step"]
        if step == 0:
            done = snapshot.now >= resumption.now
            own = self._with_priorities(snapshot, state["own"])
            return self._resume(snapshot), {"own": own, "step": 1 if done else 0}
        seen = replace(snapshot, triggers=snapshot.triggers | Trigger.ARRIVAL) if step == 1 else snapshot
        decision, own = self.scheduler.decide(seen, state["own"])
        return decision, {"own": own, "step": 2}

    def _with_priorities(self, snapshot: Snapshot, own: State) -> State:
        """The scheduler's state, whose order has seen the jobs from the last tick on."""
        tick = self.resumption.tick
        if tick is None or snapshot.now < tick:
            return own
        order: Any = self.scheduler.order  # type: ignore[attr-defined]
        _, memory = order.keys(snapshot, own["order"])
        return {**own, "order": memory}

    def _resume(self, snapshot: Snapshot) -> Decision:
        """Put the jobs there that run by now; all others wait."""
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(snapshot.jobs))
            placed = self._place(snapshot, transaction) | set(
                snapshot.jobs.index[snapshot.jobs.running].tolist()
            )
            index = snapshot.jobs.index.tolist()
            plan.reasons[[at for at, job in enumerate(index) if job not in placed]] = NOT_CONSIDERED
            later = (moment for moment in self.resumption.moments if moment > snapshot.now)
            plan.next_wake = next(later, self.resumption.now + _SOON)
            return plan.decision()

    def _place(self, snapshot: Snapshot, transaction: Transaction) -> set[int]:
        """Put the running jobs on their nodes; those that do not fit there wait like all others."""
        placed = set()
        due = {
            job: nodes
            for job, nodes in self.resumption.running.items()
            if self.resumption.began[job] <= snapshot.now and not snapshot.ledger.holds(job)
        }
        # Those whose nodes are known go first, so that the others take what is left.
        for job, nodes in sorted(due.items(), key=lambda one: (not len(one[1]), one[0])):
            shares = _shares(snapshot, job, nodes or _fullest(snapshot, job))
            mark = transaction.mark()
            try:
                if shares:
                    transaction.put(job, shares)
                    placed.add(job)
            except DoesNotFit:
                transaction.undo(mark)
        return placed


def _shares(snapshot: Snapshot, job: int, place: Place) -> list[NodeAllocation]:
    """What a job holds: as known, else equal parts of what it asks for on each node; empty if a node lacks the GPUs.

    One whose speed depends on it has at least what is free of each node's share for its GPUs.
    """
    if place and isinstance(place[0], NodeAllocation):
        return list(cast("Sequence[NodeAllocation]", place))
    nodes = cast("Sequence[int]", place)
    asked = snapshot.table.asked[job]
    if not nodes or asked["gpus"] % len(nodes):
        return []
    each = int(asked["gpus"]) // len(nodes)
    requested = np.maximum(asked["requested"], 0) / MICRO / len(nodes)
    model, here = snapshot.table.models[asked["model"]], snapshot.ledger.books.nodes
    shares = []
    for node in nodes:
        free = snapshot.ledger.free_ids(node)
        if len(free) < each:
            return []
        amounts = requested
        if model is not None:
            share = np.minimum(here["share"][node] * each, here["free"][node]) / MICRO
            amounts = np.maximum(requested, share)
        shares.append(
            NodeAllocation(
                node,
                free[:each],
                float(amounts[CPU]),
                float(amounts[MEMORY]),
                milli=int(asked["milli"]) if each else WHOLE,
            )
        )
    return shares


def _fullest(snapshot: Snapshot, job: int) -> list[int]:
    """The nodes with the least free GPUs that hold an equal part of a job."""
    asked, cluster = snapshot.table.asked[job], snapshot.cluster
    allowed = snapshot.table.node_allowed[asked["constraint"]]
    wanted = max(int(asked["nodes"]), -(-int(asked["gpus"]) // cluster.most_gpus_per_node), 1)
    each = -(-int(asked["gpus"]) // wanted)
    free = [
        (len(snapshot.ledger.free_ids(node)), node) for node in range(len(cluster.nodes)) if allowed[node]
    ]
    return [node for count, node in sorted(free) if count >= each][:wanted]
