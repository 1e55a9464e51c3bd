"""Why a running job has what it has: what it would gain from more, and who has it, in a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.formatting import counted
from muster.service.daemon_status import DaemonStatus
from muster.service.learned_sizes import LearnedSizes
from muster.service.store.rows import AllocationInterval, JobRow
from muster.speed.gains import MEMORY_STEP_GB, gains_of

_NOTICEABLE = 0.01
"""A job counts as no faster below this relative gain."""


def what_it_would_gain(
    row: JobRow,
    held: Sequence[AllocationInterval],
    status: DaemonStatus,
    listed: Callable[[Collection[int]], str],
) -> list[str]:
    """Return sentences about the size, the share and the place of a running job.

    `held` is what all jobs hold now; `listed` names jobs as far as the asker may see them.
    """
    own = [interval.allocation for interval in held if interval.job == row.id]
    with_gpus = [here for here in own if here.gpu_ids and here.node in status.cluster.node_index]
    if not with_gpus:
        return []
    sentences = [_size(row, with_gpus, status.cluster)]
    model = status.models().get((row.request.model or "").lower())
    if model is None:
        hint = (
            "`muster profile` measures it" if row.request.model is None else "no model of that name is known"
        )
        return [*sentences, f"What more CPU, memory or a better place would bring is not known: {hint}."]
    gains = gains_of(model, status.cluster, with_gpus)
    nodes = {here.node for here in with_gpus}
    each = "" if len(nodes) == 1 else " on each of its nodes"
    more = [("one more CPU core", gains.one_more_cpu, "cpus", "CPU cores")]
    more += [(f"{MEMORY_STEP_GB:g} GB more memory", gains.more_memory, "memory_gb", "GB of memory")]
    for what, factor, resource, unit in more:
        if factor - 1 < _NOTICEABLE:
            sentences.append(f"With {what}{each} it would be no faster.")
        else:
            who = _who_has(resource, unit, row.id, nodes, held, status, listed)
            sentences.append(f"With {what}{each} it would be {_percent(factor)} faster; {who}.")
    sentences.append(_place(gains.best_place, gains.best_place_kind, len(nodes)))
    return sentences


def _size(row: JobRow, held: Sequence[NodeAllocation[str]], cluster: Cluster) -> str:
    """Return why it has this number of GPUs, and what one more would bring."""
    gpus = sum(len(here.gpu_ids) for here in held)
    if not row.request.changes_size:
        return f"It has {counted(gpus, 'GPU')} because its owner asks for exactly that."
    fewest, most = row.gpu_bounds
    words = f"Its owner allows {fewest} to {most} GPUs, and the scheduler gives it {gpus}"
    learned = LearnedSizes()
    learned.learn(row)
    times = [learned.usual_over(row, size, cluster.most_gpus_per_node) for size in (gpus, gpus + 1)]
    if gpus >= most or None in times:
        return f"{words}."
    now, then = (time for time in times if time is not None)
    return f"{words}; with one more it would be {_percent(then / now)} faster."


def _who_has(
    resource: str,
    unit: str,
    job: int,
    nodes: Collection[str],
    held: Sequence[AllocationInterval],
    status: DaemonStatus,
    listed: Callable[[Collection[int]], str],
) -> str:
    """Return how much of a resource is free on the fullest of its nodes, and which jobs hold the rest."""
    used = dict.fromkeys(nodes, 0.0)
    for interval in held:
        if interval.allocation.node in used:
            used[interval.allocation.node] += getattr(interval.allocation, resource)
    for name, others in status.others.items():
        if name in used:
            used[name] += getattr(others, resource)
    free = {
        name: getattr(status.cluster.nodes[status.cluster.node_index[name]], resource) - amount
        for name, amount in used.items()
    }
    fullest = min(sorted(free), key=free.__getitem__)
    holders = {one.job for one in held if one.allocation.node == fullest and one.job != job}
    left = f"{fullest} has {max(free[fullest], 0.0):.4g} {unit} free"
    hold = "holds" if len(holders) == 1 else "hold"
    return f"{left}, {listed(sorted(holders))} {hold} the others" if holders else left


def _place(factor: float, kind: str, nodes: int) -> str:
    if factor - 1 < _NOTICEABLE:
        return "No other place would make it faster." if nodes > 1 else "Its place is as good as any."
    return f"On a better place ({kind}) it would be {_percent(factor)} faster, if no others used its links."


def _percent(factor: float) -> str:
    gain = 100 * (factor - 1)
    return f"{gain:.0f} %" if gain >= 1 else "less than 1 %"
