"""The multifactor order beside a log: jobs start as logged, and the order says what their priorities were."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from experiments.slurm.log import GPUS, NODES, SlurmLog
from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Decision, Proposal, Snapshot, State
from muster.schedulers.queue_order.multifactor import Multifactor
from muster.simulation import Options, simulate
from muster.workload.trace import Trace, trace_of

CLUSTER = f"{NODES}x{GPUS}gpu,48cpu,500gb"
_NOTHING = 1e-3
"""Seconds after a logged start within which the log says what a job's priority was."""


@dataclass
class LoggedStarts:
    """Starts each job when and where the log says, and writes down the priorities of those that wait."""

    log: SlurmLog
    order: Multifactor
    name: str = "logged-starts"
    said: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """Of each job: when its priority changed, and what it became."""

    def describe(self) -> dict[str, Any]:
        """Its name alone."""
        return {"name": self.name}

    def initial(self, cluster: Cluster) -> State:
        """What the order remembers."""
        return self.order.initial(cluster)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Start the jobs that the log has started by now."""
        jobs, now, log = snapshot.jobs, snapshot.now, self.log
        keys, state = self.order.keys(snapshot, state)
        for job, key in zip(jobs.index[jobs.waiting].tolist(), keys[jobs.waiting].tolist(), strict=True):
            known = self.said.setdefault(job, [])
            if not known or known[-1][1] != -int(key):
                known.append((now, -int(key)))
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(jobs))
            for at in np.flatnonzero(jobs.waiting).tolist():
                job = int(jobs.index[at])
                if log.allocated[job] > now:
                    plan.reasons[at] = 2
                    continue
                nodes = log.places[job].tolist()
                transaction.put(
                    job,
                    [
                        NodeAllocation(node, snapshot.ledger.free_ids(node)[: int(log.gpus[job])])
                        for node in nodes
                    ],
                )
            starts = log.allocated[jobs.index[jobs.waiting]]
            plan.next_wake = min(
                float(starts[starts > now].min(initial=inf)), self.order.next_tick(snapshot, state)
            )
            return plan.decision(), state


def trace_of_log(log: SlurmLog, source: str = "Slurm log") -> Trace:
    """The log's jobs: submitted when they were accepted, as long as they held their nodes."""
    return trace_of(
        {
            "job_id": list(log.ids),
            "user": list(log.users),
            "submit_seconds": log.accepted,
            "gpus": log.wanted * log.gpus,
            "nodes": log.wanted,
            "cpus": log.cpus.astype(np.float64),
            "duration_seconds": log.duration,
            "time_limit_seconds": log.limit.astype(np.float64),
            "start_seconds": log.allocated,
            "end_seconds": log.completed,
        },
        source,
    )


def priorities(log: SlurmLog, order: Multifactor) -> dict[int, list[tuple[float, int]]]:
    """The changes of each job's priority by the order, while jobs start and end as logged."""
    scheduler = LoggedStarts(log, order)
    simulate(trace_of_log(log), parse_cluster(CLUSTER), scheduler, Options(restart_cost_seconds=0.0))
    return scheduler.said
