"""Slurm's multifactor priority: age, size, fair share, quality of service, partition and resources, each with a weight.

A job's priority is computed when it is submitted, and again for all waiting jobs at each tick of `calc_period_seconds`;
between ticks it stands still. Usage is charged at ticks only, to the jobs that run then. A priority that a trace or an
owner states has no part in it; in a log of Slurm it is what Slurm computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf
from typing import ClassVar

import numpy as np

from muster.cluster import Cluster
from muster.cluster.distinct_rows import distinct_rows
from muster.cluster.equal_parts import fewest_equal_parts
from muster.cluster.ledger_arrays import CPU, GPU, MEMORY, MICRO
from muster.schedulers.contract import Floats, Ints, Jobs, Snapshot, State
from muster.schedulers.fair_tree import Association, FairTree
from muster.schedulers.parts import Order, check_seconds, setting

DECAY = 0.693
"""Slurm's ln 2: usage is multiplied by 1 - DECAY / half-life each second."""
_TRES = {"gpu": GPU, "cpu": CPU, "mem": MEMORY}
_INSTANT = 1e-6
_DAY = 86_400.0


@dataclass(frozen=True)
class Charged:
    """What the order remembers: usage and factors as of the last tick, and the priority of each waiting job."""

    tick: float
    leaf: Ints
    """The association of each job of the table."""
    tree: FairTree
    usage: Floats
    """Billing units times seconds, decayed, by association."""
    factors: Floats
    """Fair share, by association."""
    priorities: Floats
    """By job of the table; NaN where none was computed."""


@dataclass(frozen=True)
class Multifactor(Order):
    """Slurm's multifactor priority with Fair Tree: highest first, computed at submission and at ticks."""

    name: ClassVar[str] = "multifactor"
    preemptive: ClassVar[bool] = False

    weight_age: float = setting(1000.0, "PriorityWeightAge")
    weight_fair_share: float = setting(10_000.0, "PriorityWeightFairshare")
    weight_job_size: float = setting(1000.0, "PriorityWeightJobSize")
    weight_partition: float = setting(1000.0, "PriorityWeightPartition")
    weight_qos: float = setting(0.0, "PriorityWeightQOS")
    weight_tres: dict[str, float] = setting(
        {}, "PriorityWeightTRES by gpu, cpu and mem, as gpu:3000,cpu:1000"
    )
    max_age_seconds: float = setting(7 * _DAY, "PriorityMaxAge: age counts up to this")
    favor_small: bool = setting(False, "PriorityFavorSmall: whether smaller jobs go first")
    half_life_seconds: float = setting(7 * _DAY, "PriorityDecayHalfLife of usage")
    calc_period_seconds: float = setting(300.0, "PriorityCalcPeriod: seconds between ticks")
    calc_phase_seconds: float = setting(0.0, "moment of a tick on the trace's clock")
    shares: dict[str, float] = setting(
        {},
        "raw shares of accounts (physics/lab:2) and users (lab/ann:3, or ann:3 in any account); others have 1",
    )
    billing: dict[str, float] = setting(
        {"gpu": 1.0}, "TRESBillingWeights by gpu, cpu and mem (GB): what usage counts"
    )
    usage: dict[str, float] = setting(
        {}, "RawUsage at the beginning, as sshare shows it: by user (ann:3600), or lab/ann in one account"
    )
    partition_priority: dict[str, float] = setting({}, "PriorityJobFactor of partitions, as gpu:10")
    qos_priority: dict[str, float] = setting({}, "Priority of each QOS, as high:100")

    def __post_init__(self) -> None:
        check_seconds(self, "max_age_seconds", "half_life_seconds", "calc_period_seconds", finite=True)
        for name in ("weight_tres", "billing"):
            if not set(getattr(self, name)) <= set(_TRES):
                raise ValueError(f"{name}: allowed: {', '.join(_TRES)}, each with a number")

    def initial(self, cluster: Cluster) -> State:
        """No usage."""
        nothing = np.zeros(0)
        return Charged(-inf, np.zeros(0, np.int64), FairTree(()), nothing, nothing, nothing)

    def next_tick(self, snapshot: Snapshot, memory: State) -> float:
        """The next moment at which usage is charged and priorities are computed again."""
        period = self.calc_period_seconds
        passed = floor((snapshot.now - self.calc_phase_seconds) / period + _INSTANT)
        return self.calc_phase_seconds + (passed + 1) * period

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Minus the priority; of running jobs, the one that they started with."""
        assert isinstance(state, Charged)
        charged = self._grown(snapshot, state)
        jobs = snapshot.jobs
        tick = self.next_tick(snapshot, state) - self.calc_period_seconds
        due = tick > charged.tick
        if due:
            charged = self._charge(snapshot, charged, tick)
        waiting = jobs.waiting
        fresh = np.flatnonzero(waiting & (due | np.isnan(charged.priorities[jobs.index])))
        if len(fresh):
            priorities = charged.priorities.copy()
            priorities[jobs.index[fresh]] = self.priorities(snapshot, jobs.at(fresh), charged)
            charged = Charged(
                charged.tick, charged.leaf, charged.tree, charged.usage, charged.factors, priorities
            )
        found = charged.priorities[jobs.index]
        found[np.isnan(found)] = 0.0
        return -found, charged

    def priorities(self, snapshot: Snapshot, jobs: Jobs, charged: Charged) -> Floats:
        """Slurm's priority of these jobs now, a whole number each."""
        cluster, table = snapshot.cluster, snapshot.table
        age = np.floor(snapshot.now + _INSTANT) - np.floor(jobs.arrival + _INSTANT)
        there = (cluster.total_gpus, cluster.total_cpus, cluster.total_memory_gb)
        requested = jobs.requested
        gpus, cpus, memory = (
            _amounts(jobs, requested, resource) / max(total, 1e-12)
            for resource, total in zip(_TRES.values(), there, strict=True)
        )
        nodes = nodes_of(snapshot, jobs) / len(cluster.nodes)
        size = (nodes + cpus) / 2 if cluster.total_cpus else nodes
        size = _up_to_one(1 - size if self.favor_small else size)
        total = (
            self.weight_age * _up_to_one(age / self.max_age_seconds)
            + self.weight_fair_share * charged.factors[charged.leaf[jobs.index]]
            + self.weight_job_size * size
            + self.weight_partition * _normalised(table.partitions, self.partition_priority)[jobs.partition]
            + self.weight_qos * _normalised(table.qos, self.qos_priority)[jobs.qos]
        )
        for name, part in zip(_TRES, (gpus, cpus, memory), strict=True):
            if name in self.weight_tres:
                total = total + self.weight_tres[name] * np.minimum(part, 1.0)
        whole: Floats = np.floor(total)
        return whole

    def _grown(self, snapshot: Snapshot, charged: Charged) -> Charged:
        """What is remembered, with a place for each job and association of the table."""
        table = snapshot.table
        if len(charged.leaf) == len(table):
            return charged
        asked = table.asked
        pairs = asked["tenant"].astype(np.int64) * len(table.users) + asked["user"]
        distinct, number = np.unique(pairs, return_inverse=True)
        named = [
            (table.tenants[pair // len(table.users)], table.users[pair % len(table.users)])
            for pair in distinct.tolist()
        ]
        here = [self._association(tenant, user) for tenant, user in named]
        # Of a user whose jobs had all ended when a daemon began again, no job is in the table.
        paths = {one.path for one in here}
        tree = FairTree([*here, *(one for one in charged.tree.associations if one.path not in paths)])
        usages = zip(charged.tree.associations, charged.usage.tolist(), strict=True)
        before = {one.path: usage for one, usage in usages}
        usage = np.array([before.get(one.path, self._usage_before(one.path)) for one in tree.associations])
        priorities = np.full(len(table), np.nan)
        known = charged.priorities[: len(table)]
        priorities[: len(known)] = known
        factors = tree.factors(usage)
        return Charged(charged.tick, number.reshape(-1), tree, usage, factors, priorities)

    def _usage_before(self, path: tuple[str, ...]) -> float:
        """What a user has used before the beginning."""
        return self.usage.get("/".join(path[-2:]), self.usage.get(path[-1], 0.0))

    def _association(self, account: str, user: str) -> Association:
        """A user in an account: its path from the root, with the raw shares at each step."""
        known = next((path for path in self.shares if path.rpartition("/")[2] == account), account)
        path = tuple(known.split("/"))
        shares: list[float] = [
            self.shares.get("/".join(path[: depth + 1]), self.shares.get(path[depth], 1.0))
            for depth in range(len(path))
        ]
        own = self.shares.get(f"{account}/{user}", self.shares.get(user, 1.0))
        return Association((*path, user), (*shares, own))

    def _charge(self, snapshot: Snapshot, charged: Charged, tick: float) -> Charged:
        """Let usage decay until a tick, and charge the jobs that run then for their time since the last one."""
        jobs, last = snapshot.jobs, floor(charged.tick) if charged.tick > -inf else None
        moment = floor(tick + _INSTANT)
        keep = 1 - DECAY / self.half_life_seconds
        usage = charged.usage * (keep ** (moment - last) if last is not None else 1.0)
        running = jobs.at(jobs.running)
        if len(running):
            begin = np.floor(running.last_start + _INSTANT)
            since = moment - (begin if last is None else np.maximum(begin, last))
            since = np.maximum(since, 0.0)
            requested = running.requested
            units = sum(
                weight * _amounts(running, requested, _TRES[name]) for name, weight in self.billing.items()
            )
            usage = usage + np.bincount(
                charged.leaf[running.index], units * since * keep**since, minlength=len(usage)
            )
        factors = charged.tree.factors(usage)
        return Charged(tick, charged.leaf, charged.tree, usage, factors, charged.priorities)


def nodes_of(snapshot: Snapshot, jobs: Jobs) -> Ints:
    """Nodes of each job: as requested, else as few of those that it may use as hold its GPUs in equal parts."""
    per_node = snapshot.ledger.books.nodes["gpus"]
    distinct, kind = distinct_rows(np.column_stack([jobs.constraint, jobs.gpus]))
    fewest = np.array(
        [
            fewest_equal_parts(per_node[snapshot.table.node_allowed[constraint]], gpus)
            for constraint, gpus in distinct.tolist()
        ],
        np.int64,
    )[kind]
    return np.where(jobs.nodes > 0, np.minimum(jobs.nodes, np.maximum(jobs.gpus, 1)), fewest)


def _up_to_one(values: Floats) -> Floats:
    """Between 0 and 1."""
    bounded: Floats = np.minimum(np.maximum(values, 0.0), 1.0)
    return bounded


def _amounts(jobs: Jobs, requested: Ints, resource: int) -> Floats:
    """What each job requests of a resource in all; 0 where nothing is stated."""
    if resource == GPU:
        return jobs.requested_gpus
    amounts: Floats = np.maximum(requested[:, resource], 0) / MICRO
    return amounts


def _normalised(names: Sequence[str], priority: dict[str, float]) -> Floats:
    """The priority of each name over the largest of all."""
    highest = max(priority.values(), default=0.0)
    if not highest > 0:
        return np.zeros(len(names))
    return np.array([priority.get(name, 0.0) / highest for name in names])
