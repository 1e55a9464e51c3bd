"""Why a queued job does not run, as a clause: `it needs 2 GPUs and 0 are free`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from muster.cluster import Cluster
from muster.formatting import counted, duration, enumerated
from muster.schedulers.reasons import NEEDS, PROTECTED, REASONS, RESERVED, reason
from muster.service.daemon_status import DaemonStatus, LastDecision
from muster.service.engines.clocks import NOTABLE_SECONDS
from muster.service.store import Store
from muster.service.store.rows import Caller, JobRow, State

_SECONDS = "seconds"
_COUNT_DOWN = (reason(PROTECTED), reason(RESERVED))
"""Reasons with a moment to come, as seconds from the decision on."""
_NAMED_AT_MOST = 5


def describe_reason(
    row: JobRow, now: float, drained: Sequence[str] = (), last: LastDecision | None = None
) -> str:
    """Empty for a job that does not wait; `now` is in seconds of the store's clock.

    Nothing starts on the `drained` nodes. The reason's numbers are those of the `last` decision, where it is known.
    """
    if row.state is not State.QUEUED or row.reason not in REASONS:
        return ""
    if row.reason == "placed":
        return "it has a place and begins as soon as the GPUs are empty"
    kind = reason(REASONS[row.reason])
    known, since = reason_figures(row, last)
    figures = dict(known)
    # Noted as of the decision: some of these seconds have passed.
    if kind in _COUNT_DOWN and _SECONDS in figures:
        figures[_SECONDS] = max(figures[_SECONDS] - (now - since), 0.0)
    at_least = figures.get(NEEDS, inf) < row.usual_gpus * row.request.gpu_share
    words = kind.words(figures.get(kind.a, inf), figures.get(kind.b, inf), at_least=at_least)
    return f"{words}; {_are(drained, 'drained')}" if drained else words


def reason_figures(row: JobRow, last: LastDecision | None) -> tuple[Mapping[str, float], float]:
    """The numbers of a waiting job's reason, and of which moment they are.

    The store has those of the first decision that gave the reason.
    """
    noted = row.reason_parameters, row.reason_since
    if last is None:
        return noted
    index, decision = last.taken.index, last.decision
    at = int(np.searchsorted(index, row.id))
    if at == len(index) or index[at] != row.id:
        return noted
    kind = reason(int(decision.reasons[at]))
    if kind.name != row.reason:
        return noted
    figures = kind.parameters(float(decision.reason_a[at]), float(decision.reason_b[at]))
    return figures, last.taken.snapshot.now


def describe_refusal(row: JobRow, status: DaemonStatus, now: float) -> str:
    """What the engine answers instead of starting a job; empty where it has not refused it since its last start."""
    refusal = status.refusals.get(row.id)
    if refusal is None or row.state not in (State.QUEUED, State.RUNNING):
        return ""
    return refusal.described(status.engine, now)


@dataclass(frozen=True)
class ClosedNodes:
    """Nodes on which nothing starts now, each in the order of the cluster."""

    drained: Sequence[str] = ()
    away: Sequence[str] = ()
    """Those that the engine cannot use, and that are not drained here."""

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.drained, *self.away]

    def words(self) -> str:
        """`node0 and node1 are drained, node2 is away`."""
        found = ((self.drained, "drained"), (self.away, "away"))
        return ", ".join(_are(nodes, what) for nodes, what in found if nodes)


def closed_nodes(store: Store, status: DaemonStatus) -> ClosedNodes:
    """The nodes of the cluster that are drained or that the engine cannot use."""
    drained, names = drained_nodes(store, status.cluster), status.cluster.node_index
    return ClosedNodes(drained, [name for name in names if name in status.away and name not in drained])


def drained_nodes(store: Store, cluster: Cluster) -> list[str]:
    """The nodes of the cluster that are drained, in its order."""
    noted = {node.name for node in store.nodes() if node.drained}
    return [node.name for node in cluster.nodes if node.name in noted]


def _are(nodes: Sequence[str], what: str) -> str:
    """`node0 and node1 are drained`, with that word."""
    more = len(nodes) - _NAMED_AT_MOST
    if more > 0:
        return f"{', '.join(nodes[:_NAMED_AT_MOST])} and {more} more are {what}"
    return f"{enumerated(nodes)} {'is' if len(nodes) == 1 else 'are'} {what}"


def differing_clocks(status: DaemonStatus) -> list[str]:
    """Return which machines have another time of day than the daemon's, and by how much."""
    return [
        f"The clock of {machine} is {duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} that of the daemon."
        " Hint: synchronize the clocks of all machines with NTP."
        for machine, ahead in sorted(status.clocks.items())
        if abs(ahead) >= NOTABLE_SECONDS
    ]


def untaken_jobs(status: DaemonStatus, asker: Caller) -> list[str]:
    """Which jobs the engine has for Muster that cannot be taken, and why: the caller's own, an operator's all."""
    return [
        f"{one.name[0].upper()}{one.name[1:]}, of {one.user}, is not taken: {one.words}"
        for one in status.untaken
        if asker.operator or one.user == asker.user
    ]


def nothing_starts(status: DaemonStatus, asker: Caller, now: float) -> list[str]:
    """Said before all else where the scheduler, the engine or the store fails; the scheduler's message may be about any
    job."""
    conditions = [f"{status.conditions[source]}." for source in sorted(status.conditions)]
    if status.failing is None:
        return conditions
    failing = status.failing
    what = f": {failing.words}" if asker.operator else ""
    times, since = counted(failing.count, "time"), duration(max(now - failing.since, 0.0))
    failed = f"The scheduler has failed {times} in {since}{what}; what runs goes on, nothing new starts."
    return [failed, *conditions]
