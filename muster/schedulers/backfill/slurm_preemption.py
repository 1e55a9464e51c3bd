"""Which running jobs a Slurm job may take the place of, and which of them it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.contract import Jobs, Snapshot
from muster.schedulers.parts import Backfill, setting

Mode: TypeAlias = Literal["off", "requeue", "cancel"]

_INSTANT = 1e-6
_LAST_FOUND = 99_999
"""Puts the job that made room before all others, as in Slurm."""
_MOST_PRIORITY = 0xFFFF
"""Priorities of QOS and node counts above it are alike where victims are sorted."""


class Victim(NamedTuple):
    """A running job that may be preempted, and what it holds on each of its nodes."""

    job: int
    nodes: Ints
    amounts: Ints


@dataclass(frozen=True)
class SlurmPreemption(Backfill):
    """Slurm's PreemptType and what belongs to it: who may preempt whom, when, and what becomes of a preempted job."""

    preempt: Literal["none", "partition_prio", "qos"] = setting(
        "none", "PreemptType: none, partition_prio or qos"
    )
    preempt_mode: Mode = setting("requeue", "PreemptMode: off, requeue or cancel")
    preempt_exempt_seconds: float = setting(0.0, "PreemptExemptTime: seconds that a start is left alone")
    preempt_reorder_count: int = setting(1, "times that the candidates for preemption are sorted again")
    preempt_strict_order: bool = setting(False, "whether candidates of lower priority go first at any price")
    preempt_youngest_first: bool = setting(False, "whether the job that started last is preempted first")
    requeue_seconds: float = setting(121.0, "seconds until a requeued job may start again")
    priority_tier: dict[str, float] = setting({}, "PriorityTier of partitions, as high:10; others have 1")
    partition_preempt_mode: dict[str, Mode] = setting({}, "PreemptMode of partitions: off, requeue or cancel")
    qos_preempt: dict[str, str] = setting(
        {}, "QOS that the jobs of each QOS may preempt, as high:low/standby"
    )
    qos_preempt_mode: dict[str, Mode] = setting({}, "PreemptMode of each QOS: requeue or cancel")
    qos_preempt_exempt: dict[str, float] = setting({}, "PreemptExemptTime of each QOS in seconds")

    def __post_init__(self) -> None:
        for name in ("preempt_exempt_seconds", "requeue_seconds"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name}: allowed: a number of seconds from 0 on")
        if self.preempt_reorder_count < 0:
            raise ValueError("preempt_reorder_count: allowed: a whole number from 0 on")
        self.levels(tuple(self.qos_preempt))

    @property
    def preempts(self) -> bool:
        """Whether any job may preempt another."""
        return self.preempt != "none"

    @property
    def cancels(self) -> bool:
        """Whether a preempted job may be cancelled, so that it ends without its work done."""
        of_groups = self.partition_preempt_mode if self.preempt == "partition_prio" else self.qos_preempt_mode
        return self.preempts and "cancel" in (self.preempt_mode, *of_groups.values())

    # Order

    def tiers(self, partitions: Sequence[str]) -> Floats:
        """PriorityTier by partition."""
        return np.array([self.priority_tier.get(name, 1.0) for name in partitions])

    def levels(self, qos: Sequence[str]) -> Ints:
        """How many QOS each may preempt one after the other; those of a higher level go first in the queue."""
        return np.array([self._level(name, ()) for name in qos], np.int64)

    def _level(self, name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise ValueError(f"qos_preempt: {name} may preempt itself by way of others; allowed: no circle")
        below = self._preemptible_by(name)
        return 1 + max(self._level(one, (*above, name)) for one in below) if below else 0

    def _preemptible_by(self, name: str) -> list[str]:
        return [one for one in self.qos_preempt.get(name, "").split("/") if one and one != name]

    def ranked(self, snapshot: Snapshot, positions: Ints, keys: Floats | Ints) -> Ints:
        """Positions in the order of Slurm's queue: those that may preempt, then by PriorityTier, then by key."""
        table, jobs = snapshot.table, snapshot.jobs.at(positions)
        above = np.zeros(len(positions), np.int64)
        if self.preempt == "qos":
            above = self.levels(table.qos)[jobs.qos]
        tiers = self.tiers(table.partitions)[jobs.partition]
        order = np.lexsort((keys[positions], -tiers, -above))
        ranked: Ints = positions[order]
        return ranked

    # Who

    def may_preempt(self, snapshot: Snapshot, at: int, running: Jobs) -> Bools:
        """Which running jobs the job at a position may preempt now."""
        table, job = snapshot.table, snapshot.jobs.at(np.array([at]))
        if self.preempt == "partition_prio":
            tiers = self.tiers(table.partitions)
            allowed = tiers[running.partition] < tiers[job.partition[0]]
        else:
            below = self._preemptible_by(table.qos[int(job.qos[0])])
            allowed = np.array([name in below for name in table.qos])[running.qos]
        over = self.exempt_until(snapshot, running) <= snapshot.now + _INSTANT
        may: Bools = allowed & (self.modes(snapshot, running) != "off") & over
        return may

    def modes(self, snapshot: Snapshot, running: Jobs) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
        """What becomes of each running job if it is preempted."""
        if self.preempt == "partition_prio":
            names, numbers, known = snapshot.table.partitions, running.partition, self.partition_preempt_mode
        else:
            names, numbers, known = snapshot.table.qos, running.qos, self.qos_preempt_mode
        return np.array([known.get(name, self.preempt_mode) for name in names])[numbers]

    def exempt_until(self, snapshot: Snapshot, holders: Jobs) -> Floats:
        """When Slurm and its owner first let each job be preempted: Slurm's times are whole seconds; inf: never."""
        exempt = self.preempt_exempt_seconds
        of_qos = np.array([self.qos_preempt_exempt.get(name, exempt) for name in snapshot.table.qos])
        begun = np.where(holders.running, holders.last_start, snapshot.now)
        until = np.maximum(np.floor(begun + _INSTANT) + of_qos[holders.qos], begun + holders.min_runtime)
        ends: Floats = np.where(holders.preemptible, until, inf)
        return ends

    def sorted_candidates(
        self, snapshot: Snapshot, running: Jobs, node_counts: Ints, qos_priority: dict[str, float]
    ) -> Ints:
        """Places of running jobs in the order in which Slurm tries to preempt them."""
        if self.preempt_youngest_first:
            return np.argsort(-np.floor(running.last_start + _INSTANT), kind="stable")
        if self.preempt == "partition_prio":
            priority = self.tiers(snapshot.table.partitions)[running.partition]
        else:
            of_qos = [qos_priority.get(name, 0.0) for name in snapshot.table.qos]
            priority = np.minimum(of_qos, _MOST_PRIORITY)[running.qos]
        return np.lexsort((running.index, np.minimum(node_counts, _MOST_PRIORITY), priority))

    def choose(
        self, candidates: Iterable[Victim], free: Ints, fits: Callable[[Ints], Ints | None]
    ) -> tuple[Ints, list[Victim]] | None:
        """The nodes of a job and the candidates to preempt for it; None if even all of them do not make room.

        Candidates are lifted one by one until the job fits. The one that made room goes to the front, and the others by
        how many of the job's nodes they hold, and all is tried again: fewer jobs are preempted then.
        """
        order, passes = list(candidates), 0
        while True:
            found = _lifted_until_it_fits(order, free, fits)
            if found is None:
                return None
            last, chosen = found
            overlaps = [int(np.isin(one.nodes, chosen).sum()) for one in order[: last + 1]]
            if passes > self.preempt_reorder_count or len(order) <= passes + 1:
                return chosen, [one for one, shared in zip(order, overlaps, strict=False) if shared]
            passes += 1
            if self.preempt_strict_order:
                order.insert(0, order.pop(last))
            else:
                ranks = [*overlaps[:-1], _LAST_FOUND, *[0] * (len(order) - last - 1)]
                order = [order[at] for at in np.argsort(-np.array(ranks), kind="stable").tolist()]


def _lifted_until_it_fits(
    order: Sequence[Victim], free: Ints, fits: Callable[[Ints], Ints | None]
) -> tuple[int, Ints] | None:
    """The place of the candidate that makes room, with those before it, and the nodes of the job then."""
    left = free.copy()
    for at, one in enumerate(order):
        left[one.nodes] += one.amounts
        if (chosen := fits(left)) is not None:
            return at, chosen
    return None
