"""A recorded run of another simulator: which job held what when, as a scheduler that repeats it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nextafter
from typing import Any, ClassVar

import polars as pl

from experiments.elastic.batches import Batch
from experiments.elastic.epoch_work import Place
from experiments.elastic.step_times import Placement
from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Decision, Proposal, Snapshot, State
from muster.schedulers.reasons import NOT_CONSIDERED
from muster.workload.jobs import JobTable

BEYOND = -1
"""The node of GPUs that a job runs on without holding any of the cluster; a replay has further nodes for them."""

Held = tuple[tuple[int, int], ...]
"""Nodes and the GPUs on each, in the order of the placement; nodes count from the first of the type of GPU."""


@dataclass(frozen=True)
class Change:
    """What a job holds from a moment on."""

    at: float
    job: str
    held: Held
    gpu_type: str
    batch: Batch | None = None
    plan: str = ""


def changes_of(rows: pl.DataFrame, only_type: str = "") -> list[Change]:
    """The changes of a table of recorded allocations, in the order of time; `only_type` where it states none."""
    nodes = "nodes_held" if "nodes_held" in rows.columns else "nodes"
    batched = "batch_per_gpu" in rows.columns
    changes = []
    for row in rows.sort("time_s", maintain_order=True).iter_rows(named=True):
        ran_on = tuple(map(int, filter(None, (row["gpus_per_node"] or "").split("+"))))
        granted = [tuple(map(int, part.split(":"))) for part in filter(None, (row[nodes] or "").split(";"))]
        batch = Batch(row["batch_per_gpu"], row["accumulation"]) if batched and ran_on else None
        held, gpu_type = _in_order(granted, ran_on), row.get("gpu_type", only_type)
        changes.append(Change(float(row["time_s"]), row["job"], held, gpu_type, batch, row.get("plan") or ""))
    return changes


def _in_order(granted: Sequence[tuple[int, ...]], ran_on: Placement) -> Held:
    """The granted nodes in the order of the placement; nodes beyond the cluster where it ran on something else."""
    if sorted(count for _, count in granted) != sorted(ran_on):
        return tuple((BEYOND, count) for count in ran_on)
    left = list(granted)
    held = []
    for count in ran_on:
        at = next(at for at, (_, here) in enumerate(left) if here == count)
        held.append((left.pop(at)[0], count))
    return tuple(held)


def with_ends(changes: Sequence[Change], jobs: pl.DataFrame) -> list[Change]:
    """The changes, and one at each job's end, after which the record does not say where it is.

    A job whose end is rounded down to the end of a round takes part in the decision there, and in the record ends
    before it. It keeps as many GPUs, beyond the cluster.
    """
    ends = dict(jobs.select("job", "end_s").iter_rows())
    last = {change.job: change for change in changes}
    left = [
        replace(last[job], at=float(end), held=tuple((BEYOND, count) for _, count in last[job].held))
        for job, end in ends.items()
    ]
    return sorted([*changes, *left], key=lambda change: change.at)


class RecordedBatches:
    """The batches that the jobs of a recorded run took."""

    def __init__(self, changes: Sequence[Change], table: JobTable) -> None:
        of_job: Mapping[str, list[Change]] = defaultdict(list)
        for change in changes:
            of_job[change.job].append(change)
        self._changes = [of_job[name] for name in table.ids]
        self._times = [[change.at for change in each] for each in self._changes]

    def batch(self, job: int, now: float, epoch: int, place: Place) -> Batch:
        """The last one recorded with this placement; where both change now, the placement has yet to."""
        upto = bisect_right(self._times[job], now)
        return next(
            change.batch
            for change in reversed(self._changes[job][:upto])
            if change.batch is not None and tuple(count for _, count in change.held) == place.placement
        )

    def next_change(self, job: int, now: float) -> float:
        """Just after the next one was recorded, so that what the job holds changes before."""
        later = bisect_right(self._times[job], now)
        return nextafter(self._times[job][later], inf) if later < len(self._times[job]) else inf


@dataclass(frozen=True)
class RecordedAllocations:
    """Gives every job what it held in a recorded run, when it held it."""

    changes: Sequence[Change]
    nodes: int
    """Of the cluster; those after it are further ones."""
    name: ClassVar[str] = "recorded"
    _times: list[float] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_times", [change.at for change in self.changes])

    def describe(self) -> dict[str, Any]:
        """Name, for the record."""
        return {"name": self.name, "parts": {"placement": "as recorded"}, "settings": {}, "needs": []}

    def initial(self, cluster: Cluster) -> State:
        """No change carried out."""
        return 0

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """The changes up to now that were not carried out yet."""
        ledger = snapshot.ledger
        numbers = dict(zip(snapshot.jobs.ids, snapshot.jobs.index.tolist(), strict=True))
        upto = bisect_right(self._times, snapshot.now)
        targets = {
            numbers[change.job]: change for change in self.changes[state:upto] if change.job in numbers
        }
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(snapshot.jobs))
            moving = [job for job, change in targets.items() if not self._same(snapshot, job, change)]
            for job in moving:
                transaction.release(job)
            for job in moving:
                if targets[job].held:
                    transaction.put(job, list(_shares(snapshot, targets[job])))
            waits = [not ledger.holds(job) for job in snapshot.jobs.index.tolist()]
            plan.reasons[waits] = NOT_CONSIDERED
            plan.wake_on = 0
            plan.next_wake = plan.stable_until = self._times[upto] if upto < len(self._times) else inf
            return plan.decision(), upto

    def _same(self, snapshot: Snapshot, job: int, change: Change) -> bool:
        """Whether a job holds this already; one that keeps as many GPUs beyond the cluster keeps them."""
        shares, nodes = snapshot.ledger.holding(job), _nodes(change, snapshot.cluster)
        if [len(share.gpu_ids) for share in shares] != [count for _, count in change.held]:
            return False
        return all(
            share.node >= self.nodes if node == BEYOND else share.node == nodes[node]
            for share, (node, _) in zip(shares, change.held, strict=True)
        )


def _nodes(change: Change, cluster: Cluster) -> list[int]:
    """The nodes that have the type of GPU of a change."""
    return [at for at, node in enumerate(cluster.nodes) if node.gpu_type == change.gpu_type]


def _shares(snapshot: Snapshot, change: Change) -> Iterator[NodeAllocation]:
    """What a job is given on each node: the first GPUs that are free; of a further node all must be free."""
    ledger, cluster, nodes = snapshot.ledger, snapshot.cluster, _nodes(change, snapshot.cluster)
    further = (node for node in reversed(nodes) if len(ledger.free_ids(node)) == cluster.nodes[node].gpus)
    for wanted, count in change.held:
        node = next(further) if wanted == BEYOND else nodes[wanted]
        yield NodeAllocation(node, ledger.free_ids(node)[:count])
