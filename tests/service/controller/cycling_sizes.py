"""A scheduler that gives a job another number of GPUs, or none, each time it has made some steps."""

from __future__ import annotations

from typing import Any

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Decision, Proposal, Snapshot
from muster.schedulers.reasons import NO_GPUS, PLACED


class CyclingSizes:
    """On the first node, within the bounds that the owner states. For one job at a time."""

    name = "cycling-sizes"
    sizes: tuple[int, ...] = (1, 2, 0, 4, 3)
    steps = 3
    """From one size to the next."""

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "parts": {}, "settings": {}, "needs": []}

    def initial(self, cluster: Cluster) -> dict[int, tuple[int, float]]:
        return {}

    def decide(
        self, snapshot: Snapshot, state: dict[int, tuple[int, float]]
    ) -> tuple[Decision, dict[int, tuple[int, float]]]:
        jobs, after = snapshot.jobs, {}
        with snapshot.transaction() as transaction:
            proposal = Proposal.blank(transaction, len(jobs))
            for at, job in enumerate(jobs.index.tolist()):
                stage, since = state.get(job, (0, 0.0))
                done = float(jobs.work_done[at])
                finished = done >= since + self.steps or self.sizes[stage] == 0
                if stage + 1 < len(self.sizes) and finished:
                    stage, since = stage + 1, done
                after[job] = stage, since
                size = self.sizes[stage]
                size = size and min(max(size, int(jobs.min_gpus[at])), int(jobs.max_gpus[at]))
                proposal.reasons[at] = PLACED if size else NO_GPUS
                if size != jobs.held_gpus[at]:
                    transaction.release(job)
                    if size:
                        ids = snapshot.ledger.free_ids(0)[:size]
                        transaction.put(
                            job, [NodeAllocation(0, ids, cpus=float(size), memory_gb=float(size))]
                        )
            proposal.next_wake = snapshot.now + 1.0
            return proposal.decision(), after
