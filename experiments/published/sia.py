"""Sia's policy as its authors' simulator has it: an integer program over job configurations each round; for parity.

What it does was written down from its program (SOSP 2023). A configuration is a type of GPU and a number of GPUs. Its
value is its believed speed over that of the job's slowest configuration; all but the present one of a running job are
worth less, the younger the job is and the more often it restarted. Jobs in a pause keep what they have.

Rigid jobs of one type of GPU all have the same value, so that most rounds have many best solutions. Which of them the
solver takes decides the whole run: on pollux-1, 64 T4, the mean JCT is 4,466 s as HiGHS chooses, 4,683 s if later jobs
are preferred and 5,966 s if larger ones are, beside 4,973 s as CBC chose for the authors. With a fixed batch values
differ, and it is 4,461 s beside 4,459 s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from experiments.elastic.beliefs import LearnedSpeeds
from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Decision, Proposal, Snapshot, State
from muster.schedulers.reasons import NO_GPUS

POWER, UNSERVED = -0.5, 1.1
"""Of values in the objective, and what a job costs that gets nothing."""
RESTART_BELIEFS: Mapping[str, float] = {"cifar10": 30.0, "yolov3": 45.0}
"""Seconds of a restart as the policy has them; the other applications' are true."""
_DIGITS, _HALF = 2, 0.5


class Configuration(NamedTuple):
    """What a job may get."""

    gpu_type: str
    gpus: int


@dataclass(frozen=True)
class Choice:
    """A configuration of a job, and what it costs in the objective."""

    job: int
    configuration: Configuration
    cost: float


@dataclass(frozen=True)
class Sia:
    """Sia: the configurations of most value by an integer program, each round, placed from nothing."""

    name: ClassVar[str] = "sia"

    def describe(self) -> dict[str, Any]:
        """Name, for the record."""
        parts = {"allocation": "integer program", "placement": "largest first, whole nodes"}
        return {"name": self.name, "parts": parts, "settings": {}, "needs": []}

    def initial(self, cluster: Cluster) -> State:
        """Nothing is remembered."""
        return None

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """The configurations of the next round."""
        jobs, facts = snapshot.jobs, snapshot.table.facts
        current = {job: _configuration(snapshot, job) for job in jobs.index[jobs.running].tolist()}
        pinned = {job for job in current if facts["resumes"][job] > snapshot.now}
        free = _gpus_by_type(snapshot.cluster)
        for job in pinned:
            free[current[job].gpu_type] -= current[job].gpus
        others = [job for job in jobs.index.tolist() if job not in pinned]
        chosen = _solved(list(_choices(snapshot, others, current)), free)
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(jobs))
            for job in current.keys() - pinned:
                transaction.release(job)
            for job, configuration in sorted(chosen.items(), key=lambda each: -each[1].gpus):
                transaction.put(job, _place(snapshot, configuration))
            plan.reasons[[not snapshot.ledger.holds(job) for job in jobs.index.tolist()]] = NO_GPUS
            plan.stable_until = -inf
            return plan.decision(), state


def _configuration(snapshot: Snapshot, job: int) -> Configuration:
    shares = snapshot.ledger.holding(job)
    gpu_type = snapshot.cluster.nodes[shares[0].node].gpu_type
    return Configuration(gpu_type, sum(len(share.gpu_ids) for share in shares))


def _gpus_by_type(cluster: Cluster) -> dict[str, int]:
    return {
        gpu_type: sum(node.gpus for node in cluster.nodes if node.gpu_type == gpu_type)
        for gpu_type in cluster.gpu_types
    }


def sizes(per_node: int, most: int) -> list[int]:
    """The numbers of GPUs that Sia considers: powers of two within a node, then whole nodes."""
    within = [1 << at for at in range(per_node.bit_length()) if 1 << at < per_node]
    return [*within, *range(per_node, most + 1, per_node)]


def _choices(
    snapshot: Snapshot, jobs: Sequence[int], current: Mapping[int, Configuration]
) -> Iterator[Choice]:
    """The configurations that are worth more than nothing."""
    learned = snapshot.size_speeds
    assert isinstance(learned, LearnedSpeeds)
    per_node = {node.gpu_type: node.gpus for node in snapshot.cluster.nodes}
    asked = snapshot.table.asked
    totals = _gpus_by_type(snapshot.cluster)
    for job in jobs:
        rigid = asked["min_gpus"][job] == asked["max_gpus"][job]
        speeds = {}
        for gpu_type, here in per_node.items():
            for gpus in [int(asked["gpus"][job])] if rigid else sizes(here, learned.most_gpus(job)):
                if gpus <= totals[gpu_type]:
                    seconds = learned.seconds(job, gpus, -(-gpus // here), gpu_type, as_sia=True)
                    speeds[Configuration(gpu_type, gpus)] = 1.0 / seconds
        present = current.get(job)
        slowest = min((speed for speed in speeds.values() if speed > 0), default=1.0)
        keeps = 1.0 if present is None else _worth_after_restart(snapshot, learned, job)
        for configuration, speed in speeds.items():
            value = speed / slowest * (1.0 if configuration == present else keeps)
            cost = round(value**POWER, _DIGITS) if value > 0 else inf
            if cost < UNSERVED:
                yield Choice(job, configuration, cost)


def _worth_after_restart(snapshot: Snapshot, learned: LearnedSpeeds, job: int) -> float:
    """What is left of a configuration's value if a running job restarts for it."""
    app = learned.app(job)
    pause = RESTART_BELIEFS.get(app.name, app.restart_seconds)
    age = snapshot.now - float(snapshot.table.asked["submit"][job])
    if age < pause:
        return 1.0
    restarts = max(int(learned.starts[job]) - 1, 0)
    return max(age - restarts * pause, 0.0) / (age + pause)


def _solved(choices: Sequence[Choice], free: Mapping[str, int]) -> dict[int, Configuration]:
    """At most one configuration a job, of least cost, within the GPUs of each type."""
    if not choices:
        return {}
    jobs = {job: at for at, job in enumerate(dict.fromkeys(choice.job for choice in choices))}
    types = {gpu_type: at for at, gpu_type in enumerate(free)}
    count = len(choices)
    once = coo_array(
        (np.ones(count), ([jobs[choice.job] for choice in choices], range(count))), (len(jobs), count)
    )
    gpus = coo_array(
        (
            [float(choice.configuration.gpus) for choice in choices],
            ([types[choice.configuration.gpu_type] for choice in choices], range(count)),
        ),
        (len(types), count),
    )
    found = milp(
        np.array([choice.cost for choice in choices]) - UNSERVED,
        integrality=np.ones(count, np.int64),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(once.tocsr(), -np.inf, 1),
            LinearConstraint(gpus.tocsr(), -np.inf, list(free.values())),
        ],
    )
    assert found.x is not None
    taken: list[int] = np.flatnonzero(found.x > _HALF).tolist()
    return {choices[at].job: choices[at].configuration for at in taken}


def _place(snapshot: Snapshot, configuration: Configuration) -> list[NodeAllocation]:
    """Whole free nodes, then the rest on the fullest node that has room, or wherever there is some."""
    ledger, cluster = snapshot.ledger, snapshot.cluster
    free = {
        at: ledger.free_ids(at)
        for at, node in enumerate(cluster.nodes)
        if node.gpu_type == configuration.gpu_type
    }
    shares, left = [], configuration.gpus
    while left:
        fitting = [at for at, ids in free.items() if len(ids) >= left]
        fullest, emptiest = (
            min(fitting or free, key=lambda at: len(free[at])),
            max(free, key=lambda at: len(free[at])),
        )
        node = fullest if fitting else emptiest
        ids = free.pop(node)[:left]
        shares.append(NodeAllocation(node, ids))
        left -= len(ids)
    return shares
