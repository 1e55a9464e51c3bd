"""A decision in the form of the file: actions by job, and why the others wait. Two of them, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import Ints
from muster.formatting import counted, thousandths
from muster.runtime.snapshots.columns import plain
from muster.runtime.snapshots.file import SavedDecision
from muster.schedulers.actions import LedgerView, Start, actions_of
from muster.schedulers.decision import Decision
from muster.schedulers.reasons import PLACED, reason
from muster.workload.jobs import JobTable

_SCHEDULE = ("lease_ends", "next_wake", "stable_until", "wake_on")
"""Of a decision: what it says about the next ones."""


def saved_decision(
    decision: Decision, index: Ints, table: JobTable, ledger: LedgerView, cluster: Cluster
) -> SavedDecision:
    """A decision with the names of jobs and nodes; `ledger` is as it was before it."""
    ids = dict(zip(index.tolist(), table.ids.gather(index).to_list(), strict=True))
    actions: list[Any] = []
    for action in actions_of(decision, ledger):
        others = action.takes_from if isinstance(action, Start) else action.makes_room_for
        kind = type(action).__name__.lower()
        nodes = [_on_node(one, cluster) for one in getattr(action, "allocations", ())]
        actions.append(
            {
                "job": ids[action.job],
                "action": kind,
                "allocations": nodes,
                "others": [ids[one] for one in others],
            }
        )
    pending: list[Any] = []
    columns = (
        index.tolist(),
        decision.reasons.tolist(),
        decision.reason_a.tolist(),
        decision.reason_b.tolist(),
    )
    for job, code, first, second in zip(*columns, strict=True):
        if code != PLACED:
            kind_of = reason(code)
            parameters = plain(kind_of.parameters(first, second))
            pending.append({"job": ids[job], "reason": kind_of.name, "parameters": parameters})
    return SavedDecision(
        actions=actions,
        pending=pending,
        lease_ends={ids[job]: plain(float(end)) for job, end in sorted(decision.lease_ends.items())},
        next_wake=plain(float(decision.next_wake)),
        stable_until=plain(float(decision.stable_until)),
        wake_on=int(decision.wake_on),
        notes=list(decision.notes),
    )


def _on_node(one: NodeAllocation, cluster: Cluster) -> dict[str, Any]:
    named: dict[str, Any] = plain(vars(one.on(cluster.nodes[one.node].name)))
    return named


@dataclass(frozen=True)
class JobDifference:
    """What two decisions say of one job."""

    job: str
    first: Mapping[str, Any]
    """`action`, `allocations` and `reason`; without an action the job stays as it is."""
    second: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def differences(first: SavedDecision, second: SavedDecision) -> list[JobDifference]:
    """The jobs of which two decisions say different things, actions first, in the order of the decisions."""
    sides = [_by_job(first), _by_job(second)]
    jobs = dict.fromkeys([*_jobs(first.actions), *_jobs(second.actions), *sides[0], *sides[1]])
    nothing: Mapping[str, Any] = {"action": None, "allocations": [], "reason": None}
    pairs = [(job, sides[0].get(job, nothing), sides[1].get(job, nothing)) for job in jobs]
    return [JobDifference(job, one, other) for job, one, other in pairs if one != other]


def other_schedule(first: SavedDecision, second: SavedDecision) -> list[str]:
    """What two decisions say differently about the next ones."""
    return [name for name in _SCHEDULE if getattr(first, name) != getattr(second, name)]


def _jobs(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    return (row["job"] for row in rows)


def _by_job(decision: SavedDecision) -> dict[str, dict[str, Any]]:
    """What a decision says of each job that it changes or lets wait; the numbers of reasons are left out."""
    jobs: dict[str, dict[str, Any]] = {}
    for waits in decision.pending:
        jobs[waits["job"]] = {"action": None, "allocations": [], "reason": waits["reason"]}
    for acts in decision.actions:
        why = jobs.get(acts["job"], {}).get("reason")
        jobs[acts["job"]] = {"action": acts["action"], "allocations": acts["allocations"], "reason": why}
    return jobs


def sentence(said: Mapping[str, Any]) -> str:
    """What a decision says of a job, for people: `start on node-1 (4 GPUs: 0-3)`."""
    if said["action"] is None:
        return f"wait: {said['reason']}" if said["reason"] else "no change"
    if said["action"] == "preempt":
        return "preempt"
    places = [
        f"{one['node']} ({counted(len(one['gpu_ids']), 'GPU')}, {thousandths(one['cpus'])} CPU)"
        for one in said["allocations"]
    ]
    return f"{said['action']} on {', '.join(places)}"
