"""Follows the nodes: which are there and how large they are, which are drained, and what others hold on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import MICRO
from muster.cluster.ledger_steps import bring_up, take_down
from muster.problems import InputError
from muster.schedulers.contract import Trigger
from muster.service.controller.active_jobs import ActiveJobs
from muster.service.controller.status_collector import StatusCollector
from muster.service.daemon_status import DaemonStatus
from muster.service.engines import EngineNode
from muster.service.store import Store
from muster.service.store.rows import State

log = structlog.get_logger()


class NodeTracker:
    """Keeps cluster and ledger as the engine's last poll and the operators have it."""

    def __init__(
        self, jobs: ActiveJobs, store: Store, status: DaemonStatus, collector: StatusCollector
    ) -> None:
        self._jobs, self._store, self._status, self._collector = jobs, store, status, collector
        self._there: dict[str, EngineNode] = {}
        """Nodes that the engine has."""
        self._unusable: set[str] = set()
        """Nodes that the ledger has taken down."""
        self._held_back: set[str] = set()
        """Nodes on which the ledger keeps something from all jobs."""
        self._staying: set[int] = set()
        """Jobs that keep what they have, as nothing would start in their place."""

    def see(self, nodes: Sequence[EngineNode], now: float) -> bool:
        """Take what a poll has found; whether nodes joined or changed size, so that all plans are void."""
        self._there = {state.node.name: state for state in nodes}
        cluster = self._cluster_now()
        others = {name: state.others for name, state in self._there.items() if state.others is not None}
        if others != self._status.others:
            self._status.others = others
            self._jobs.starts.hold_back(others.values())
            self._jobs.pending |= Trigger.CAPACITY
        if cluster is None:
            return False
        self._store.configure(self._status.configuration() | {"cluster": cluster.to_dict()}, now)
        self._jobs.change_cluster(cluster)
        for job in self._jobs.rows.keys() - self._jobs.active:
            self._jobs.columns.leave(job, State.HELD, now)
        self._collector.place_starts(now)
        self._unusable, self._held_back = set(), set()
        self._jobs.pending |= Trigger.CAPACITY
        return True

    def close_nodes(self, now: float) -> None:
        """Take nodes down that are drained or that the engine lacks now; their jobs are moved away."""
        columns = self._jobs.columns
        unusable = {node.name for node in self._store.nodes() if node.drained}
        self._status.away = frozenset(columns.cluster.node_index.keys() - self._there.keys())
        unusable |= self._status.away
        for name in sorted(unusable ^ self._unusable):
            node = columns.cluster.node_index.get(name)
            if node is None:
                continue
            log.info("a node is used", node=name, used=name not in unusable, there=name in self._there)
            if name in self._unusable:
                bring_up(columns.ledger.books, node)
            else:
                for job, allocations in list(columns.plan.items()):
                    if any(here.node == name for here in allocations):
                        columns.waiting(job, now)
                take_down(columns.ledger.books, node)
            self._jobs.pending |= Trigger.CAPACITY
        self._unusable = unusable

    def keep_on_closed_nodes(self) -> None:
        """Have jobs that run on nodes where nothing more starts keep what they have: no other job could use it."""
        closed = {name for name, state in self._there.items() if state.closed} - self._unusable
        staying = {
            start.job
            for start in (self._jobs.starts.values() if closed else ())
            if start.notice_at is None and any(here.node in closed for here in start.allocations)
        }
        for job in staying | (self._staying & self._jobs.rows.keys()):
            self._jobs.columns.keeps_place(self._jobs.rows[job], stays=job in staying)
        if staying != self._staying:
            self._jobs.pending |= Trigger.CAPACITY
        self._staying = staying

    def hold_back(self, now: float) -> None:
        """Keep what others hold from the plan; jobs that were to start there wait for another decision."""
        columns = self._jobs.columns
        for name in sorted(self._status.others.keys() | self._held_back):
            node = columns.cluster.node_index[name]
            wanted = self._status.others.get(name, NodeAllocation(name, ()))
            if name in self._unusable or not _differing_resources(columns.ledger.held_back(node), wanted):
                continue
            self._hold(wanted, node)
            short = _differing_resources(columns.ledger.held_back(node), wanted)
            for job in self._unstarted_jobs_using(short, name):
                columns.waiting(job, now)
                self._jobs.pending |= Trigger.CAPACITY
            if short:
                self._hold(wanted, node)

    def _unstarted_jobs_using(self, resources: Sequence[int], name: str) -> list[int]:
        """Return the jobs that are to start on a node and to get any of these resources there.

        All of these are kept then, so the next decision places such a job elsewhere. One that gets none of them would
        be placed here again, at every turn.
        """
        return [
            job
            for job, allocations in self._jobs.columns.plan.items()
            if job not in self._jobs.starts
            and any(
                here.amounts[resource] for here in allocations if here.node == name for resource in resources
            )
        ]

    def _hold(self, wanted: NodeAllocation[str], node: int) -> None:
        any_gpus = self._status.engine_capabilities.chooses_gpu_ids
        self._jobs.columns.ledger.hold_back(wanted.on(node), any_gpus=any_gpus)
        self._held_back.add(wanted.node)

    def _cluster_now(self) -> Cluster | None:
        """The cluster with the nodes that have joined or changed; None if none has. Nodes that left stay in it."""
        cluster = self._status.cluster
        known = [self._there[node.name].node if node.name in self._there else node for node in cluster.nodes]
        joined = [state.node for name, state in self._there.items() if name not in cluster.node_index]
        if known == list(cluster.nodes) and not joined:
            return None
        log.info("the cluster changes", joined=[node.name for node in joined])
        try:
            return replace(cluster, nodes=(*known, *joined))
        except InputError as bad:
            log.error("the cluster cannot change", error=str(bad))
            return None


def _differing_resources(kept: NodeAllocation[int], wanted: NodeAllocation[str]) -> list[int]:
    """Return the resources of which not just what others hold is kept, in the ledger's units; of GPUs, as many."""
    amounts = enumerate(zip(kept.amounts, wanted.amounts, strict=True))
    return [resource for resource, both in amounts if round(both[0] * MICRO) != round(both[1] * MICRO)]
